"""What the search benchmarks measure on. Nothing here asserts a speed."""

import contextlib
import itertools

import pytest

from benchmarks.speed.searchqa_index import (
    SyntheticPassages,
    batches,
    sqlite,
    sqlite_search,
)


@pytest.fixture(scope="module")
def made() -> SyntheticPassages:
    return SyntheticPassages()


def test_synthetic_passages_are_the_same_however_many_are_asked_for(
    made: SyntheticPassages, monkeypatch: pytest.MonkeyPatch
) -> None:
    passages = list(made.passages(2_100))
    assert list(made.passages(1_001)) == passages[:1_001]
    monkeypatch.setattr("benchmarks.speed.searchqa_index._WORDS", 5_000)
    first, again, other = ([*itertools.islice(SyntheticPassages(seed).passages(10), 3)] for seed in (0, 0, 1))
    assert first == again != other
    assert [passage.id for passage in passages] == [str(i) for i in range(2_100)]
    assert {(len(passage.title.split()), len(passage.text.split())) for passage in passages} == {(2, 98)}
    stop = sum(word in ("the", "of", "and") for passage in passages for word in passage.text.split())
    # 3 of 15 stop words, which are 0.4 of 98 words in each of 2,100 passages: 16,464 expected, standard deviation 123.
    assert abs(stop - 16_464) < 600


def test_questions_are_made_of_their_source(made: SyntheticPassages) -> None:
    passages = list(made.passages(1_500))
    questions = made.questions(50, 1_500)
    assert made.questions(50, 1_500) == questions
    for question, source in questions:
        words = question.removeprefix("what is ").split(" the ")
        assert len(words) == 5
        assert set(words) <= set(passages[int(source)].contents.replace('"', "").split())
    with contextlib.closing(sqlite(tuple(made.passages(500)))) as base:
        for question, source in made.questions(20, 500):
            assert int(source) + 1 in [row for (row,) in sqlite_search(base, question)]


def test_as_many_questions_are_answered_as_are_counted() -> None:
    seen: list[str] = []
    assert batches("abcdefg", seen.extend, 3)(10) == 12
    assert "".join(seen) == "abcdefbcdefg"
