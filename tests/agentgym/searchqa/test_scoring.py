"""Scores against cases worked out by hand, one or more for every rule."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.searchqa.scoring import (
    FormatReward,
    countable,
    exact_match,
    extract_answer,
    f1,
    is_well_formed,
    normalise,
    sub_match,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Beatles", "beatles"),
        ("BEATLES", "beatles"),
        ("an-apple", "anapple"),  # deleted, not spaced
        ("T-shirt", "tshirt"),
        ("A", ""),
        ("the a an", ""),
        ("U.S.", "us"),
        ("the.", ""),  # punctuation goes before articles do
        ("theatre and anthem", "theatre and anthem"),
        ("  two \t words\n", "two words"),
        ("“quoted”", "“quoted”"),  # only ASCII punctuation goes
        ("1914\u20131918", "1914\u20131918"),  # an en-dash
        ("1914-1918", "19141918"),
        ("Élan", "élan"),
        ("a€b", "€b"),  # a word ends where a sign begins
        ("$5,000!", "5000"),
        ("straSSe ß", "strasse ß"),
        ("vitamin a", "vitamin"),
        ("", ""),
    ],
)
def test_normalisation(text, expected):
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("answer", "golds", "expected"),
    [
        ("Ada Lovelace", ["ada lovelace."], True),
        ("Lovelace", ["Ada Lovelace", "The Lovelace"], True),
        ("Ada", ["Ada Lovelace"], False),
        ("", ["The"], False),  # a gold that is nothing matches nothing
        ("The", ["A"], False),
        ("", [], False),
        ("yes", ["Yes."], True),
    ],
)
def test_exact_match(answer, golds, expected):
    assert exact_match(answer, golds) is expected


@pytest.mark.parametrize(
    ("answer", "golds", "expected"),
    [
        ("It is Port Ulm, I think", ["Port Ulm"], True),
        ("Port", ["Port Ulm"], False),
        ("concatenate", ["cat"], True),  # character by character, as published
        ("anything", ["The"], False),
        ("anything", [], False),
    ],
)
def test_sub_match(answer, golds, expected):
    assert sub_match(answer, golds) is expected


@pytest.mark.parametrize(
    ("answer", "golds", "expected"),
    [
        ("Ada Lovelace", ["Ada Lovelace"], 1.0),
        ("Ada", ["Ada Lovelace"], 2 * 1 / (1 + 2)),
        ("the big red dog", ["red cat"], 2 * 1 / (3 + 2)),
        ("red red dog", ["red red red"], 2 * 2 / (3 + 3)),  # repeats count as often as both have them
        ("dog", ["cat"], 0.0),
        ("dog", ["cat", "old dog"], 2 / 3),  # the best gold
        ("yes", ["yes"], 1.0),
        ("Yes!", ["yes"], 1.0),
        ("yes it is", ["yes"], 0.0),
        ("yes", ["yes it is"], 0.0),
        ("no", ["yes"], 0.0),
        ("noanswer", ["no answer"], 0.0),
        ("no way", ["no doubt"], 0.5),  # neither is closed
        ("", ["The"], 0.0),
        ("", [""], 0.0),
        ("x", [], 0.0),
    ],
)
def test_f1(answer, golds, expected):
    assert f1(answer, golds) == pytest.approx(expected)


def naive_f1(answer: str, gold: str) -> float:
    given, wanted = normalise(answer), normalise(gold)
    if given != wanted and {given, wanted} & {"yes", "no", "noanswer"}:
        return 0.0
    left, shared = wanted.split(), 0
    for word in given.split():
        if word in left:
            left.remove(word)
            shared += 1
    if not shared:
        return 0.0
    precision, recall = shared / len(given.split()), shared / len(wanted.split())
    return 2 * precision * recall / (precision + recall)


WORDS = st.lists(st.sampled_from(["yes", "no", "ada", "the", "red", "dog,", "A"]), max_size=5).map(" ".join)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(WORDS, WORDS)
def test_f1_equals_a_naive_one_and_is_symmetric(one, other):
    assert f1(one, [other]) == pytest.approx(naive_f1(one, other))
    assert f1(one, [other]) == pytest.approx(f1(other, [one]))
    assert not exact_match(one, [other]) or (f1(one, [other]) == 1.0 and sub_match(one, [other]))


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.text())
def test_normalising_twice_changes_nothing_but_new_articles(text):
    """The rule itself is not idempotent ("a an" inside punctuation, say), but what it returns has no loose spaces."""
    once = normalise(text)
    assert once == " ".join(once.split())
    assert Counter(normalise(once).split()) <= Counter(once.split())


def test_golds_that_are_nothing_do_not_count():
    assert countable(["A", "the", "-", "a b"]) == ("a b",)


@pytest.mark.parametrize(
    ("text", "at_least", "expected"),
    [
        ("<answer>x</answer>", 1, "x"),
        ("<answer>x</answer>", 2, None),
        ("e.g. <answer> Beijing </answer> ... <answer> \n Oslo </answer>", 2, "Oslo"),
        ("<answer>x", 1, None),
        ("<answer>a\nb</answer>", 1, "a\nb"),
        ("<answer></answer>", 1, ""),
        ("<Answer>x</Answer>", 1, None),
        ("", 1, None),
    ],
)
def test_extracting_the_answer(text, at_least, expected):
    assert extract_answer(text, at_least=at_least) == expected


T, S, I, A = "<think>t</think>", "<search>s</search>", "<information>i</information>", "<answer>x</answer>"  # noqa: E741


@pytest.mark.parametrize(
    ("transcript", "expected"),
    [
        (T + A, True),
        (T + S + I + T + A, True),
        (f" {T}\n{S}\n\n{I}\n\n{T} {A}\n", True),
        (T + S + I + A, False),  # no thought before the answer
        (S + I + T + A, False),
        (T + S + T + A, False),
        (T + S + I + T, False),  # no end
        (T + T + A, False),
        (T + A + A, False),
        (T + A + T, False),
        (T + "well" + A, False),
        (T + A + "well", False),
        ("<think><search>x</search></think>" + A, False),
        ("<think>t</think><answer>a", False),
        ("", False),
    ],
)
def test_well_formed_transcripts(transcript, expected):
    assert is_well_formed(transcript) is expected


def test_the_format_reward_is_the_published_one():
    reward = FormatReward()
    assert reward(T + A, "x", ["x"]) == 1.0
    assert reward(A, "x", ["x"]) == 0.8
    assert reward(T + A, "x", ["b"]) == 0.2
    assert reward(A, "x", ["b"]) == 0.1
    assert reward("", None, ["b"]) == 0.0
    assert reward(T + S, None, ["b"]) == 0.0
    found = T + "<search>s</search><information>It is B.</information>" + T + A
    assert FormatReward(retrieval=0.1)(found, "x", ["b"]) == pytest.approx(0.3)
    assert FormatReward(retrieval=0.1)(found, "x", ["c"]) == pytest.approx(0.2)
