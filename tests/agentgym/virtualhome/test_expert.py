import random

import pytest

from agentgym.virtualhome.activity import Episode
from agentgym.virtualhome.expert import least, plan
from agentgym.virtualhome.generated.activities import GeneratedActivities
from agentgym.virtualhome.goals import Deed, Goal
from agentgym.virtualhome.keys import known_nodes
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import Node, Scene
from tests.agentgym.virtualhome.small_houses import EDGES, NODES, activity, do, replay

ALL = GeneratedActivities()
#: Goals in the small house, and the fewest commands that achieve them, worked out by hand.
GOALS = {
    # walk, grab, walk, put
    "carry": (Goal(edges=((24, "ON", 10),)), 4),
    # walk to the fridge, open, find, grab, walk, put
    "fetch": (Goal(edges=((22, "ON", 12),)), 6),
    # both hands: walk, grab, find, grab, walk, put, put
    "two": (Goal(edges=((20, "ON", 12), (21, "ON", 12))), 7),
    # walk, plug in, switch on
    "light": (Goal(states=((23, "ON"),)), 3),
    # walk, grab, put on
    "dress": (Goal(edges=((24, "ON", 4),)), 3),
    # the mug in hand before the milk: walk, grab, walk, open, find, grab, pour, drink
    "drink": (Goal(edges=((22, "INSIDE", 20),), deeds=(Deed(("DRINK",), 20, Goal(edges=((22, "INSIDE", 20),))),)), 8),
    # walk, lie down, sleep
    "sleep": (Goal(states=((4, "LYING"),), edges=((4, "ON", 12),), deeds=(Deed(("SLEEP",)),)), 3),
    # walk, wash
    "wash": (Goal(states=((21, "CLEAN"),)), 2),
    # something in hand, which may be the jacket: walk, grab, find the lamp, wipe it
    "wipe": (Goal(deeds=(Deed(("WIPE",), 23),)), 4),
    # walk, grab, then the box is closed again before going on: walk, open, find, grab, close, walk, put
    "close": (
        Goal(edges=((22, "ON", 12),), deeds=(Deed(("CLOSE",), 11, Goal(without=((22, "INSIDE", 11),))),)), 7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOALS)
def test_plans_are_as_short_as_by_hand(name: str) -> None:
    goal, length = GOALS[name]
    task = activity(goal)
    commands = plan(task, task.world())
    assert len(commands) == length
    scores = replay(task, commands)
    assert scores[-1] == 1.0
    assert max(scores[:-1], default=0) < 1.0


#: A basket that is shut, with the mug in it, and can be carried; a shelf that faces the bed; a jacket that is worn.
_BASKET = (
    *NODES,
    Node(30, "basket", "Things", ("GRABBABLE", "CAN_OPEN", "CONTAINERS"), ("CLOSED",)),
    Node(31, "shelf", "Furniture", ("SURFACES", "LOOKABLE")),
)
_BASKET_EDGES = (
    *[edge for edge in EDGES if edge[:2] != (20, "ON") and edge[:2] != (24, "ON")],
    (20, "INSIDE", 30), (30, "ON", 10), (30, "INSIDE", 1), (31, "INSIDE", 2), (12, "FACING", 31), (24, "ON", 4),
)  # fmt: skip


def test_a_shut_box_that_can_be_carried_need_not_be_opened() -> None:
    # both in hand: walk to the basket, grab it (the mug is no longer in it then), find the mug, grab it
    task = activity(Goal(edges=((4, "HOLDS_RH", 30), (4, "HOLDS_LH", 20))), scene=Scene(_BASKET, _BASKET_EDGES))
    commands = ("walk to basket 1", "grab basket 1", "find mug 1", "grab mug 1")
    assert replay(task, commands)[-1] == 1.0
    assert least(task, task.world(), 0, 0) == 4


def test_no_play_is_shorter_than_the_bound() -> None:
    """Goals made of what some random commands brought about are not further away than these commands."""
    rng, far = random.Random(0), 0
    for _ in range(1500):
        task = activity(Goal(), scene=Scene(_BASKET, _BASKET_EDGES) if rng.random() < 0.6 else None)
        world, played = task.world(), []
        waits, counts = rng.randrange(20), 1 + rng.randrange(9)
        before, known = world.get_state(), 0
        for number in range(waits + counts):
            if number == waits:
                before, known, edges, states = world.get_state(), known_nodes(world), set(world.edges()), _states(world)
            offered = task.lexicon.offers.admissible(world, known_nodes(world))
            here = [command for command in offered if not command.startswith(("walk", "turn"))] or offered
            line = do(task, world, rng.choice(offered if rng.random() < 0.4 else here))
            if number >= waits:
                played.append(Deed((line.action,), line.things[0][1] if line.things and rng.random() < 0.7 else None))
        share = rng.random()
        now = set(world.edges())
        goal = Goal(
            states=tuple(each for each in sorted(_states(world) - states) if rng.random() < share),
            edges=tuple(edge for edge in sorted(now - edges) if rng.random() < share),
            without=tuple(edge for edge in sorted(edges - now) if rng.random() < share / 2),
            deeds=tuple(deed for deed in played if rng.random() < share / 2),
        )
        aim = activity(goal, scene=task.scene)
        world.set_state(before)
        bound = least(aim, world, known, 0)
        assert bound <= counts, (goal, played)
        far += bound >= 3
    assert far > 200


def _states(world: World) -> set[tuple[int, str]]:
    return {(node, state) for node, _, states in world.nodes() for state in states}


@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_from_wherever_one_has_got_to_a_plan_leads_to_the_goal(split: str) -> None:
    rng, stuck = random.Random(split), 0
    for index in range(48):
        episode = Episode(ALL.by_index(split, index))
        for _ in range(rng.randrange(12)):
            if not episode.won:
                assert episode.act(rng.choice(episode.admissible()))
        for _ in range(40):
            least_left, most_left = episode.distance_bounds()
            command = episode.expert_action()
            if not command:
                break
            assert least_left <= most_left
            assert episode.act(command), command
            # a command takes no more than one off what is needed
            assert episode.distance_bounds()[0] >= least_left - 1
        stuck += not episode.won
    assert stuck <= 3  # a seat that somebody sat on is full


def test_doors_are_opened_and_what_cannot_be_done_has_no_plan() -> None:
    nodes = [Node(3, "door", "Doors", ("CAN_OPEN",), ("CLOSED",)) if node.id == 3 else node for node in NODES]
    task = activity(Goal(edges=((20, "ON", 12), (21, "ON", 12))), scene=Scene(nodes, EDGES))
    commands = plan(task, task.world())
    assert commands is not None
    assert "open door 1" in commands
    assert replay(task, commands)[-1] == 1.0
    task = activity(Goal(states=((20, "ON"),)))
    assert plan(task, task.world()) is None
    assert Episode(task).expert_action() == ""
    assert Episode(task).distance_bounds() == (2.0, float("inf"))
    task = activity(Goal(deeds=(Deed(("POUR",), 22),)), ("grab milk 1",))
    assert plan(task, task.world()) is None
    doorless = Scene(NODES, [edge for edge in EDGES if edge[1] != "BETWEEN"])
    task = activity(GOALS["carry"][0], scene=doorless)
    assert plan(task, task.world()) is None
    assert plan(activity(Goal(edges=((21, "ON", 10),)), scene=doorless), task.world()) == ()


@pytest.mark.parametrize("node", [None, 22])
def test_what_is_poured_goes_where_the_program_pours_it(node: int | None) -> None:
    program = ("open fridge 1", "grab milk 1", "walk to mug 2", "pour milk 1 into mug 2")
    task = activity(Goal(deeds=(Deed(("POUR",), node),)), program)
    commands = plan(task, task.world())
    assert commands[-1] == "pour milk 1 into mug 2"
    assert replay(task, commands)[-1] == 1.0
    assert Episode(task).distance_bounds()[1] == len(commands)
