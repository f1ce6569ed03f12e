"""What credit of branches must satisfy, on random rollouts with branches, and branches of branches."""

import dataclasses
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.wrappers.credit.random_tables import rebuild
from tests.wrappers.credit.random_trees import random_trees
from wrappers.credit.bpo import bpo
from wrappers.credit.options import declaration
from wrappers.credit.tree_grpo import tree_grpo
from wrappers.credit.vine import vine

METHODS = [vine, bpo, tree_grpo]
WITH_PRESETS = [(method, preset) for method in METHODS for preset in declaration(method)[1]]
SEEDS = st.integers(0, 10**6)
quick = settings(max_examples=25, deadline=None)


def _close(a, b, atol=1e-9):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize(("method", "preset"), WITH_PRESETS)
@given(seed=SEEDS)
@quick
def test_names_and_order_do_not_matter(method, preset, seed):
    table = random_trees(seed)
    rows = np.random.default_rng(seed).permutation(len(table))
    shuffled = rebuild(table, rows, *[lambda name: ("renamed", str(name)[::-1])] * 2)
    _close(method(shuffled, preset=preset), method(table, preset=preset)[rows])


@pytest.mark.parametrize("method", METHODS)
@given(seed=SEEDS)
@quick
def test_groups_do_not_see_each_other(method, seed):
    table = random_trees(seed)
    whole = method(table)
    for group in range(table.n_groups):
        rows = np.flatnonzero(table.group == group)
        _close(method(rebuild(table, rows)), whole[rows])


@pytest.mark.parametrize("method", METHODS)
@given(seed=SEEDS)
@quick
def test_which_rows_are_scored(method, seed):
    table = random_trees(seed)
    scored = np.isfinite(method(table))
    # Several episodes of a group begin in its first state, so that the value of every beginning is known.
    assert np.array_equal(scored, table.parent[table.trajectory] < 0 if method is vine else np.ones(len(table), bool))


@pytest.mark.parametrize(("method", "preset"), WITH_PRESETS)
@given(seed=SEEDS)
@quick
def test_batches_that_all_fail_score_exactly_0(method, preset, seed):
    table = random_trees(seed, win=0.0)
    assert not np.nan_to_num(method(table, preset=preset)).any()


@pytest.mark.parametrize("method", METHODS)
@given(seed=SEEDS, factor=st.sampled_from([0.125, 3.0]))
@quick
def test_scaled_rewards_change_only_what_has_no_deviation(method, seed, factor):
    table = random_trees(seed)
    scaled = dataclasses.replace(table, reward=table.reward * factor)
    if method is tree_grpo:
        _close(tree_grpo(scaled, eps=0.0), tree_grpo(table, eps=0.0))
        _close(tree_grpo(scaled, compare="parent"), factor * tree_grpo(table, compare="parent"))
    else:
        _close(method(scaled), factor * method(table))
    _close(method(scaled, outcome="won"), method(table, outcome="won"))


@pytest.mark.parametrize("method", METHODS)
def test_invalid_steps_lose_the_penalty_where_it_is_asked_for(method):
    table = random_trees(3)
    plain = method(table)
    scored = np.isfinite(plain)
    lost = plain - method(table, invalid_penalty=0.1, penalty="advantage")
    _close(lost[scored], np.where(table.valid, 0.0, 0.1)[scored])


@pytest.mark.parametrize(("method", "preset"), WITH_PRESETS)
def test_no_rows_and_one_row(method, preset):
    empty = dict.fromkeys(("group", "trajectory", "t", "state", "action", "next_state", "reward", "won"), ())
    assert method(StepTable.from_arrays(**empty), preset=preset).shape == (0,)
    one = StepTable.from_arrays(
        group=[0], trajectory=[0], t=[0], state=["s"], action=["a"], next_state=["goal"], reward=[3.0], won=[True]
    )
    # Nothing to compare with: not scored, or 0; the authors of Tree-GRPO keep the raw score.
    expected = {(vine, "paper"): np.nan, (tree_grpo, "authors"): 3.0}.get((method, preset), 0.0)
    assert method(one, preset=preset) == pytest.approx([expected], abs=1e-5, nan_ok=True)


@pytest.mark.parametrize(("method", "preset"), WITH_PRESETS)
def test_large_rewards_overflow_nowhere_and_huge_ones_are_refused(method, preset):
    table = random_trees(1)
    table.reward[table.parent[table.parent >= 0][0]] = 1e101
    with pytest.raises(ValueError, match="rewards must be within"):
        method(table, preset=preset)
    table.reward[table.reward > 1] = -1e100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = method(table, preset=preset)
    assert np.isfinite(scores[table.parent[table.trajectory] < 0]).all()
