"""ALFWorld's rules against recorded episodes; goals, texts and admissible commands."""

import contextlib
import itertools
import re
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.alfworld import rules, text
from agentgym.alfworld.env import ALFWorldEnv
from agentgym.alfworld.expert import plan
from agentgym.alfworld.game import CLEAN, HEAT, LOOK, PICK, TASK_TYPES, TWO, Game
from agentgym.alfworld.generated.generator import GeneratedGames
from agentgym.alfworld.goals import Goal, goals_done, id_with, own_goal, parse_goal, with_goal
from agentgym.alfworld.rules import REPAIRS, World
from agentgym.tasks import choose
from tests.agentgym.alfworld.support import envs_of, episodes, games, play, random_game, small_game, task_id_of
from tests.cases import cases
from tests.refusals import refuses

NONSENSE = (
    "", "  ", "go", "go to", "go to nowhere 1", "Look", "look around", "take", "open fridge", "use desklamp 99",
    "help me", "examine  bowl 1", "move a to b", "put a in/on b", "clean x with y", "slice a with b", "inventory.",
    "close drawer 1 ",
)  # fmt: skip


def test_episodes_of_a_game_share_a_memory_that_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_MOST_KNOWN", 3)
    rng, game = np.random.default_rng(2), GeneratedGames().by_index("train", 5)
    for _ in range(3):
        world = World(game)
        for _ in range(60):
            knife = world.held >= 0 and game.knives >> world.held & 1
            food = game.sliceable & world.seen_from[world.loc] if knife else 0
            assert world.admissible() == rules.work_out(world, food)
            world.step(str(rng.choice(world.admissible())))
        assert 0 < len(World(game).memory.commands) <= 3
    assert World(game).memory is World(game).memory is not World(replace(game)).memory
    assert World(game).admissible() is World(game).admissible()


def kitchen(task_type: str = PICK, goal: tuple[str, str] = ("apple", "cabinet")) -> Game:
    """Two cabinets in one place (0), a fridge (1), a microwave and a sink in one place (2), a shelf (3)."""
    return small_game(
        task_type,
        goal,
        [("cabinet", 0, True), ("cabinet", 0, False), ("fridge", 1, True), ("microwave", 2, True),
         ("shelf", 3, False), ("sinkbasin", 2, False)],
        [("apple", [2]), ("apple", [5]), ("bowl", [0, 4]), ("desklamp", [4]), ("knife", [5]), ("pen", [4])],
    )  # fmt: skip


def tell(world: World, *script: str) -> list[str]:
    return [world.step(command).observation for command in script]


@cases(
    "repair, script, answers",
    ("look", ["look"],
     ["You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, a fridge 1, "
      "a microwave 1, a shelf 1, and a sinkbasin 1."]),
    ("colocated", ["go to cabinet 1", "go to cabinet 2", "go to cabinet 2", "go to shelf 1", "go to shelf 1"],
     ["You arrive at cabinet 1. On the cabinet 1, you see nothing.",
      "You arrive at cabinet 2. The cabinet 2 is closed.",
      "You arrive at cabinet 2. The cabinet 2 is closed.",
      "You arrive at shelf 1. On the shelf 1, you see a bowl 1, a desklamp 1, and a pen 1.",
      "Nothing happens."]),
    ("examine", ["go to shelf 1", "examine pen 1", "examine desklamp 1", "use desklamp 1", "examine desklamp 1",
                 "examine apple 1", "go to fridge 1", "examine apple 2"],
     ["You arrive at shelf 1. On the shelf 1, you see a bowl 1, a desklamp 1, and a pen 1.",
      "There's nothing special about pen 1.", "This desklamp 1 is off.", "You turn on the desklamp 1.",
      "This desklamp 1 is on.", "Nothing happens.", "You arrive at fridge 1. The fridge 1 is closed.",
      "Nothing happens."]),
    ("ghosts", ["go to shelf 1", "take bowl 1 from shelf 1", "go to cabinet 2", "open cabinet 2"],
     ["You arrive at shelf 1. On the shelf 1, you see a bowl 1, a desklamp 1, and a pen 1.",
      "You pick up the bowl 1 from the shelf 1.", "You arrive at cabinet 2. The cabinet 2 is closed.",
      "You open the cabinet 2. The cabinet 2 is open. In it, you see nothing."]),
    ("toggle", ["go to shelf 1", "use desklamp 1", "use desklamp 1", "use desklamp 1"],
     ["You arrive at shelf 1. On the shelf 1, you see a bowl 1, a desklamp 1, and a pen 1.",
      "You turn on the desklamp 1.", "You turn off the desklamp 1.", "You turn on the desklamp 1."]),
)  # fmt: skip
def test_each_repair(repair: str, script: list[str], answers: list[str]) -> None:
    assert tell(World(kitchen(), {repair}), *script) == answers
    assert tell(World(kitchen()), *script) != answers


def test_a_closer_look_says_what_was_done_with_a_thing() -> None:
    for states, said in (
        ("", "There's nothing special about apple 2."), ("clean", "This is a clean apple 2."),
        ("hot", "This is a hot apple 2."), ("cool", "This is a cold apple 2."), ("sliced", "This is a sliced apple 2."),
        ("clean hot", "This is a hot and clean apple 2."), ("clean cool", "This is a cool and clean apple 2."),
        ("hot sliced", "This is a hot sliced apple 2."), ("cool sliced", "This is a cool sliced apple 2."),
        ("clean sliced", "This is a clean sliced apple 2."),
        ("clean hot sliced", "This is a hot and clean sliced apple 2."),
        ("clean cool sliced", "This is a cool and clean sliced apple 2."),
    ):  # fmt: skip
        world = World(kitchen())
        for state in states.split():
            setattr(world, state, 1)
        assert text.closer_look(world, 0) == said


def test_heat_and_cold_lamps_behind_doors_and_things_in_two_places_by_hand() -> None:
    cool = ("go to fridge 1", "open fridge 1", "take apple 2 from fridge 1", "cool apple 2 with fridge 1")
    world = play(World(kitchen()), *cool, "go to microwave 1", "heat apple 2 with microwave 1")
    assert (world.hot, world.cool) == (1, 0)
    play(world, "go to fridge 1", cool[-1])
    assert (world.hot, world.cool) == (0, 1)
    rooms = [("cabinet", 0, False), ("countertop", 0, False), ("drawer", 0, True), ("shelf", 0, False)]
    things = [("desklamp", [2]), ("mug", [0, 3]), ("pencil", [0])]
    world = World(small_game(PICK, ("pencil", "shelf"), rooms, things, inner=((1, 0b100),)))
    assert tell(play(world, "go to shelf 1", "take mug 1 from cabinet 1"), "use desklamp 1", "examine mug 1") == [
        "You turn on the desklamp 1.", "This is a normal mug 1. In it, you see a pencil 1.",
    ]  # fmt: skip
    play(world, "move mug 1 to countertop 1", "take mug 1 from shelf 1", "move mug 1 to countertop 1")
    assert tell(world, "look")[0].endswith("Next to it, you see a mug 1, and a mug 1.")


def test_a_ghost_that_was_taken_cannot_be_sliced_where_it_seemed_to_be() -> None:
    rooms = [("countertop", 0, False), ("sidetable", 1, False), ("sinkbasin", 2, False)]
    game = small_game(PICK, ("mug", "sidetable"), rooms, [("apple", [0, 1]), ("knife", [2])])
    script = (
        "go to countertop 1", "take apple 1 from countertop 1", "go to sinkbasin 1", "move apple 1 to sinkbasin 1",
        "take knife 1 from sinkbasin 1", "go to sidetable 1",
    )  # fmt: skip
    for repairs, possible in ((), True), (("ghosts",), False):
        world = World(game, repairs)
        tell(world, *script)
        assert ("slice apple 1 with knife 1" in world.admissible()) == possible
        assert world.step("slice apple 1 with knife 1").valid == possible
        tell(world, "go to sinkbasin 1")
        assert "slice apple 1 with knife 1" in world.admissible()


@pytest.mark.parametrize("repairs", [(), *((name,) for name in REPAIRS), tuple(REPAIRS)], ids="+".join)
def test_admissible_is_what_can_be_done_under_every_repair(repairs: tuple[str, ...]) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        world = World(random_game(rng, size=4), repairs)
        candidates = sorted({*NONSENSE, *every_command(world.game)})
        for _ in range(15):
            state, possible = world.get_state(), []
            for command in candidates:
                if world.step(command).valid:
                    possible.append(command)
                    world.set_state(state)
                assert world.get_state() == state
            assert list(world.admissible()) == possible
            world.step(str(rng.choice(possible)))


def every_command(game: Game) -> set[str]:
    things = (*game.receptacles, *game.objects)
    pairs = [(a, b) for a in game.objects for b in things]
    found = {"look", "inventory", "help"}
    found |= {f"{verb} {name}" for verb in ("go to", "open", "close", "examine", "use") for name in things}
    found |= {f"{verb} {a} with {b}" for verb in ("clean", "heat", "cool", "slice") for a, b in pairs}
    found |= {f"{verb} {a} {to} {b}" for verb, to in (("put", "in/on"), ("move", "to")) for a, b in pairs}
    return found | {f"take {a} from {b}" for a, b in pairs}


@cases(
    "trace, archive, count, steps",
    ("valid_seen", "valid_seen", 560, 13778),
    ("old_put", "old_put", 60, 2379),
    ("train", "train_240", 86, 1611),
    pytest.param("train", "train_3553", 1273, 23559, marks=pytest.mark.long),
)
def test_recorded_episodes_of_both_wordings(trace: str, archive: str, count: int, steps: int) -> None:
    known = games(archive)
    played = [episode for episode in episodes(trace) if task_id_of(episode) in known]
    assert len(played) == count
    for episode in played:
        limit = next((row["t"] for row in episode[1:] if row["done"] and not row["won"]), 1000)
        envs = envs_of(1, [known[task_id_of(episode)]], max_episode_steps=limit, autoreset_mode="Disabled")
        (observation,), infos = envs.reset(options={"index": 0})
        over = False
        for row in episode:
            if row["kind"] == "step":
                admissible = row["action"].strip() in infos["admissible_actions"][0]
                (observation,), (reward,), (terminated,), (truncated,), infos = envs.step([row["action"]])
                if not over:  # afterwards the original repeats its score; here nothing is rewarded twice
                    assert reward == row["reward"], row
                    assert infos["is_action_valid"][0] == admissible, row
                over = terminated or truncated
                assert over == row["done"], row
                steps -= 1
            assert observation == row["observation"], row
            assert list(infos["admissible_actions"][0]) == row["admissible_commands"], row
            assert infos["won"][0] == row["won"], row
    assert steps == 0


KITCHEN = [("cabinet", 0, True), ("countertop", 1, False), ("fridge", 2, True), ("sinkbasin", 3, False)]


def goals_kitchen(**changes: object) -> Game:
    """Two mugs on the countertop, one in the fridge that is cool, a lamp beside the first two; a mug is to be hot."""
    things = [("desklamp", [1]), ("mug", [1]), ("mug", [1]), ("mug", [2])]
    return small_game(PICK, ("mug", "cabinet"), KITCHEN, things, cool=0b1000, **changes)


def done_after(game: Game, *commands: str) -> list[Goal]:
    return goals_done(play(World(game), *commands))


def other_games(game: Game) -> dict[Goal, Game]:
    """The game with every goal that is possible in it."""
    things, places = sorted(set(game.object_types)), sorted({*game.receptacle_types, *game.object_types})
    found = {}
    for goal in itertools.starmap(Goal, itertools.product(TASK_TYPES, things, places)):
        with contextlib.suppress(ValueError):
            found[goal] = with_goal(game, goal)
    return found


def test_goals_by_hand() -> None:
    game = goals_kitchen()
    assert done_after(game) == []
    take = ("go to countertop 1", "take mug 3 from countertop 1")
    lit = (*take, "use desklamp 1")
    assert done_after(game, *lit) == [(LOOK, "mug", "desklamp")]
    # what is put back where it was makes nothing new; in the sink one mug is new, and clean two things
    assert done_after(game, *take, "move mug 3 to countertop 1") == []
    washed = (*take, "go to sinkbasin 1", "clean mug 3 with sinkbasin 1", "move mug 3 to sinkbasin 1")
    assert done_after(game, *washed) == [(PICK, "mug", "sinkbasin"), (CLEAN, "mug", "sinkbasin")]
    # the game's own goal is none of the others
    one = (*take, "go to cabinet 1", "open cabinet 1", "move mug 3 to cabinet 1")
    assert done_after(game, *one) == []
    game = small_game(PICK, ("mug", "fridge"), KITCHEN, [("mug", [0, 1])])
    clean = ("go to countertop 1", "take mug 1 from countertop 1", "go to sinkbasin 1", "clean mug 1 with sinkbasin 1")
    assert done_after(game, *clean) == [(CLEAN, "mug", "cabinet")]  # it is still listed in the cabinet


@given(st.integers(0, 2**31), st.sampled_from([(), ("ghosts",), ("toggle",), tuple(REPAIRS)]))
def test_what_is_done_is_what_a_game_with_that_goal_calls_won(seed: int, repairs: tuple[str, ...]) -> None:
    rng = np.random.default_rng(seed)
    game = random_game(rng, size=4)
    others, world = other_games(game), World(game, repairs)
    for _ in range(25):
        if world.won:
            break
        world.step(str(rng.choice(world.admissible())))
        done = goals_done(world)
        assert set(done) <= others.keys()
        for goal, other in others.items():
            there = World(other, repairs)
            assert not there.won
            there.set_state(world.get_state())
            assert there.won == (goal in done or (goal == own_goal(game) and world.won)), goal


def test_a_game_with_another_goal_and_its_sentence() -> None:
    game = goals_kitchen()
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
    second = goals_kitchen(task="put some mug on cabinet")
    assert with_goal(second, Goal(CLEAN, "mug", "cabinet")).task == "clean some mug and put it in cabinet"
    env = ALFWorldEnv(data="generated")
    known = (env.tasks.by_index("train", index) for index in range(50))
    heated = next(id_with(game, goal) for game in known for goal in other_games(game) if goal.task_type == HEAT)
    _, info = env.reset(options={"task_id": heated})
    assert re.search(r"; to [a-z ]+$", info["state_key"])
    assert HEAT in env.world.game.task_id


@pytest.mark.parametrize("source", ["generated", "official"])
def test_games_with_other_goals_are_played_and_planned_like_others(source: str) -> None:
    generated = (GeneratedGames().by_index("train", i) for i in range(12))
    known = list(generated) if source == "generated" else list(games("valid_unseen").values())[::12]
    rng, solved = np.random.default_rng(0), 0
    for game in known:
        others = [*other_games(game).values()]
        for i in rng.permutation(len(others))[:6]:
            world = World(others[i])
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
    goal = next(goal for goal, other in other_games(game).items() if goal.task_type == PICK and other is not game)
    name = id_with(game, goal)
    for options in ({"task_id": name}, {"task_id": name, "split": "train"}, {"task_id": name, "index": None}):
        assert choose(known, "train", options, rng).task_id == name
    assert known.by_id(name, None) is with_goal(game, goal)
    with pytest.raises(ValueError, match="belongs to split 'train', not to 'valid_seen'"):
        choose(known, "train", {"task_id": name, "split": "valid_seen"}, rng)
    with pytest.raises(ValueError, match="name the task in more than one way"):
        choose(known, "train", {"task_id": name, "index": 0}, rng)


@cases(
    "name, message",
    ("fly-Mug-None-Cabinet", r"unknown task type 'fly'; known: 'pick_and_place_simple'"),
    ("pick_and_place_simple-Mug-Cabinet", r"expected '<task type>-<thing>-None-<place>'"),
    ("pick_and_place_simple-mug-None-cabinet", r"its canonical form is 'pick_and_place_simple-Mug-None-Cabinet'"),
    ("pick_and_place_simple-Apple-None-Cabinet", r"has no 'apple' to do that with among desklamp, mug"),
    ("pick_and_place_simple-DeskLamp-None-Cabinet", r"has no 'desklamp' to do that with"),
    ("pick_and_place_simple-Mug-None-Sofa", r"has no such place 'sofa' among cabinet, countertop, fridge, sinkbasin"),
    ("look_at_obj_in_light-Mug-None-Cabinet", r"has no such place 'cabinet'"),
    ("pick_heat_then_place_in_recep-Mug-None-Cabinet", r"has no sink, microwave or fridge that does it"),
    ("pick_and_place_simple-Mug-None-CounterTop", r"already holds at the start"),
    ("pick_cool_then_place_in_recep-Mug-None-Fridge", r"already holds at the start"),
)
def test_goals_that_are_none_are_refused(name: str, message: str) -> None:
    refuses(ValueError, message, lambda: with_goal(goals_kitchen(), parse_goal(name)))


def test_a_long_goal_makes_no_long_message() -> None:
    env = gym.make("AgentRL/ALFWorld-v0")
    base = env.reset(options={"index": 0})[1]["task_id"]
    for goal in ("x-" * 10_000, "pick_and_place_simple-" + "a" * 10_000 + "-None-b", "-"):
        with pytest.raises(ValueError, match="goal") as caught:
            env.reset(options={"task_id": f"{base}#{goal}"})
        assert len(str(caught.value)) < 3_000
