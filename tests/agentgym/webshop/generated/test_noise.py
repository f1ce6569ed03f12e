"""Adverts: where they stand, that they are seeded, and that they change nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.webshop.pages import BUTTON, LINK, TEXT, Adverts, Node

PAGE = [Node(BUTTON, "Back to Search"), Node(LINK, "B0"), Node(TEXT, "Red Hat"), Node(TEXT, "$5.0")]
nodes = st.lists(st.builds(Node, st.sampled_from([TEXT, BUTTON, LINK]), st.text(max_size=5)), max_size=6)
share = st.floats(0, 1)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(nodes, share, share, st.integers(0, 2**63), st.integers(0, 10**6))
def test_the_page_stays_and_adverts_are_plain_text(
    page: list[Node], p: float, q: float, episode: int, step: int
) -> None:
    adverts = Adverts(p, q)
    shown = adverts.around(page, (episode, step))
    assert shown == adverts.around(page, (episode, step))
    left = iter(shown)
    assert all(node in left for node in page)  # in order
    extra = len(shown) - len(page)
    assert 0 <= extra <= len(page) + 1
    assert sum(node.kind == TEXT for node in shown) == sum(node.kind == TEXT for node in page) + extra


def test_certain_and_impossible_adverts() -> None:
    for view in [(1, 0), (1, 1), (2, 0)]:
        assert Adverts(0, 1).around(PAGE, view) == PAGE
        assert Adverts(1, 0).around(PAGE, view) == PAGE
        assert len(Adverts(1, 1).around(PAGE, view)) == 2 * len(PAGE) + 1


def test_adverts_are_as_frequent_as_asked() -> None:
    counts = [len(Adverts(0.5, 0.2).around(PAGE, (7, step))) - len(PAGE) for step in range(4_000)]
    # 5 places: 0.5 * 5 * 0.2 adverts a view; none with probability 1 - 0.5 * (1 - 0.8^5) = 0.664
    assert abs(sum(counts) / 4_000 - 0.5) < 0.05
    assert abs(counts.count(0) / 4_000 - 0.664) < 0.03


def test_two_views_of_a_page_differ() -> None:
    assert len({tuple(Adverts(1, 0.5).around(PAGE, (0, step))) for step in range(50)}) > 45


@pytest.mark.parametrize(("page", "slot"), [(-0.1, 0.5), (0.5, 1.1), ("1", 0.5), (True, 0.5), (0.5, float("nan"))])
def test_probabilities_out_of_range_are_refused(page: float, slot: float) -> None:
    with pytest.raises(ValueError, match=r"noise: the probability of a (page|slot) must be in 0\.\.1"):
        Adverts(page, slot)
