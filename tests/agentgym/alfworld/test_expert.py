"""Shortest plans: by hand, and against a search over all states of small games."""

import numpy as np
import pytest

from agentgym.alfworld.expert import distance, optimal_commands, plan
from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TASK_TYPES, TWO, Game
from agentgym.alfworld.generated.generator import GameSpec, generate
from agentgym.alfworld.rules import World
from tests.agentgym.alfworld.support import IDLE, Search, games, random_game, small_game
from tests.agentgym.alfworld.support import key as what_matters

_VERBS = ("go", "open", "close", "take", "move", "use")
_TREATS = {CLEAN: "clean", HEAT: "heat", COOL: "cool"}


def play(world: World, *commands: str) -> World:
    for command in commands:
        assert world.step(command).valid, command
    return world


def compare(seed: int, count: int) -> tuple[int, int]:
    """Compare all states of some random games; returns the numbers of states and of dead ends."""
    rng = np.random.default_rng(seed)
    states = dead = 0
    for i in range(count):
        game = random_game(rng, TASK_TYPES[i % 6], size=int(rng.integers(2, 5)))
        repairs = ("ghosts", "toggle")[: rng.integers(3)] if rng.random() < 0.3 else ()
        # with all verbs now and then: heating what should be cool, cleaning what need not be
        treats = ("clean", "heat", "cool") if rng.random() < 0.1 else (_TREATS.get(game.task_type, ""),)
        search = Search(game, repairs, (*_VERBS, *treats), limit=3000)
        if not search.complete:
            continue
        world = World(game, repairs)
        for key, state in search.states.items():
            world.set_state(state)
            length = search.distance[key]
            assert distance(world) == length, (i, key)
            assert optimal_commands(world) == search.best(key), (i, key)
            commands = plan(world)
            assert (None if commands is None else len(commands)) == length
            if commands is not None:
                assert play(world, *commands).won
            states += 1
            dead += length is None
    return states, dead


def test_every_state_of_small_games_has_the_length_and_the_first_commands_that_a_search_finds() -> None:
    states, dead = compare(seed=0, count=24)
    assert states > 4000
    assert dead > 100


@pytest.mark.long
def test_many_more_small_games() -> None:
    assert compare(seed=1, count=240)[0] > 60_000


@pytest.mark.parametrize(
    ("kind", "count"), [*((kind, 1) for kind in TASK_TYPES), pytest.param("", 40, marks=pytest.mark.long)]
)
def test_no_search_finds_a_shorter_way_in_generated_games(kind: str, count: int) -> None:
    """Whole rooms, the smallest there are, with all commands that change anything, from the first state on."""
    games = [generate(GameSpec("train", index, ghosts=0.1)) for index in range(200)]
    games = sorted((game for game in games if kind in game.task_type), key=lambda game: len(game.receptacles))
    for game in games[:count]:
        assert first_win(game) == len(game.walkthrough) == distance(World(game)), game.task_id


def first_win(game: Game) -> int:
    """Commands to the nearest won state, breadth first."""
    world, length = World(game), 0
    known, layer = {what_matters(world)}, [world.get_state()]
    while layer:
        length, before, layer = length + 1, layer, []
        for state in before:
            world.set_state(state)
            for command in world.admissible():
                if not command.startswith(IDLE):
                    world.set_state(state)
                    world.step(command)
                    if world.won:
                        return length
                    if what_matters(world) not in known:
                        known.add(what_matters(world))
                        layer.append(world.get_state())
    raise AssertionError(f"{game.task_id} cannot be won")


def kitchen(task_type: str, goal: tuple[str, str], objects: list[tuple[str, list[int]]]) -> World:
    rooms = [("cabinet", 0, True), ("countertop", 1, False), ("fridge", 2, True), ("sinkbasin", 3, False)]
    return World(small_game(task_type, goal, rooms, objects))


def test_plans_by_hand() -> None:
    world = kitchen(CLEAN, ("mug", "cabinet"), [("mug", [2])])
    assert plan(world) == (
        "go to fridge 1",
        "open fridge 1",
        "take mug 1 from fridge 1",
        "go to sinkbasin 1",
        "clean mug 1 with sinkbasin 1",
        "go to cabinet 1",
        "open cabinet 1",
        "move mug 1 to cabinet 1",
    )
    assert distance(world) == 8
    assert optimal_commands(world) == ("go to fridge 1",)
    # apple, held, may lie in the fridge: two commands more than with empty hands, and the fridge is opened anyway
    world = kitchen(PICK, ("mug", "countertop"), [("apple", [3]), ("mug", [2])])
    assert distance(world) == 5
    play(world, "go to sinkbasin 1", "take apple 1 from sinkbasin 1")
    # move apple to sinkbasin; go fridge, open, take; go countertop, move. Or carry it to the fridge: as long
    assert distance(world) == 6
    assert optimal_commands(world) == ("go to fridge 1", "move apple 1 to sinkbasin 1")
    play(world, "go to countertop 1")
    assert distance(world) == 6
    assert optimal_commands(world) == ("go to fridge 1", "move apple 1 to countertop 1")
    world = kitchen(PICK, ("mug", "cabinet"), [("mug", [1]), ("teddybear", [1])])
    play(world, "go to countertop 1")
    assert distance(world) == 4
    play(world, "take teddybear 1 from countertop 1")
    assert plan(world) is None
    assert distance(world) is None
    assert optimal_commands(world) == ()
    world = kitchen(PICK, ("mug", "countertop"), [("mug", [3])])
    play(world, *(plan(world) or ()))
    assert world.won
    assert plan(world) == ()
    assert distance(world) == 0
    assert optimal_commands(world) == ()
    # the mug is listed in the sink and on the countertop: take, clean, and a clean mug is on the countertop
    world = kitchen(CLEAN, ("mug", "countertop"), [("mug", [1, 3])])
    assert plan(world) == ("go to sinkbasin 1", "take mug 1 from sinkbasin 1", "clean mug 1 with sinkbasin 1")
    repaired = World(world.game, ("ghosts",))
    assert distance(repaired) == 5
    rooms = [("countertop", 0, False), ("sidetable", 1, False)]
    world = World(small_game(PICK, ("mug", "sidetable"), rooms, [("mug", [0])], dialect="put"))
    assert plan(world) == (
        "go to countertop 1",
        "take mug 1 from countertop 1",
        "go to sidetable 1",
        "put mug 1 in/on sidetable 1",
    )


def test_lamps_and_two_objects_by_hand() -> None:
    rooms = [("desk", 0, False), ("drawer", 0, True), ("shelf", 1, False)]
    world = World(small_game(LOOK, ("pen", "desklamp"), rooms, [("desklamp", [0]), ("pen", [1])]))
    assert distance(world) == 4
    assert optimal_commands(world) == ("go to desk 1", "go to drawer 1")
    play(world, "go to desk 1")
    # official walkthroughs switch the lamp on first
    assert (plan(world) or ())[1:] == ("use desklamp 1", "take pen 1 from drawer 1")
    assert optimal_commands(world) == ("open drawer 1", "use desklamp 1")
    play(world, "use desklamp 1", "open drawer 1")
    assert optimal_commands(world) == ("take pen 1 from drawer 1",)
    rooms = [("cabinet", 0, True), ("cabinet", 1, True), ("countertop", 2, False)]
    objects = [("mug", [0]), ("mug", [2]), ("mug", [2])]
    world = World(small_game(TWO, ("mug", "cabinet"), rooms, objects))
    # go countertop, take, go cabinet 2 (it holds mug 3), open, move
    assert distance(world) == 5
    play(world, "go to cabinet 2", "open cabinet 2", "take mug 3 from cabinet 2", "go to cabinet 1", "open cabinet 1")
    play(world, "move mug 3 to cabinet 1")
    # both cabinets are open: the nearest way is to this one
    assert plan(world) is not None
    assert distance(world) == 4
    assert optimal_commands(world) == ("go to countertop 1",)


def test_only_what_cannot_be_put_down_is_a_dead_end_of_a_game_that_can_be_won() -> None:
    rng = np.random.default_rng(2)
    games = dead = 0
    for i in range(24):
        game = random_game(rng, TASK_TYPES[i % 6])
        search = Search(game, (), (*_VERBS, _TREATS.get(game.task_type, "")), limit=3000)
        if not search.complete or search.distance[next(iter(search.states))] is None:
            continue
        games += 1
        for key, length in search.distance.items():
            held = key[1]
            counts = held >= 0 and game.goal_objects >> held & 1
            stuck = held >= 0 and not counts and not any(fit >> held & 1 for fit in game.fits)
            assert (length is None) == stuck, (i, key)
            dead += stuck
    assert games > 8
    assert dead > 20


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_official_walkthroughs_are_shortest_plans(split: str) -> None:
    for game in games(split).values():
        assert distance(World(game)) == len(game.walkthrough), game.task_id
        world = World(game)
        for left, command in zip(range(len(game.walkthrough), 0, -1), game.walkthrough, strict=True):
            assert distance(world) == left
            assert command in optimal_commands(world)
            play(world, command)
        assert world.won


@pytest.mark.parametrize("ghosts", [0.0, 0.3])
def test_in_whole_rooms_each_length_is_one_more_than_that_of_the_best_next_state(ghosts: float) -> None:
    rng = np.random.default_rng(3)
    for index in range(18):
        world = World(generate(GameSpec("train", index, ghosts=ghosts)))
        for _ in range(8):
            # some commands at random, some that lead on, so that all stages of the task are met
            best = optimal_commands(world)
            assert play(world, str(rng.choice(best if best and rng.random() < 0.6 else world.admissible())))
            if world.won:
                break
            here, lengths = world.get_state(), {}
            for command in world.admissible():
                lengths[command] = distance(play(world, command))
                world.set_state(here)
            known = [length for length in lengths.values() if length is not None]
            length = distance(world)
            assert length == (min(known) + 1 if known else None)
            nearer = [] if length is None else [c for c, left in lengths.items() if left == length - 1]
            assert optimal_commands(world) == tuple(sorted(nearer))
