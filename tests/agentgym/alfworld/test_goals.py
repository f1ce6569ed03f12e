"""Goals of a household: which hold, and the game that asks for one of them."""

import itertools
import re

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym  # noqa: F401  # registers the id
from agentgym.alfworld.expert import plan
from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TASK_TYPES, TWO, Game
from agentgym.alfworld.generated.generator import GeneratedGames
from agentgym.alfworld.goals import Goal, goals_done, id_with, own_goal, parse_goal, with_goal
from agentgym.alfworld.rules import REPAIRS, World
from agentgym.alfworld.tasks import choose_game, game_of
from tests.agentgym.alfworld.support import games, random_game, small_game
from tests.refusals import refuses

KITCHEN = [("cabinet", 0, True), ("countertop", 1, False), ("fridge", 2, True), ("sinkbasin", 3, False)]


def kitchen(**changes: object) -> Game:
    """Two mugs on the countertop, one in the fridge that is cool, a lamp beside the first two; a mug is to be hot."""
    things = [("desklamp", [1]), ("mug", [1]), ("mug", [1]), ("mug", [2])]
    return small_game(PICK, ("mug", "cabinet"), KITCHEN, things, cool=0b1000, **changes)


def done_after(game: Game, *commands: str) -> list[Goal]:
    world = World(game)
    for command in commands:
        assert world.step(command).valid, command
    return goals_done(world)


def all_goals(game: Game) -> list[Goal]:
    things, places = sorted(set(game.object_types)), sorted({*game.receptacle_types, *game.object_types})
    return [Goal(*words) for words in itertools.product(TASK_TYPES, things, places)]


def test_goals_by_hand() -> None:
    game = kitchen()
    assert done_after(game) == []
    take = ("go to countertop 1", "take mug 3 from countertop 1")
    lit = (*take, "use desklamp 1")
    assert done_after(game, *lit) == [(LOOK, "mug", "desklamp")]
    # what is put back where it was makes nothing new; in the sink one mug is new, and clean two things
    assert done_after(game, *take, "move mug 3 to countertop 1") == []
    washed = (*take, "go to sinkbasin 1", "clean mug 3 with sinkbasin 1", "move mug 3 to sinkbasin 1")
    assert done_after(game, *washed) == [(PICK, "mug", "sinkbasin"), (CLEAN, "mug", "sinkbasin")]
    # the cool mug of the fridge on the countertop: a mug and two of them were there before, a cool one was not
    moved = (
        "go to fridge 1", "open fridge 1", "take mug 1 from fridge 1", "go to countertop 1",
        "move mug 1 to countertop 1",
    )  # fmt: skip
    assert done_after(game, *moved) == [(COOL, "mug", "countertop")]
    # the game's own goal is none of the others; a second mug makes it two
    cabinet = ("go to cabinet 1", "open cabinet 1")
    one = (*take, *cabinet, "move mug 3 to cabinet 1")
    assert done_after(game, *one) == []
    two = (*one, "go to countertop 1", "take mug 2 from countertop 1", "go to cabinet 1", "move mug 2 to cabinet 1")
    assert done_after(game, *two) == [(TWO, "mug", "cabinet")]
    things = [("mug", [0, 1])]
    game = small_game(PICK, ("mug", "fridge"), KITCHEN, things)
    assert done_after(
        game, "go to countertop 1", "take mug 1 from countertop 1", "go to sinkbasin 1", "clean mug 1 with sinkbasin 1"
    ) == [(CLEAN, "mug", "cabinet")]  # it is still listed in the cabinet


@given(st.integers(0, 2**31), st.sampled_from([(), ("ghosts",), ("toggle",), tuple(REPAIRS)]))
def test_what_is_done_is_what_a_game_with_that_goal_calls_won(seed: int, repairs: tuple[str, ...]) -> None:
    rng = np.random.default_rng(seed)
    game = random_game(rng, size=4)
    others: dict[Goal, Game] = {}
    for goal in all_goals(game):
        try:
            others[goal] = with_goal(game, goal)
        except ValueError:
            continue
    world = World(game, repairs)
    for _ in range(25):
        if world.won:
            break
        possible = world.admissible()
        world.step(str(rng.choice(possible)))
        done = goals_done(world)
        assert set(done) <= others.keys()
        for goal, other in others.items():
            there = World(other, repairs)
            assert not there.won
            there.set_state(world.get_state())
            assert there.won == (goal in done or (goal == own_goal(game) and world.won)), goal


def test_a_game_with_another_goal_and_its_sentence() -> None:
    game = kitchen()
    goal = Goal(CLEAN, "mug", "cabinet")
    other = with_goal(game, goal)
    assert (other.task_id, other.task) == (
        "small/trial#pick_clean_then_place_in_recep-Mug-None-Cabinet", "put a clean mug in cabinet",
    )  # fmt: skip
    assert (other.goal_objects, other.goal_receptacles, other.goal_lamps) == (0b1110, (0,), 0)
    assert other is with_goal(game, goal)
    assert with_goal(game, Goal(PICK, "mug", "cabinet")) is game
    assert with_goal(game, Goal(LOOK, "mug", "desklamp")).goal_lamps == 0b0001
    assert own_goal(other) == goal
    assert id_with(other, Goal(TWO, "mug", "fridge")) == "small/trial#pick_two_obj_and_place-Mug-None-Fridge"
    second = kitchen(task="put some mug on cabinet")
    assert with_goal(second, Goal(CLEAN, "mug", "cabinet")).task == "clean some mug and put it in cabinet"
    env = gym.make("AgentRL/ALFWorld-v0", data="generated").unwrapped
    _, info = env.reset(options={"task_id": _with_sentence(env)})
    assert re.search(r"; to [a-z ]+$", info["state_key"])
    assert HEAT in env.world.game.task_id  # type: ignore[attr-defined]


@pytest.mark.parametrize("source", ["generated", "official"])
def test_games_with_other_goals_are_played_and_planned_like_others(source: str) -> None:
    generated = (GeneratedGames().by_index("train", i) for i in range(12))
    known = list(generated) if source == "generated" else list(games("valid_unseen").values())[::12]
    rng, solved = np.random.default_rng(0), 0
    for game in known:
        goals = []
        for goal in all_goals(game):
            try:
                goals.append(with_goal(game, goal))
            except ValueError:
                continue
        for i in rng.permutation(len(goals))[:6]:
            world = World(goals[i])
            commands = plan(world)
            if commands is None:  # nothing fits, or there are not two of a kind
                continue
            won = [(world.step(command).valid, world.won) for command in commands]
            assert won == [(True, False)] * (len(commands) - 1) + [(True, True)]
            solved += 1
    assert solved > 20


def test_ids_with_a_goal_name_a_game_of_their_split() -> None:
    known = GeneratedGames()
    game = known.by_index("train", 0)
    rng = np.random.default_rng(0)
    goal = next(goal for goal in all_goals(game) if goal.task_type == PICK and is_possible(game, goal))
    name = id_with(game, goal)
    for options in ({"task_id": name}, {"task_id": name, "split": "train"}, {"task_id": name, "index": None}):
        assert choose_game(known, "train", options, rng).task_id == name
    assert game_of(known, name) is with_goal(game, goal)
    with pytest.raises(ValueError, match="belongs to split 'train', not to 'valid_seen'"):
        choose_game(known, "train", {"task_id": name, "split": "valid_seen"}, rng)
    with pytest.raises(ValueError, match="name the task in more than one way"):
        choose_game(known, "train", {"task_id": name, "index": 0}, rng)


def is_possible(game: Game, goal: Goal) -> bool:
    try:
        return with_goal(game, goal) is not game
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fly-Mug-None-Cabinet", r"unknown task type 'fly'; known: 'pick_and_place_simple'"),
        ("pick_and_place_simple-Mug-Cabinet", r"expected '<task type>-<thing>-None-<place>'"),
        ("pick_and_place_simple-mug-None-cabinet", r"its canonical form is 'pick_and_place_simple-Mug-None-Cabinet'"),
        ("pick_and_place_simple-Apple-None-Cabinet", r"has no 'apple' to do that with among desklamp, mug"),
        ("pick_and_place_simple-DeskLamp-None-Cabinet", r"has no 'desklamp' to do that with"),
        (
            "pick_and_place_simple-Mug-None-Sofa",
            r"has no such place 'sofa' among cabinet, countertop, fridge, sinkbasin",
        ),
        ("look_at_obj_in_light-Mug-None-Cabinet", r"has no such place 'cabinet'"),
        ("pick_heat_then_place_in_recep-Mug-None-Cabinet", r"has no sink, microwave or fridge that does it"),
        ("pick_and_place_simple-Mug-None-CounterTop", r"already holds at the start"),
        ("pick_cool_then_place_in_recep-Mug-None-Fridge", r"already holds at the start"),
    ],
)
def test_goals_that_are_none_are_refused(name: str, message: str) -> None:
    refuses(ValueError, message, lambda: with_goal(kitchen(), parse_goal(name)))


def test_a_long_goal_makes_no_long_message() -> None:
    env = gym.make("AgentRL/ALFWorld-v0")
    base = env.reset(options={"index": 0})[1]["task_id"]
    for goal in ("x-" * 10_000, "pick_and_place_simple-" + "a" * 10_000 + "-None-b", "-"):
        with pytest.raises(ValueError, match="goal") as caught:
            env.reset(options={"task_id": f"{base}#{goal}"})
        assert len(str(caught.value)) < 3_000


def _with_sentence(env: object) -> str:
    known = env.tasks  # type: ignore[attr-defined]
    for index in range(50):
        game = known.by_index("train", index)
        for goal in all_goals(game):
            if goal.task_type == HEAT and is_possible(game, goal):
                return id_with(game, goal)
    raise AssertionError("no game in which something could be heated")
