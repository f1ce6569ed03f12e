import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.credit.small_tables import random_table
from tests.wrappers.credit.test_credit_parts import TABLE, with_logprobs
from wrappers.credit import aem, graphgpo, grpo


def test_by_hand() -> None:
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


@given(seed=st.integers(0, 10**6))
def test_weights_have_mean_1_in_a_group_and_fall_with_the_entropy(seed):
    table, rng = random_table(seed, win=0.5), np.random.default_rng(seed)
    entropies = rng.uniform(0, 2, len(table))
    weights = aem(table, entropies=entropies, advantages=np.ones(len(table)))
    assert (weights > 0).all()
    for group in range(table.n_groups):
        rows = rng.permutation(np.flatnonzero(table.group == group))
        assert weights[rows].mean() == pytest.approx(1)
        assert (np.diff(weights[rows][np.argsort(entropies[rows])]) <= 1e-12).all()
