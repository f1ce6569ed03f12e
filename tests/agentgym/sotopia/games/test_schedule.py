"""Meetings: how times are read, and what they cost."""

import pytest

from agentgym.sotopia.games.schedule import Calendar, Schedule
from tests.agentgym.sotopia.played import outcome, standing

FREE = Calendar((("Monday", "noon"), ("Monday", "evening"), ("Friday", "noon")))
GAME = Schedule(FREE, ((0, 8, 3), (9, 1, 2)))


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("Monday at noon?", 0),
        ("MONDAY NOON", 0),
        ("How about the evening of Monday?", 1),
        ("Friday suits me.", 2),
        ("In the evening, please.", 1),
        ("Monday", None),  # two of them
        ("Noon?", None),
        ("Monday at noon or Friday at noon", None),
        ("I am busy on Monday at noon, but Friday at noon works.", 2),
        ("Not on Friday at noon.", None),
        ("Tuesday at noon", None),  # is not free, and two are at noon
        ("I love mondays.", None),
        ("", None),
    ],
)
def test_slots(text: str, slot: int | None) -> None:
    assert FREE.hear(text).terms == slot


def test_own_words_are_read_back() -> None:
    for slot in range(3):
        for form in range(3):
            assert FREE.hear(GAME.sides[0].phrase(slot, form)).terms == slot


def test_goals_are_ten_less_the_cost() -> None:
    assert outcome(GAME, "Monday at noon?", "Deal.") == (0, (10, 1))
    assert outcome(GAME, "Monday at noon?", "No, that is impossible. Friday?", "That works for me.") == (2, (7, 8))
    assert outcome(GAME, "Monday at noon?", "Friday?") == (None, (0, 0))
    assert standing(GAME, "Monday at noon?", "Friday?").offers == (0, 2)


def test_solvable_and_sides() -> None:
    assert GAME.solvable
    assert not Schedule(FREE, ((0, 8, 3), (9, 1, 4))).solvable
    side = GAME.sides[0]
    assert [side.worth(slot) for slot in range(3)] == [10.0, 2.0, 7.0]
    assert side.propose(6.0, (), ()) == 0
    assert side.propose(6.0, (), [0]) == 2
    assert side.propose(6.0, (), [0, 2]) == 0
    assert "(9, 1, 2)" not in repr(side)


def test_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="slots that differ"):
        Calendar((("Monday", "noon"), ("Monday", "noon")))
    with pytest.raises(ValueError, match=r"a cost in 0\.\.10 for each slot and role"):
        Schedule(FREE, ((0, 8, 11), (9, 1, 2)))
