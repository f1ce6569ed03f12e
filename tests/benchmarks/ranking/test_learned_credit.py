"""Credit that is fitted to a group's outcomes: numbers by hand, and against a loop over visits."""

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.ranking.learned_credit import agentprm, gains, raw_filled, value_gain, visit_values
from wrappers.credit.attribution import attribution
from wrappers.credit.graphgpo import graphgpo

# "s" is left to the right twice, once towards success; the rows of "a" are not in order of time.
TABLE = StepTable.from_arrays(
    group=["g"] * 5, trajectory=["a", "a", "b", "b", "c"], t=[1, 0, 0, 1, 0], state=["u", "s", "s", "u", "s"],
    action=["up", "right", "right", "down", "left"], next_state=["goal", "u", "u", "pit", "pit"],
    reward=[1, 0, 0, 0, 0], won=[1, 1, 0, 0, 0],
)  # fmt: skip


def random_table(seed):
    """Two groups of eight episodes among four states and two actions."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, 16)
    trajectory = np.repeat(np.arange(16), lengths)
    n = len(trajectory)
    t = np.concatenate([np.arange(length) for length in lengths])
    won = rng.random(16) < 0.5
    shuffled = rng.permutation(n)
    columns = {
        "group": trajectory // 8, "trajectory": trajectory, "t": t, "state": rng.integers(4, size=n),
        "action": rng.integers(2, size=n), "next_state": rng.integers(4, size=n), "reward": np.zeros(n),
        "won": won[trajectory],
    }  # fmt: skip
    return StepTable.from_arrays(**{name: column[shuffled] for name, column in columns.items()})


def test_values_by_hand():
    of_actions, of_states = visit_values(TABLE, 0.5)
    # "right" was worth .5 once and 0 once; of the three visits of "s" one was worth .5. "u" was worth 1 once of twice.
    assert of_actions == pytest.approx([1, 0.25, 0.25, 0, 0])
    assert of_states == pytest.approx([0.5, 0.5 / 3, 0.5 / 3, 0.5, 0.5 / 3])
    assert agentprm(TABLE, gamma=0.5) == pytest.approx([0.5, 0.25 - 0.5 / 3, 0.25 - 0.5 / 3, -0.5, -0.5 / 3])


def test_gains_end_with_the_outcome():
    # Into "u" .5, out of "s" 1/6; the last steps lead to 1 where it was won and to 0 elsewhere.
    assert value_gain(TABLE, gamma=0.5) == pytest.approx([0.5, 1 / 3, 1 / 3, -0.5, -0.5 / 3])
    # One's own values: with the values 0 the last step of a won trajectory gains everything.
    assert gains(TABLE, np.zeros(5)).tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_values_equal_a_loop_over_visits(seed):
    table = random_table(seed)
    worth = np.zeros(len(table))
    for i in range(len(table)):
        steps = (table.trajectory == table.trajectory[i]).sum()
        worth[i] = 0.95 ** (steps - 1 - table.t[i]) * table.trajectory_won[table.trajectory[i]]
    of_actions, of_states = visit_values(table)
    for i in range(len(table)):
        here = (table.group == table.group[i]) & (table.state == table.state[i])
        assert of_states[i] == pytest.approx(worth[here].mean(), abs=1e-12)
        assert of_actions[i] == pytest.approx(worth[here & (table.action == table.action[i])].mean(), abs=1e-12)


def test_attribution_speaks_where_the_graph_is_silent():
    table = random_table(0)
    graph, fitted = graphgpo(table, beta_episode=0.0), attribution(table)
    speaks = graph != 0
    assert 0 < speaks.sum() < len(table)
    filled = raw_filled(table, share=0.1)
    assert np.array_equal(filled[speaks], graph[speaks])
    assert filled[~speaks] == pytest.approx(0.1 * fitted[~speaks])
    assert raw_filled(table, centred=True)[~speaks] == pytest.approx(0.01 * attribution(table, centred=True)[~speaks])
