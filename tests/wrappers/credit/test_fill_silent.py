import numpy as np
import pytest

from tests.wrappers.credit.random_tables import random_table
from wrappers.credit.attribution import attribution
from wrappers.credit.fill_silent import fill_silent
from wrappers.credit.graphgpo import graphgpo


def test_the_second_is_heard_where_the_first_is_silent() -> None:
    found = fill_silent([2.0, 0.0, -1e-300, np.nan, 0.0], [5.0, 5.0, 5.0, -5.0, np.nan])
    np.testing.assert_array_equal(found, [2.0, 0.05, -1e-300, -0.05, 0.0])
    np.testing.assert_array_equal(fill_silent([1.0, 0.0], [3.0, 3.0], 0), [1.0, 0.0])


def test_what_the_graph_ranks_stays_as_it_is() -> None:
    table = random_table(2)
    graph = graphgpo(table, beta_episode=0.0)
    found = fill_silent(graph, attribution(table))
    speaks = graph != 0
    assert 0 < speaks.mean() < 1
    np.testing.assert_array_equal(found[speaks], graph[speaks])
    np.testing.assert_array_equal(found[~speaks], 0.01 * attribution(table)[~speaks])
    assert (found != 0).sum() > speaks.sum()


@pytest.mark.parametrize(
    ("first", "second", "share", "words"),
    [
        ([1.0], [1.0, 2.0], 0.1, r"second must hold one number per row, .* got shape \(2,\)"),
        ([[1.0]], [1.0], 0.1, r"first must hold one number per row, .* got shape \(1, 1\)"),
        ([1.0, np.inf], [1.0, 2.0], 0.1, "first .* row 1 has inf"),
        ([1.0], [1.0], -0.1, "share must be a number of at least 0, got -0.1"),
        ([1.0], [1.0], np.nan, "share must be"),
    ],
)
def test_wrong_input_is_named(first: list[float], second: list[float], share: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fill_silent(first, second, share)
