"""The true change of distance: by hand, as the solver and as the environment knows it, and where it is not known."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from benchmarks.truth.episodes import NoisyExpert, play_scripted, scripted_of
from benchmarks.truth.graphs import kinds_of_steps
from tests.distances import distance_changes, state_distances
from wrappers.distance import Distances, distance_gains

# One box in a corridor of two rows: the box must go right; in a corner or along the lower wall it is lost.
START = "######\n#P__O#\n#_X__#\n#____#\n######"
DEAD = "######\n#___O#\n#_P__#\n#_X__#\n######"  # pushed down to the lower wall: no target there
SOLVED = "######\n#___√#\n#___P#\n#____#\n###### [success]"


def table_of(steps):
    names = ("state", "action", "next_state")
    columns = {name: [step[i] for step in steps] for i, name in enumerate(names)}
    n = len(steps)
    return StepTable.from_arrays(
        group=["g"] * n, trajectory=range(n), t=[0] * n, reward=[0.0] * n, won=[0] * n, **columns
    )


def test_changes_and_bounds_by_hand() -> None:
    # From START: the box at row 2, column 2 must go two cells right and one up. Pushing right twice takes the player
    # down, right, right: box at column 4, player at column 3; then down, right, up: 6 moves in all, and no way is
    # shorter, because the three pushes need the player on the box's left and then below it.
    below = START.replace("P", "_").replace("#_X", "#PX")
    right = "######\n#_P_O#\n#_X__#\n#____#\n######"
    above_pushed = DEAD
    table = table_of([
        (START, "down", below), (START, "right", right), (START, "up", START), (right, "down", above_pushed),
        (above_pushed, "up", DEAD.replace("_P_", "___").replace("#___O#", "#_P_O#")), (below, "up", START),
    ])  # fmt: skip
    distance = state_distances(table)
    named = dict(zip(table.states, distance.tolist(), strict=True))
    assert (named[START], named[below], named[right], named[DEAD]) == (6, 5, 7, np.inf)
    # One nearer, one farther, nothing, into a dead end, within it nothing, one farther.
    assert distance_changes(table, distance).tolist() == [1, -1, 0, -np.inf, 0, -1]
    assert state_distances(table_of([(SOLVED.removesuffix(" [success]").replace("√", "O").replace("___P", "__XP"),
                                      "x", SOLVED)]))[1] == 0  # fmt: skip
    table = StepTable.from_arrays(
        group=["g"] * 3, trajectory=["a"] * 3, t=[0, 1, 2], state=["s", "u", "v"], action=["x"] * 3,
        next_state=["u", "v", "w"], reward=[0, 0, 0], won=[0, 0, 0],
    )  # fmt: skip
    inf = np.inf
    found = {("g", "s"): (2.0, 2.0), ("g", "u"): (inf, inf), ("g", "v"): (inf, inf), ("g", "w"): (1.0, inf)}
    np.testing.assert_array_equal(distance_gains(table, found), [-inf, 0.0, np.nan])
    asked = []
    env = SimpleNamespace(distance=lambda: asked.append(1) or 3.0)
    wrapper = object.__new__(Distances)
    wrapper.found = {}
    object.__setattr__(wrapper, "env", SimpleNamespace(unwrapped=SimpleNamespace(envs=[env, env])))
    shown = SimpleNamespace(entry=lambda name, i: {"task_id": "g", "state_key": "s"}.get(name))
    wrapper.begin([0, 1], shown)
    assert wrapper.found == {("g", "s"): (3.0, 3.0)}
    assert len(asked) == 1


def test_every_state_of_real_episodes_agrees_with_the_environment():
    envs = gym.make_vec("AgentRL/Sokoban-v0", 8, autoreset_mode="Disabled", expert=True)
    table = collect(
        envs,
        NoisyExpert(0.3, scripted_of("sokoban").others),
        tasks=[{"split": "train", "index": i} for i in range(4)],
        group_size=2,
        seed=3,
    )
    distance = state_distances(table)
    env = gym.make("AgentRL/Sokoban-v0").unwrapped
    for i, key in enumerate(table.states):
        if not key.endswith(" [success]"):
            env.reset(options={"level": key})
            assert env.distance() == distance[i]
    assert {table.next_state[row] for row in table.last[table.trajectory_won]} == set(
        np.flatnonzero(distance == 0).tolist()
    )
    changes = distance_changes(table, distance)
    assert changes.max() == 1
    assert (changes[~table.valid] == 0).all()


def test_distances_of_the_environment_are_those_of_the_solver():
    played = play_scripted("sokoban", 0.3, 4, 4, seed=1)
    table, found = played.table, played.envs.found
    distance = state_distances(table)
    expected = distance_changes(table, distance)
    assert np.isneginf(expected).any()
    np.testing.assert_array_equal(distance_gains(table, found), expected)
    shares = kinds_of_steps(table, found)
    assert shares["dead"] == np.isneginf(expected).mean()
    assert shares["stuck"] == np.isinf(distance[table.state]).mean()
    assert sum(shares[name] for name in ("gained", "unchanged", "lost", "dead")) == 1
