"""Credit of branches: vine, bpo and tree_grpo beside naive twins, their penalties by hand."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.wrappers.credit.naive_branches import naive_bpo, naive_tree_grpo, naive_vine
from tests.wrappers.credit.random_tables import random_table
from tests.wrappers.credit.random_trees import random_trees
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.bpo import bpo
from wrappers.credit.gae import gae
from wrappers.credit.group import whitened
from wrappers.credit.tree_grpo import tree_grpo
from wrappers.credit.vine import vine

nan = np.nan
TREE = (
    "s -a-> u -b-> v -c-> goal +", "0.0: u -d-> pit", "0.0: u -e-> goal +", "0.1: v -f-> pit", "s -g-> pit",
)  # fmt: skip


def _equal(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_whitening_outcomes_and_penalties_by_hand() -> None:
    table = episodes(*TREE[:3], *TREE[4:])
    scored = np.array([0.5, 0.5, 0, -1])
    expected = np.full(6, nan)
    expected[[0, 1, 2, 5]] = whitened(scored)
    _equal(vine(table, preset="authors"), expected)
    table = episodes(*TREE, reward=7.0)
    _equal(vine(table), 7 * vine(episodes(*TREE)))
    _equal(vine(table, outcome="won"), vine(episodes(*TREE)))
    table = episodes("s -a!-> u -b-> goal +", "0.0: u -c!-> pit", "s -d-> pit")
    _equal(vine(table), [0, 1, nan, -1])
    for penalty in ("row", "advantage"):
        _equal(vine(table, invalid_penalty=0.5, penalty=penalty), [-0.5, 1, nan, -1])
    # Off the rewards: r(a) = -.5, V(u) = -.5; s is worth -.5 + 1 for the other root.
    _equal(vine(table, invalid_penalty=0.5, penalty="discounted"), [-1, 1.5, nan, -0.5])


def test_continuations_in_a_table_of_their_own():
    table = episodes("s -a-> u -b-> v", "s -c-> pit")
    table.truncated[1], table.terminated[1] = True, False
    found = episodes("s -x-> goal +", "s -x-> pit", "u -x-> w -x-> goal +", "v -x-> goal +", "v -x-> pit")
    # V(s) = 1/2, V(u) = 1, V(v) = 1/2, where the time limit cut the first off; pit is an end.
    _equal(vine(table, continuations=found), [0.5, -0.5, -0.5])
    # Discounted: V(s) = 1/2, V(u) = 1/2, V(v) = 1/2.
    _equal(vine(table, continuations=found, gamma=0.5), [-0.25, -0.25, -0.5])
    # Of another group they say nothing.
    other = dataclasses.replace(found, groups=("another",))
    _equal(vine(table, continuations=other), [nan, nan, nan])


@given(seed=st.integers(0, 10**6), gamma=st.sampled_from([1.0, 0.9]))
def test_with_a_value_for_every_state_it_is_gae_without_lambda(seed, gamma):
    table, rng = random_table(seed), np.random.default_rng(seed)
    places = sorted({(table.groups[g], table.states[s]) for g, s in zip(table.group, table.state, strict=True)})
    worth = rng.random(len(places))
    # One continuation of one step per state, which earns the state's value.
    group, state = zip(*places, strict=True)
    n = len(places)
    found = StepTable.from_arrays(
        group=group, trajectory=np.arange(n), t=np.zeros(n, int), state=state, action=["x"] * n, next_state=["end"] * n,
        reward=worth, won=np.zeros(n, bool),
    )  # fmt: skip
    value = dict(zip(places, worth, strict=True))
    values = [value[table.groups[g], table.states[s]] for g, s in zip(table.group, table.state, strict=True)]
    expected = gae(table, values=values, gamma=gamma, lam=0.0)
    np.testing.assert_allclose(vine(table, continuations=found, gamma=gamma), expected, rtol=0, atol=1e-9)


@given(
    seed=st.integers(0, 10**6), gamma=st.sampled_from([1.0, 0.9]), pool=st.sampled_from(["fork", "state"]),
    gaps=st.sampled_from(["segment", "backwards"]),
)  # fmt: skip
def test_vine_equals_its_naive_twin(seed, gamma, pool, gaps):
    table = random_trees(seed)
    found = vine(table, gamma=gamma, pool=pool, gaps=gaps)
    np.testing.assert_allclose(found, naive_vine(table, gamma=gamma, pool=pool, gaps=gaps), rtol=0, atol=1e-9)


SEEDS = st.integers(0, 10**6)


def test_penalties_by_hand() -> None:
    table = episodes("s -a!-> u -b!-> goal +", "0.0: u -c-> pit")
    _equal(bpo(table, lam=0.0), [0, 1, -1])
    _equal(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="advantage"), [-0.25, 0.75, -1])
    # Off the continuation's return: 3/4 against 0.
    _equal(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="row"), [0, 0.75, -0.75])
    _equal(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="discounted"), [0, 0.75, -0.75])


@given(seed=SEEDS, gamma=st.sampled_from([1.0, 0.9]), lam=st.sampled_from([0.0, 0.95, 1.0]))
def test_bpo_equals_its_naive_twin(seed, gamma, lam):
    table = random_trees(seed)
    np.testing.assert_allclose(
        bpo(table, gamma=gamma, lam=lam), naive_bpo(table, gamma=gamma, lam=lam), rtol=0, atol=1e-9
    )


# Episodes of the tree: 1 0 1 0, deviation sqrt(4/4 / 3); of the group: 1 0 1 0 0, mean 2/5, deviation sqrt(1.2 / 4).
INSIDE, WON, LOST = 0.5 / math.sqrt(1 / 3), 0.6 / math.sqrt(0.3), -0.4 / math.sqrt(0.3)


def test_penalties():
    table = episodes("s -a!-> u -b-> goal +", "0.0: u -c!-> pit", "s -d-> pit")
    plain = tree_grpo(table, eps=0.0)
    late = tree_grpo(table, eps=0.0, invalid_penalty=0.5, penalty="advantage")
    assert plain - late == pytest.approx([0.5, 0, 0.5, 0])
    # Off every episode that goes through the step: 1/2, -1 and 0 as in a table with these rewards.
    other = episodes("s -a-> u -b-> x", "0.0: u -c-> pit", "s -d-> pit")
    other.reward[:] = [-0.5, 1, -0.5, 0]
    felt = tree_grpo(table, invalid_penalty=0.5, penalty="discounted")
    assert felt == pytest.approx(tree_grpo(other))
    row = tree_grpo(table, invalid_penalty=0.5, penalty="row")
    assert np.isfinite(row).all()
    assert row[0] < tree_grpo(table)[0]


@given(
    seed=SEEDS, compare=st.sampled_from(["sum", "nested", "parent", "treerl"]), shared=st.sampled_from(["mean", "sum"])
)  # fmt: skip
def test_tree_grpo_equals_its_naive_twin(seed, compare, shared):
    table = random_trees(seed)
    expected = naive_tree_grpo(table, compare=compare, shared=shared)
    np.testing.assert_allclose(tree_grpo(table, compare=compare, shared=shared), expected, rtol=0, atol=1e-9)
