"""The rules against a plain reading of them, and by hand."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agentgym.alfworld import rules, text
from agentgym.alfworld.game import PICK, TASK_TYPES, Game
from agentgym.alfworld.generated.generator import GeneratedGames
from agentgym.alfworld.rules import REPAIRS, World
from tests.agentgym.alfworld.naive import NaiveWorld
from tests.agentgym.alfworld.support import envs_of, episodes, games, random_game, small_game, task_id_of

WEIGHTS = {"go": 1, "take": 6, "move": 6, "put": 6, "slice": 20, "use": 10, "clean": 10, "heat": 10, "cool": 10}
NONSENSE = (
    "", "  ", "go", "go to", "go to nowhere 1", "Look", "look around", "take", "open fridge", "use desklamp 99",
    "help me", "examine  bowl 1", "move a to b", "put a in/on b", "clean x with y", "slice a with b", "inventory.",
    "close drawer 1 ",
)  # fmt: skip


def draw(world: World, rng: np.random.Generator) -> str:
    """Mostly commands that change something, at times ones that cannot be done."""
    if rng.random() < 0.1:
        return str(rng.choice(NONSENSE))
    options = world.admissible()
    if rng.random() < 0.1:  # a command of another place, or of another state
        return f"  {options[rng.integers(len(options))]}1 " if rng.random() < 0.5 else f"{rng.choice(options)}\n"
    weights = np.array([WEIGHTS.get(command.split()[0], 2) for command in options], float)
    return str(rng.choice(options, p=weights / weights.sum()))


def compare(game: Game, rng: np.random.Generator, steps: int, earlier: set[str]) -> None:
    world, naive = World(game), NaiveWorld(game)
    for _ in range(steps):
        possible = naive.commands()
        assert list(world.admissible()) == possible
        assert rules.work_out(world, slices_here(world)) == world.admissible()
        command = draw(world, rng) if rng.random() < 0.95 or not earlier else str(rng.choice(sorted(earlier)))
        before = naive.state()
        observation, valid = world.step(command)
        assert valid == (command.strip() in possible), command
        expected = naive.step(command)
        assert observation == (text.HELP if expected == "help" else expected), command
        assert valid or naive.state() == before
        assert world.won == naive.won(), command
        earlier.update(possible[:: len(possible) // 5])
    assert list(world.admissible()) == naive.commands()


def slices_here(world: World) -> int:
    knife = world.held >= 0 and world.game.object_types[world.held] in ("knife", "butterknife")
    return world.game.sliceable & world.seen_from[world.loc] if knife else 0


def play(known: Iterable[Game], steps: int) -> None:
    rng, earlier = np.random.default_rng(0), set[str]()
    for game in known:
        compare(game, rng, steps, earlier)


def test_like_the_plain_reading_on_small_games() -> None:
    rng = np.random.default_rng(1)
    play([random_game(rng, size=int(rng.integers(2, 5))) for _ in range(60)], 60)


@pytest.mark.parametrize("dialect", ["move", "put"])
def test_like_the_plain_reading_on_generated_games(dialect: str) -> None:
    made = GeneratedGames(dialect=dialect, ghosts=0.2)
    play([made.by_index("valid_seen", i) for i in range(12)], 60)


def test_like_the_plain_reading_on_official_games() -> None:
    known = games("valid_unseen")
    play([known[task_id] for task_id in sorted(known)[::9]], 100)


def test_episodes_of_a_game_share_a_memory_that_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_MOST_KNOWN", 3)
    rng, game = np.random.default_rng(2), GeneratedGames().by_index("train", 5)
    for _ in range(3):
        compare(game, rng, 60, set())
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


def test_first_texts() -> None:
    game = kitchen()
    assert text.introduction(game) == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
        "cabinet 2, a cabinet 1, a fridge 1, a microwave 1, a shelf 1, and a sinkbasin 1.\n\n"
        "Your task is to: pick_and_place_simple apple cabinet."
    )
    assert tell(World(game), "look", "inventory", "dance") == [
        "You are in the middle of a room. Looking quickly around you, you see nothing.",
        "You are not carrying anything.",
        "Nothing happens.",
    ]


def test_a_visit_to_the_kitchen() -> None:
    world = World(kitchen())
    assert tell(
        world, "go to fridge 1", "take apple 2 from fridge 1", "open fridge 1", "take apple 2 from fridge 1"
    ) == [
        "You arrive at fridge 1. The fridge 1 is closed.",
        "Nothing happens.",
        "You open the fridge 1. The fridge 1 is open. In it, you see a apple 2.",
        "You pick up the apple 2 from the fridge 1.",
    ]
    assert tell(world, "inventory", "close fridge 1", "cool apple 2 with fridge 1", "examine apple 2") == [
        "You are carrying: a apple 2.",
        "You close the fridge 1.",
        "You cool the apple 2 using the fridge 1.",
        "This is a cold apple 2.",
    ]
    assert tell(
        world, "go to sinkbasin 1", "heat apple 2 with microwave 1", "clean apple 2 with sinkbasin 1", "examine apple 2"
    ) == [
        "You arrive at sinkbasin 1. On the sinkbasin 1, you see a apple 1, and a knife 1.",
        "You heat the apple 2 using the microwave 1.",
        "You clean the apple 2 using the sinkbasin 1.",
        "This is a hot and clean apple 2.",
    ]
    assert world.inventory() == "apple 2 (cleaned) (heated)"
    assert world.location() == "microwave 1, and sinkbasin 1"
    assert world.admissible() == (
        "clean apple 2 with sinkbasin 1", "examine apple 2", "examine microwave 1", "examine sinkbasin 1",
        "go to cabinet 1", "go to cabinet 2", "go to fridge 1", "go to shelf 1", "heat apple 2 with microwave 1",
        "help", "inventory", "look", "move apple 2 to sinkbasin 1", "open microwave 1",
    )  # fmt: skip
    assert tell(
        world, "move apple 2 to sinkbasin 1", "take knife 1 from sinkbasin 1", "slice apple 2 with knife 1"
    ) == [
        "You move the apple 2 to the sinkbasin 1.",
        "You pick up the knife 1 from the sinkbasin 1.",
        "You sliced the apple 2 with the knife 1.",
    ]
    assert not world.won
    tell(world, "move knife 1 to sinkbasin 1", "take apple 2 from sinkbasin 1")
    assert tell(world, "examine apple 2") == ["This is a hot and clean sliced apple 2."]


@pytest.mark.parametrize(
    ("repair", "script", "answers"),
    [
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
    ],
)  # fmt: skip
def test_each_repair(repair: str, script: list[str], answers: list[str]) -> None:
    assert tell(World(kitchen(), {repair}), *script) == answers
    assert tell(World(kitchen()), *script) != answers


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


@pytest.mark.parametrize("repairs", [*((name,) for name in REPAIRS), tuple(REPAIRS)], ids="+".join)
def test_admissible_is_what_can_be_done_under_every_repair(repairs: tuple[str, ...]) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        world = World(random_game(rng, size=4), repairs)
        candidates = sorted(every_command(world.game))
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
    return found | {f"take {a} from {b}" for a, b in pairs} | {f"move {a} to {b}" for a, b in pairs}


Episode = list[dict[str, Any]]


def replay(played: list[Episode], known: dict[str, Game]) -> int:
    """Play the recorded commands and compare everything; returns the number of steps."""
    steps = 0
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
                steps += 1
            assert observation == row["observation"], row
            assert list(infos["admissible_actions"][0]) == row["admissible_commands"], row
            assert infos["won"][0] == row["won"], row
    return steps


@pytest.mark.parametrize(("trace", "count", "steps"), [("valid_seen", 560, 13778), ("old_put", 60, 2379)])
def test_recorded_episodes_of_both_wordings(trace: str, count: int, steps: int) -> None:
    played = episodes(trace)
    assert len(played) == count
    assert replay(played, games(trace, {task_id_of(episode) for episode in played})) == steps


def test_recorded_episodes_of_the_small_train_archive() -> None:
    known = games("train_240")
    played = [episode for episode in episodes("train") if task_id_of(episode) in known]
    assert len({task_id_of(episode) for episode in played}) == 43
    assert replay(played, known) > 1000


@pytest.mark.long
def test_the_whole_train_split() -> None:
    """Every walkthrough wins with its last command, none before; all recorded train episodes are the same."""
    known = games("train_3553")
    counts = Counter(game.task_type for game in known.values())
    assert [counts[kind] for kind in TASK_TYPES] == [790, 308, 650, 459, 533, 813]
    for game in known.values():
        check_walkthrough(game)
    played = episodes("train")
    assert len(played) == 1273
    assert replay(played, known) == 23559


@pytest.mark.parametrize(("archive", "count"), [("valid_seen", 140), ("valid_unseen", 134), ("valid_train", 200)])
def test_every_walkthrough_of_the_validation_splits_wins(archive: str, count: int) -> None:
    known = games(archive)
    assert len(known) == count
    for game in known.values():
        check_walkthrough(game)


def check_walkthrough(game: Game) -> None:
    world = World(game)
    assert 3 <= len(game.walkthrough) <= 10
    assert game.task_id.startswith(game.task_type + "-")
    for command in game.walkthrough:
        assert not world.won
        assert world.step(command).valid, (game.task_id, command)
    assert world.won, game.task_id


def test_games_of_the_older_version_have_no_walkthrough_and_the_same_rooms() -> None:
    old = games("old_put")
    assert {game.dialect for game in old.values()} == {"put"}
    assert {game.walkthrough for game in old.values()} == {()}
    new = games("valid_seen") | games("valid_unseen")
    for task_id, game in old.items():
        other = new[task_id]
        assert (game.receptacles, game.objects, game.contents) == (other.receptacles, other.objects, other.contents)
        assert (game.locations, game.task, game.goal_objects) == (other.locations, other.task, other.goal_objects)
