import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.credit.naive_branches import naive_bpo
from tests.wrappers.credit.random_tables import random_table
from tests.wrappers.credit.random_trees import random_trees
from tests.wrappers.credit.small_tables import episodes
from tests.wrappers.credit.test_vine import TREE
from wrappers.credit import bpo, rloo

SEEDS = st.integers(0, 10**6)


def _equal(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_by_hand() -> None:
    # At u: 1, 0 and 1 against the mean of the others: 1/2, -1, 1/2. At v: 1 and 0: 1, -1.
    # Before: .5 * 1/2 + .25 * 1; between the forks 1/2 + .5 * 1.
    _equal(bpo(episodes(*TREE), preset="paper", lam=0.5), [0.5, 1, 1, -1, 0.5, -1, 0])
    # Episodes of the first tree: 1 0 1 0, mean 1/2; of the other: 0. Through the first step go all four, through the
    # second the first and the last.
    episode = bpo(episodes(*TREE)) - bpo(episodes(*TREE), preset="paper")
    _equal(episode, [0.5, 0.5, 1, 0, 1, 0, -0.5])
    half = bpo(episodes(*TREE), alpha_episode=0.5) - bpo(episodes(*TREE), preset="paper")
    _equal(half, episode / 2)
    alone = episodes(*TREE[:4])
    _equal(bpo(alone), bpo(alone, preset="paper"))
    table = episodes("s -a-> u -b-> v -c-> goal +", "0.0: u -d-> pit")
    _equal(bpo(table, gamma=0.5, lam=0.0), [0, 0.5, 0.5, -0.5])
    table = episodes("s -a!-> u -b!-> goal +", "0.0: u -c-> pit")
    _equal(bpo(table, lam=0.0), [0, 1, -1])
    _equal(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="advantage"), [-0.25, 0.75, -1])
    # Off the continuation's return: 3/4 against 0.
    _equal(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="row"), [0, 0.75, -0.75])
    _equal(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="discounted"), [0, 0.75, -0.75])


@given(seed=SEEDS, gamma=st.sampled_from([1.0, 0.9]), lam=st.sampled_from([0.0, 0.95, 1.0]))
def test_it_equals_its_naive_twin(seed, gamma, lam):
    table = random_trees(seed)
    np.testing.assert_allclose(
        bpo(table, gamma=gamma, lam=lam), naive_bpo(table, gamma=gamma, lam=lam), rtol=0, atol=1e-9
    )


@given(seed=SEEDS)
def test_without_branches_it_is_rloo(seed):
    table = random_table(seed)
    np.testing.assert_allclose(bpo(table), rloo(table), rtol=0, atol=1e-9)
    assert not bpo(table, preset="paper").any()


def test_without_the_episode_level_the_steps_before_a_fork_learn_nothing():
    """Only the first action counts, and the fork is behind it: all rollouts with their probabilities."""
    p = 0.25

    def chance(action):
        return p if action else 1 - p

    gradient = {"paper": 0.0, "default": 0.0}
    for bits in np.ndindex(2, 2, 2, 2, 2):  # two trees with a fork at the second step of the first
        a0, a1, b1, c0, c1 = bits
        probability = np.prod([chance(action) for action in bits])
        table = episodes(f"s -{a0}-> {a0} -{a1}-> end", f"0.0: {a0} -{b1}-> end", f"s -{c0}-> {c0} -{c1}-> end")
        table.reward[:] = [0, a0, a0, 0, c0]
        for preset in gradient:
            gradient[preset] += probability * (a0 - p) * bpo(table, preset=preset)[0]
    # The derivative of p by its logit is p (1 - p) = 3/16.
    assert gradient == pytest.approx({"paper": 0.0, "default": 3 / 16})
