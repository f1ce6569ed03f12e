"""State keys name states exactly; states can be saved and loaded; games survive packing and pickling."""

import pickle
from collections import deque
from dataclasses import fields

import numpy as np
import pytest

from agentgym.alfworld.game import PICK, Game
from agentgym.alfworld.generated.generator import GameSpec, generate
from agentgym.alfworld.official.dataset import pack, unpack
from agentgym.alfworld.official.problem import read_game
from agentgym.alfworld.rules import REPAIRS, World
from tests.agentgym.alfworld.support import GOALS, PROBLEM, content, games, random_game, small_game
from tests.refusals import refuses


@pytest.mark.parametrize("repairs", [(), ("ghosts",), tuple(REPAIRS)], ids=lambda names: "+".join(names) or "none")
def test_different_states_have_different_keys(repairs: tuple[str, ...]) -> None:
    """All states of small games within reach, up to a limit."""
    rng, count = np.random.default_rng(0), 0
    for _ in range(12):
        world = World(random_game(rng, size=int(rng.integers(2, 5))), repairs)
        keys = {world.state_key()}
        states = {world.get_state()}
        queue = deque(states)
        while queue and len(states) < 1500:
            here = queue.popleft()
            world.set_state(here)
            for command in world.admissible():
                world.set_state(here)
                world.step(command)
                state = world.get_state()
                if state not in states:
                    states.add(state)
                    queue.append(state)
                    assert world.state_key() not in keys
                    keys.add(world.state_key())
                    world.step("look")
                    assert world.state_key() in keys
        count += len(states)
    assert count > 3000


def test_keys_along_official_games_are_exact() -> None:
    rng = np.random.default_rng(1)
    for _, game in sorted(games("valid_unseen").items())[::20]:
        world, by_key, by_state = World(game), {}, {}
        for _ in range(400):
            key, state = world.state_key(), world.get_state()
            assert by_key.setdefault(key, state) == state
            assert by_state.setdefault(state, key) == key
            options = [command for command in world.admissible() if rng.random() < 0.2 or not command.startswith("go")]
            world.step(str(rng.choice(options)))


def test_what_a_key_says() -> None:
    world = World(
        small_game(
            PICK,
            ("pen", "shelf"),
            [("drawer", 0, True), ("fridge", 1, True), ("shelf", 2, False)],
            [("apple", [1]), ("desklamp", [2]), ("pen", [0]), ("pen", [2])],
        )
    )
    assert world.state_key() == "at the middle of the room"
    for command in ("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "cool apple 1 with fridge 1"):
        world.step(command)
    assert world.state_key() == "at fridge 1; carrying apple 1; open: fridge 1; cool: apple 1; fridge 1: -apple 1"
    for command in ("move apple 1 to fridge 1", "close fridge 1", "go to shelf 1", "use desklamp 1"):
        world.step(command)
    assert world.state_key() == "at shelf 1; cool: apple 1; on: desklamp 1"
    for command in ("take pen 1 from shelf 1", "go to drawer 1", "open drawer 1", "move pen 1 to drawer 1"):
        world.step(command)
    assert (
        world.state_key()
        == "at drawer 1; open: drawer 1; cool: apple 1; on: desklamp 1; drawer 1: +pen 1; shelf 1: -pen 1"
    )
    world.step("take pen 1 from drawer 1")
    assert world.state_key().endswith("drawer 1: ~pen 1; shelf 1: -pen 1")


def test_states_are_saved_and_loaded_exactly() -> None:
    rng = np.random.default_rng(2)
    for index in range(5):
        game = generate(GameSpec("train", index))
        world, other = World(game), World(game)
        for _ in range(40):
            world.step(str(rng.choice(world.admissible())))
            saved = pickle.loads(pickle.dumps(world.get_state()))
            other.set_state(saved)
            assert other.get_state() == world.get_state() == saved
            assert other.state_key() == world.state_key()
            assert (other.admissible(), other.won, other.inventory()) == (
                world.admissible(),
                world.won,
                world.inventory(),
            )
            other.step(str(rng.choice(other.admissible())))
            assert world.get_state() == saved


def same(one: Game, other: Game) -> bool:
    return all(getattr(one, f.name) == getattr(other, f.name) for f in fields(Game))


def test_games_survive_packing_and_pickling() -> None:
    rng = np.random.default_rng(3)
    mug = PROBLEM.replace("GOAL", GOALS[PICK]).replace("Mug_bar_1", 'Mu,g"ü_bar_1')
    known = [read_game(content(pddl_problem=mug), "ä,b/ c")]
    known += [*games("old_put").values()][:5] + [random_game(rng) for _ in range(10)]
    known += [generate(GameSpec("valid_unseen", index)) for index in range(10)]
    for game in known:
        packed, pickled = unpack(pack(game)), pickle.loads(pickle.dumps(game))
        assert same(packed, game)
        assert same(pickled, game)
        assert len({game, packed, pickled}) == 3
        assert packed.room is game.room
    refuses(ValueError, "not a packed game", unpack, b"something else")
