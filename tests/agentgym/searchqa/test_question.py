"""Which questions can be answered by what a search finds."""

import pytest

from agentgym.searchqa.question import Question, is_answerable
from agentgym.searchqa.retriever import SearchFailure
from tests.agentgym.searchqa.four_passages import PASSAGES, Titles


def test_answerable_by_support_or_by_a_gold_that_is_found():
    asked = [
        Question("supported", "zzz", ("anything",), "s", "test", supports=("ada",)),
        Question("found", "ada", ("port ulm!",), "s", "test"),
        Question("not found", "ada", ("Zell",), "s", "test"),
        Question("part of a word", "ada", ("Ada Be",), "s", "test"),
        Question("closed", "ada", ("no",), "s", "test"),
        Question("second gold", "kingdom", ("pound", "Crown"), "s", "test"),
    ]
    assert is_answerable(asked, Titles(PASSAGES)) == [True, True, False, False, False, True]
    assert is_answerable([], Titles()) == []


def test_a_failed_search_leaves_nothing_decided():
    class Broken:
        def search(self, queries, k):
            return [SearchFailure("down")] * len(queries)

    with pytest.raises(RuntimeError, match="down"):
        is_answerable([Question("1", "x", ("y",), "s", "test")], Broken())
