import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.credit.small_tables import close, episodes, random_table
from tests.wrappers.credit.test_credit_parts import TABLE, with_logprobs
from wrappers.credit import empg, graphgpo, grpo

E = math.exp(-1)


def test_by_hand() -> None:
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
def test_mean_0_and_grpo_where_all_are_alike(seed):
    table = random_table(seed, win=0.5)
    whole, entropies = grpo(table), np.random.default_rng(seed).uniform(0, 2, len(table))
    assert empg(table, entropies=entropies).mean() == pytest.approx(0, abs=1e-9)
    close(empg(table, entropies=np.ones(len(table)), zeta=0.0), whole - whole.mean())
