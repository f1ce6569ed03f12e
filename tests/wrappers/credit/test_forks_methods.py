"""What methods of branches have in common: naive twins, tables without branches, and large rewards."""

import dataclasses
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.refusals import refuses
from tests.wrappers.credit.naive_branches import naive_bpo, naive_tree_grpo, naive_vine
from tests.wrappers.credit.small_tables import close, random_table, random_trees
from wrappers.credit import bpo, grpo, rloo, tree_grpo, vine
from wrappers.credit.options import declaration

SEEDS = st.integers(0, 10**6)


@cases(
    "method, twin, choices",
    (bpo, naive_bpo, {"gamma": [1.0, 0.9], "lam": [0.0, 0.95, 1.0]}),
    (tree_grpo, naive_tree_grpo, {"compare": ["sum", "nested", "parent", "treerl"], "shared": ["mean", "sum"]}),
    (vine, naive_vine, {"gamma": [1.0, 0.9], "pool": ["fork", "state"], "gaps": ["segment", "backwards"]}),
)
@given(seed=SEEDS, factor=st.sampled_from([0.125, 1.0, 3.0]), data=st.data())
def test_they_equal_their_naive_twins(method, twin, choices, seed, factor, data):
    options = {name: data.draw(st.sampled_from(values), name) for name, values in choices.items()}
    table = random_trees(seed)
    scaled = dataclasses.replace(table, reward=table.reward * factor)
    close(method(scaled, **options), twin(scaled, **options))
    close(method(scaled, outcome="won"), method(table, outcome="won"))


@given(seed=SEEDS)
def test_without_branches_they_are_what_they_extend(seed):
    table = random_table(seed, size=3)  # all episodes begin in one state
    assert not bpo(table, preset="paper").any()
    for method, plain in ((bpo, rloo), (tree_grpo, grpo), (vine, rloo)):
        close(method(table), plain(table))


@pytest.mark.parametrize("method", [bpo, tree_grpo, vine])
def test_large_rewards_of_branches_overflow_nowhere_and_huge_ones_are_refused(method):
    for preset in declaration(method)[1]:
        table = random_trees(1)
        table.reward[table.parent[table.parent >= 0][0]] = 1e101
        refuses(ValueError, "rewards must be within", method, table, preset=preset)
        table.reward[table.reward > 1] = -1e100
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scores = method(table, preset=preset)
        assert np.isfinite(scores[table.parent[table.trajectory] < 0]).all()
