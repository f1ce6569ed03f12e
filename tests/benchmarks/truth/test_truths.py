"""Values of a player by Monte-Carlo, where they can be computed, the numbers that they share, and their ceiling."""

import dataclasses

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.truth.episodes import NoisyExpert, play_scripted
from benchmarks.truth.measures import Comparisons, bootstrap_weights
from benchmarks.truth.truths import Truth, agreement, ceiling, monte_carlo
from tests.distances import state_distances


@pytest.fixture(scope="module")
def played():
    return play_scripted("sokoban", 0.3, 4, 4, seed=1)


def test_values_of_an_optimal_player_are_discounted_distances(played):
    """It needs d steps: V = gamma^(d - 1), if that many are left; and 0 in a dead end."""
    table, gamma = played.table, 0.5
    best = dataclasses.replace(played, policy=NoisyExpert(1.0))
    values = monte_carlo(best, 2, (gamma, 1.0), "won", seed=0)
    distance = state_distances(table)
    before, after = distance[table.state], distance[table.next_state]
    # States are continued from their earliest visit.
    first = {}
    for row in np.argsort(table.t, kind="stable"):
        first.setdefault((table.group[row], table.state[row]), table.t[row])
    left = 20 - np.array([first[key] for key in zip(table.group, table.state, strict=True)])
    q = np.where(after + 1 <= left, gamma**after, 0.0)
    v = np.where(before <= left, gamma ** (before - 1), 0.0)
    np.testing.assert_allclose(values.advantages(0), q - v, atol=1e-8)
    np.testing.assert_allclose(values.advantages(1), (after + 1 <= left) * 1.0 - (before <= left))
    # In a dead end this player draws, but nothing is won.
    assert (values.errors(0) == 0).all()


def test_a_choice_that_the_player_makes_itself_has_the_luck_of_its_state(played):
    """Common numbers: continuations of a state that begin with a choice return what those of the choice return."""
    values = monte_carlo(played, 8, (0.9,), "won", seed=0)
    independent = np.sqrt(values.of_choices[:, :, 0].var(1) + values.of_states[values.state_of, :, 0].var(1))
    common = (values.of_choices - values.of_states[values.state_of])[:, :, 0].std(1)
    assert common.mean() < 0.9 * independent.mean()
    again = monte_carlo(played, 8, (0.9,), "won", seed=0)
    np.testing.assert_array_equal(values.of_choices, again.of_choices)
    other = monte_carlo(played, 8, (0.9,), "won", seed=1)
    assert (values.of_choices != other.of_choices).any()


def test_the_ceiling_of_noise():
    """Many states of 4 actions; values, and noise in either half, have variance 1."""
    rng = np.random.default_rng(0)
    n, per = 4000, 4
    values = rng.standard_normal((n, per)).ravel()
    halves = [values + rng.standard_normal(n * per) for _ in range(2)]
    table = StepTable.from_arrays(
        group=np.repeat(np.arange(n) // 100, per), trajectory=np.arange(n * per), t=np.zeros(n * per, int),
        state=np.repeat(np.arange(n), per), action=np.tile(np.arange(per), n), next_state=np.full(n * per, n),
        reward=np.zeros(n * per), won=np.zeros(n * per, bool),
    )  # fmt: skip
    weights = bootstrap_weights(table.n_groups, 100, 0)
    truth = Truth("value", np.mean(halves, axis=0), tuple(halves), np.ones(n * per))
    found = ceiling(agreement(truth, table, table, weights)["within"])
    same = agreement(dataclasses.replace(truth, halves=(values, values)), table, table, weights)
    # What is estimated: how well the values themselves rank what is known of them; generous for few steps.
    compared = Comparisons.of(table, table.group, truth.values)
    direct = compared.sums(values).sum(0)
    assert direct[0] / direct[1] == pytest.approx(0.69, abs=0.01)
    assert 0 < found.mean - direct[0] / direct[1] < 0.07
    assert found.mean < np.sqrt(2 / 3)  # Pearson's correlation, over all states at once
    assert found.low < found.mean < found.high
    assert ceiling(same["within"]).mean == same["sign_all"].mean == pytest.approx(1.0)
    assert agreement(dataclasses.replace(truth, halves=None), table, table, weights) == {}
    assert ceiling(None) is None
