"""The true change of distance, by hand and against the environment's own answer."""

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from benchmarks.ranking.distance import distance_changes, state_distances
from benchmarks.ranking.rollouts import NoisyExpert

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


def test_changes_by_hand():
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


def test_a_terminal_success_is_0_moves_away():
    assert state_distances(table_of([(SOLVED.removesuffix(" [success]").replace("√", "O").replace("___P", "__XP"),
                                      "x", SOLVED)]))[1] == 0  # fmt: skip


def test_every_state_of_real_episodes_agrees_with_the_environment():
    envs = gym.make_vec("AgentRL/Sokoban-v0", 8, autoreset_mode="Disabled", expert=True)
    table = collect(
        envs, NoisyExpert(0.3), tasks=[{"split": "train", "index": i} for i in range(4)], group_size=2, seed=3
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
