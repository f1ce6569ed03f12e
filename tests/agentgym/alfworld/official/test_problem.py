"""Game files: names, numbers, sets, goals, wordings, and what is said about those that cannot be read."""

from typing import Any

import pytest

from agentgym.alfworld.game import LOOK, TASK_TYPES
from agentgym.alfworld.official.problem import read_game
from agentgym.outside.text import DataError
from tests.agentgym.alfworld.game_files import GOALS, HELP, PROBLEM, content, grammar


def with_facts(*facts: str) -> str:
    """The small problem, with some facts more."""
    return str(content()["pddl_problem"]).replace("(:init", "\n".join(["(:init", *facts]))


def test_a_small_problem() -> None:
    game = read_game(content(), "task/trial")
    # by mangled id: "drawer_bar__minus..." before "drawer_bar__plus...", so it has the higher number
    assert game.receptacles == ("drawer 2", "drawer 1", "sinkbasin 1")
    assert game.receptacle_types == ("drawer", "drawer", "sinkbasin")
    assert game.objects == ("egg 1", "knife 1", "mug 2", "mug 1", "sink 1", "spoon 1")
    assert game.object_types == ("egg", "knife", "mug", "mug", "sink", "spoon")
    # loc_bar_11, loc_bar_2, loc_bar_5 and loc_bar_9 are numbered downwards too
    assert [game.locations[place] for place in game.places] == ["loc 2", "loc 2", "loc 3"]
    assert game.locations[game.start] == "loc 4"
    assert game.openable == 0b011
    assert game.contents == (0b1010, 0b1000, 0b0100)
    assert game.pickupable == 0b1110
    assert (game.cleanable, game.coolable, game.heatable) == (0b0100, 0b1000, 0)
    assert (game.sliceable, game.vessels, game.cool, game.knives) == (0b1, 0b1100, 0b1000, 0b10)
    assert game.fits == (0b10, 0b10, 0b1100)
    assert game.inner == ((2, 0b100000),)
    assert game.seen_from[game.places[2]] == 0b0100
    assert sum(game.seen_from) == 0b0100  # the egg's location is no place for the agent
    assert (game.goal_objects, game.goal_receptacles, game.goal_lamps) == (0b1100, (0, 1), 0)
    assert (game.task, game.dialect) == ("put a mug in drawer", "move")
    assert game.walkthrough == ("go to drawer 1", "look")
    assert (game.sinks, game.microwaves, game.fridges) == (0b100, 0, 0)


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_six_goals(task_type: str) -> None:
    lamp = "(objectType DeskLamp_bar_1 DeskLampType)\n(toggleable DeskLamp_bar_1)\n(atLocation agent1"
    problem = PROBLEM.replace("(atLocation agent1", lamp).replace("GOAL", GOALS[task_type])
    game = read_game(content(pddl_problem=problem), "task/trial")
    # desklamp 1 comes first; what cannot be cleaned, heated or cooled does not count
    mugs = {"pick_clean_then_place_in_recep": 0b01000, "pick_heat_then_place_in_recep": 0}
    mugs |= {"pick_cool_then_place_in_recep": 0b10000}
    assert game.task_type == task_type
    assert game.goal_objects == mugs.get(task_type, 0b11000)
    assert game.goal_receptacles == (() if task_type == LOOK else (0, 1))
    assert game.goal_lamps == (0b1 if task_type == LOOK else 0)


def test_the_older_version() -> None:
    game = read_game(content(old=True), "task/trial")
    assert (game.dialect, game.walkthrough) == ("put", ())


def test_a_sentence_in_other_words() -> None:
    game = read_game(content(grammar=grammar('find \\"Bob\\\'s\\" mug. Then stop'.replace("\\'", "'"))), "task/trial")
    assert game.task == 'find "Bob\'s" mug. Then stop'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "must hold a JSON object, got list"),
        (content(grammar=None), "no text 'grammar'"),
        (content(pddl_problem=None), "no text 'pddl_problem'"),
        (content(walkthrough=[1]), "'walkthrough' must be a list of commands"),
        (content(walkthrough="look"), "'walkthrough' must be a list of commands, got 'look'"),
        (content(pddl_problem=content()["pddl_problem"].replace("(isCool", "(opened Drawer_bar__plus_01)(isCool")),
         "begins with 'opened'"),
        (content(pddl_problem=content()["pddl_problem"].replace("(isCool", "(holds agent1 Mug_bar_2)(isCool")),
         "begins with 'holds'"),
        (content(grammar="nothing"), "no sentence 'Your task is to"),
        (content(grammar=grammar().replace("You close the", "You shut the")), "unknown version.*You close the"),
        (content(grammar=grammar(old=True) + HELP), "unknown version.*no `help` beside `put`"),
        (content(grammar=grammar().replace("template :: \"help\"", "")), "unknown version.*help"),
        (content(pddl_problem="(:goal)(:init)"), "no \\(:init ...\\) followed by"),
        (content(pddl_problem="(:init )(:goal )"), "the goal is none of the six kinds"),
        (content(pddl_problem=content()["pddl_problem"].replace("(atLocation", "(at")), "atlocation"),
        (content(pddl_problem=content()["pddl_problem"].replace("(objectType Knife", "(kind Knife")), "knife_bar_1"),
        (content(pddl_problem=with_facts("(atLocation agent1 loc_bar_2)")), "2 times where the agent is"),
        (content(pddl_problem=with_facts("(objectType Mug_bar_1 CupType)")),
         "'objecttype' is said of 'mug_bar_1' twice, with 'cuptype' and 'mugtype'"),
        (content(pddl_problem=with_facts("(receptacleType Drawer_bar__plus_01 BedType)")),
         "'receptacletype' is said of 'drawer_bar__plus_01' twice"),
        (content(pddl_problem=with_facts("(receptacleAtLocation Drawer_bar__plus_01 loc_bar_1)")),
         "'receptacleatlocation' is said of 'drawer_bar__plus_01' twice"),
        (content(pddl_problem=with_facts(*(f"(objectType X_bar_{i} XType)" for i in range(1001)))),
         "1,007 objects; at most 1,000 are read"),
        (content(pddl_problem=with_facts(*(f"(receptacleType X_bar_{i} XType)" for i in range(1001)))),
         "1,004 receptacles; at most 1,000 are read"),
        (content(pddl_problem=with_facts(f"(objectType {'X' * 200}_bar_1 XType)")), "has 202 characters; at most 100"),
        (content(grammar=grammar("x" * 1001)), "sentence of the task has 1,019 characters; at most 1,000"),
        (content(pddl_problem=PROBLEM.replace("GOAL", "(exists (?o - object) (isHot ?o))")), "none of the six"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_are_explained(data: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"(?s){message}"):
        read_game(data, "task/trial")


@pytest.mark.parametrize(
    "data",
    [
        {"x" * 5000: 1},
        content(walkthrough="x" * 5000),
        content(walkthrough=["look"] * 5000 + [1]),
        content(pddl_problem=with_facts(f"(inReceptacle {'x' * 5000} Drawer_bar__plus_01)")),
        content(pddl_problem=with_facts(*(f"(objectType {'x' * 5000} {kind}Type)" for kind in "ab"))),
        content(pddl_problem=with_facts() + "x" * 5000, grammar="x" * 5000),
        content(pddl_problem=PROBLEM.replace("GOAL", "x" * 5000)),
    ],
)
def test_messages_stay_short(data: Any) -> None:
    with pytest.raises(DataError) as caught:
        read_game(data, "task/trial")
    assert len(str(caught.value)) < 1000
