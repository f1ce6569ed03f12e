"""Advantages weighted by entropies, AEM and EMPG: by hand, and what holds for any entropies."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.credit.random_tables import random_table
from tests.wrappers.credit.small_tables import close, episodes
from tests.wrappers.credit.test_scores import TABLE, with_logprobs
from wrappers.credit import aem, empg, graphgpo, grpo

E = math.exp(-1)


def test_aem_by_hand() -> None:
    # Entropies 2 1 3: 1/2, 0, 1 of their range; e^-.5, 1, e^-1 over their mean, on episodes of +-1/2.
    weights = np.exp([-0.5, 0, -1])
    weights /= weights.mean()
    assert aem(TABLE, entropies=[2, 1, 3], std="none") == pytest.approx(weights * [0.5, 0.5, -0.5])
    # lam 2 squares them before the mean.
    squares = np.exp([-1.0, 0, -2])
    expected = squares / squares.mean() * [0.5, 0.5, -0.5]
    assert aem(TABLE, entropies=[2, 1, 3], lam=2.0, std="none") == pytest.approx(expected)
    assert aem(TABLE, entropies=[0.5, 0.55, 0.59]) == pytest.approx(grpo(TABLE))
    assert aem(TABLE, entropies=[0.5, 0.55, 0.61]) != pytest.approx(grpo(TABLE))
    assert aem(TABLE, entropies=[0.5, 0.55, 0.59], least_range=0.0) != pytest.approx(grpo(TABLE))
    assert aem(TABLE, entropies=[0.5] * 3, least_range=0.0) == pytest.approx(grpo(TABLE))
    table = with_logprobs(TABLE, [-2.0, -2.0], [-1.0], [-4.0, -2.0])
    assert aem(table) == pytest.approx(aem(TABLE, entropies=[2, 1, 3]))
    weights = np.array([1, math.exp(-1)]) / ((1 + math.exp(-1)) / 2)
    found = aem(TABLE, entropies=[0, math.nan, 1], std="none")
    assert found == pytest.approx([weights[0] / 2, 1 / 2, -weights[1] / 2])
    steps = graphgpo(TABLE)
    factor = aem(TABLE, entropies=[2, 1, 3], advantages=np.ones(3))
    assert aem(TABLE, entropies=[2, 1, 3], advantages=steps) == pytest.approx(factor * steps)
    assert np.isnan(aem(TABLE, entropies=[2, 1, 3], advantages=[1, math.nan, 1])).tolist() == [False, True, False]


def test_empg_by_hand() -> None:
    # Entropies 2 1 3: 1/2, 0, 1 of their range. Weights e^-.5, 1, e^-1 over their mean; episodes +-1/2.
    weights = np.array([math.exp(-0.5), 1, E])
    weights /= weights.mean()
    base = weights * [0.5, 0.5, -0.5]
    found = empg(TABLE, entropies=[2, 1, 3], zeta=0.0, range_eps=0.0, std="none")
    assert found == pytest.approx(base - base.mean())
    # Only the first step has a next reply, the surest one: 1 more.
    total = base + np.array([0.1, 0, 0])
    assert empg(TABLE, entropies=[2, 1, 3], zeta=0.1, range_eps=0.0, std="none") == pytest.approx(total - total.mean())
    # Before an unsure one e^-2 at k_next 2.
    total = weights[[1, 2, 0]] * [0.5, 0.5, -0.5] + np.array([0.1 * E**2, 0, 0])
    found = empg(TABLE, entropies=[1, 3, 2], zeta=0.1, k_next=2.0, range_eps=0.0, std="none")
    assert found == pytest.approx(total - total.mean())
    table = with_logprobs(TABLE, [-2.0, -2.0], [-1.0], [-4.0, -2.0])
    assert empg(table) == pytest.approx(empg(TABLE, entropies=[2, 1, 3]))
    found = empg(TABLE, entropies=[0, math.nan, 1], range_eps=0.0, std="none", zeta=0.1)
    weights = np.array([1, E]) / ((1 + E) / 2)
    total = np.array([weights[0] * 0.5, 0.5, -weights[1] * 0.5])  # and nothing for leading to an unknown one
    assert found == pytest.approx(total - total.mean())
    steps = graphgpo(TABLE)
    weights = np.array([1, E, 1]) / ((2 + E) / 3)
    found = empg(TABLE, advantages=steps, entropies=[0, 1, 0], range_eps=0.0, zeta=0.0)
    assert found == pytest.approx(weights * steps - (weights * steps).mean())
    # What is not scored stays so, and takes no part in the mean.
    found = empg(TABLE, advantages=[1, 0, math.nan], entropies=[0, 0, 0], zeta=0.0)
    assert found[:2] == pytest.approx([0.5, -0.5])
    assert np.isnan(found[2])
    table = episodes("s -a-> goal +", "s -b-> goal +", "s -c-> pit")
    sure, unsure, _ = empg(table, entropies=[0.1, 0.9, 0.5], zeta=0.0, std="none")
    assert sure > unsure


@given(seed=st.integers(0, 10**6))
def test_weights_have_mean_1_in_a_group_and_fall_with_the_entropy_and_empg_is_centred(seed):
    table, rng = random_table(seed, win=0.5), np.random.default_rng(seed)
    entropies = rng.uniform(0, 2, len(table))
    weights = aem(table, entropies=entropies, advantages=np.ones(len(table)))
    assert (weights > 0).all()
    for group in range(table.n_groups):
        rows = rng.permutation(np.flatnonzero(table.group == group))
        assert weights[rows].mean() == pytest.approx(1)
        assert (np.diff(weights[rows][np.argsort(entropies[rows])]) <= 1e-12).all()
    assert empg(table, entropies=entropies).mean() == pytest.approx(0, abs=1e-9)
    whole = grpo(table)
    close(empg(table, entropies=np.ones(len(table)), zeta=0.0), whole - whole.mean())
