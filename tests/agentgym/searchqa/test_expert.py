"""The player that knows everything."""

import pytest

from agentgym.searchqa.expert import next_command
from agentgym.searchqa.question import Question

QUESTION = Question("q", "Who?", ("Ada", "Bell"), "s", "train", ("1", "2"))
TITLES = {"1": "One", "2": "Two"}


@pytest.mark.parametrize(
    ("retrieved", "searches", "can_search", "expected"),
    [
        ((), 0, True, "<search> One </search>"),
        (("1",), 1, True, "<search> Two </search>"),
        (("2",), 1, True, "<search> One </search>"),
        (("1", "2"), 1, True, "<answer> Ada </answer>"),
        ((), 2, True, "<search> One </search>"),
        ((), 3, True, "<answer> Ada </answer>"),  # it does not find it
        ((), 0, False, "<answer> Ada </answer>"),
    ],
)
def test_the_expert_searches_for_what_is_missing(retrieved, searches, can_search, expected):
    assert next_command(QUESTION, TITLES, retrieved, searches, can_search=can_search) == expected
