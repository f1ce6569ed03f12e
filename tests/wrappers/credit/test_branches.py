"""What is said of all trees of a table at once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.wrappers.credit.naive_branches import whole_rows
from tests.wrappers.credit.random_trees import random_trees
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.branches import spread
from wrappers.credit.forest import Forest

# 0: s u v w, cut after u (1) and after v (2); 3 is cut from 1; 4 is another tree.
TABLE = episodes(
    "s -a-> u -b-> v -c-> w -d-> goal +",
    "0.0: u -e-> x -f-> y",
    "0.1: v -g-> z",
    "1.1: x -h-> goal +",
    "s -i-> q",
)


def test_which_tree_each_episode_is_in_and_where_ways_part():
    forest = Forest(TABLE)
    # Rows 0-3 of 0, 4-5 of 1, 6 of 2, 7 of 3, 8 of 4.
    assert forest.tree.tolist() == [0, 0, 0, 0, 4]
    assert forest.leaves.tolist() == [4, 2, 1, 1, 2, 1, 1, 1, 1]
    # Ways begin at the roots' first rows, and behind every fork on both sides.
    assert forest.begins.tolist() == [0, 1, 2, 4, 5, 6, 7, 8]


def test_sums_over_the_episodes_through_a_row():
    forest = Forest(TABLE)
    assert forest.below(np.array([1.0, 10, 100, 1000, 10000])).tolist() == [
        1111, 101, 1, 1, 1010, 10, 100, 1000, 10000,
    ]  # fmt: skip


def test_marked_values_reach_to_the_next_mark_of_their_trajectory():
    values = np.arange(9.0)
    np.testing.assert_array_equal(
        spread(TABLE, values, np.array([5, 1, 3])), [np.nan, 1, 1, 3, np.nan, 5, np.nan, np.nan, np.nan]
    )


@given(seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_a_forest_equals_its_naive_twin(seed):
    table = random_trees(seed)
    table = StepTable.from_trajectories(
        [table.to_trajectories()[i] for i in np.random.default_rng(seed).permutation(table.n_trajectories)]
    )
    forest = Forest(table)
    whole = [whole_rows(table, i) for i in range(table.n_trajectories)]
    values = np.random.default_rng(seed).random(table.n_trajectories)
    below = [sum(values[i] for i, rows in enumerate(whole) if row in rows) for row in range(len(table))]
    np.testing.assert_allclose(forest.below(values), below)
    for i, rows in enumerate(whole):
        assert forest.tree[i] == table.trajectory[rows[0]]
