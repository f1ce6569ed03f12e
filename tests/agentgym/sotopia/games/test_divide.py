"""Divisions: how claims are read, and what they are worth."""

import itertools

import pytest

from agentgym.sotopia.games.divide import Divide, Pool
from tests.agentgym.sotopia.played import outcome

POOL = Pool((("book", "books"), ("hat", "hats"), ("ball", "balls")), (3, 2, 1))
#: Worth 3*1 + 2*3 + 1*1 = 10 points to role 0, and 3*2 + 2*1 + 1*2 = 10 to role 1.
GAME = Divide(POOL, ((1, 3, 1), (2, 1, 2)))


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("I take 2 books and 1 ball, you take 1 book and 2 hats.", (2, 0, 1)),
        ("I take two books and the ball; you get the rest.", (2, 0, 1)),
        ("You can have the hats.", (3, 0, 1)),
        ("I'd like to have both hats.", (0, 2, 0)),
        ("I'll take everything.", (3, 2, 1)),
        ("You get everything.", (0, 0, 0)),
        ("You get nothing and I keep 3 books, 2 hats and 1 ball.", (3, 2, 1)),
        ("I could give you one hat.", (3, 1, 1)),
        ("What about this: I get all the books and you get 2 hats and 1 ball.", (3, 0, 0)),
        ("2 hats for me, and 3 books and a ball for you", (0, 2, 0)),
        ("The books are mine, the hats and the ball are yours.", (3, 0, 0)),
        ("I take 2 hats, for you 3 books and the ball.", (0, 2, 0)),
        ("For me 2 hats, for you the rest.", (0, 2, 0)),
        ("The hats are mine.", (0, 2, 0)),
        ("I take 4 books.", None),  # there are 3
        ("I take 2 books, you take 2 books.", None),  # there are 3
        ("I take 1 book, you take 1 book.", None),  # what of the third?
        ("I won't take 2 books.", None),
        ("I value books at 3 points and hats at 2.", None),
        ("Which do you like, books or hats?", None),
        ("", None),
    ],
)
def test_claims(text: str, share: tuple[int, ...] | None) -> None:
    assert POOL.hear(0, text).terms == share
    assert POOL.hear(1, text).terms == (None if share is None else POOL.rest(share))


def test_own_words_are_read_back() -> None:
    for role, share, form in itertools.product((0, 1), POOL.shares(), range(3)):
        assert POOL.hear(role, GAME.sides[role].phrase(share, form)).terms == share, (role, share, form)


def test_goals_by_hand() -> None:
    # Role 1 needs 5 points for a half: 3 books are 6, and the 2 hats and the ball 7 for role 0, the most there is.
    # Role 0 needs 5: 2 hats are 6, and 3 books and the ball are 8 for role 1.
    assert GAME.goals((0, 2, 1)) == (10, 8)  # 7 of 7; 6 of 8 is 7.5
    assert GAME.goals((0, 2, 0)) == (9, 10)  # 6 of 7 is 8.6; 8 of 8
    assert GAME.goals((3, 0, 0)) == (4, 5)  # 3 of 7 is 4.3; 4 of 8
    assert GAME.goals((3, 2, 1)) == (10, 0)
    assert outcome(GAME, "I take the hats.", "Deal.") == ((0, 2, 0), (9, 10))
    assert outcome(GAME, "I take the books and the ball.", "Deal.", first=1) == ((0, 2, 0), (9, 10))
    assert outcome(GAME, "I take the hats.", "No way.") == (None, (0, 0))


def test_the_best_that_leaves_the_other_half_against_all_divisions() -> None:
    for values in itertools.product([(1, 2, 3), (4, 1, 1), (2, 2, 2), (0, 0, 5)], repeat=2):
        game = Divide(POOL, values)
        best = [1, 1]
        for books, hats, ball in itertools.product(range(4), range(3), range(2)):
            first = books * values[0][0] + hats * values[0][1] + ball * values[0][2]
            second = (3 - books) * values[1][0] + (2 - hats) * values[1][1] + (1 - ball) * values[1][2]
            if 2 * second >= 3 * values[1][0] + 2 * values[1][1] + values[1][2]:
                best[0] = max(best[0], first)
            if 2 * first >= 3 * values[0][0] + 2 * values[0][1] + values[0][2]:
                best[1] = max(best[1], second)
        share = (1, 2, 0)
        points = values[0][0] + 2 * values[0][1], 2 * values[1][0] + values[1][2]
        expected = tuple(min(10, int(10 * point / top + 0.5)) for point, top in zip(points, best, strict=True))
        assert game.goals(share) == expected


def test_sides_know_their_own_values_only() -> None:
    assert GAME.sides[0].worth((0, 2, 0)) == 6.0
    assert GAME.sides[1].worth((0, 2, 0)) == 8.0
    assert "(2, 1, 2)" not in repr(GAME.sides[0])
    assert "(1, 3, 1)" not in repr(GAME.sides[1])


def test_proposals_are_worth_the_level_and_give_what_was_asked_for() -> None:
    first, second = GAME.sides[0], GAME.sides[1]
    for level in (3.0, 5.0, 7.0, 9.0):
        assert first.worth(first.propose(level, (), ())) >= level
        assert second.worth(second.propose(level, (), ())) >= level
    assert first.propose(6.0, [(0, 2, 1), (0, 2, 0)], ()) == (0, 2, 0)  # the other asked for the books, then the ball


@pytest.mark.parametrize("values", [((1, 1), (1, 1, 1)), ((0, 0, 0), (1, 1, 1)), ((1, 1, 1), (1, -1, 1))])
def test_says_what_is_wrong_with_values(values: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="a value of at least 0 for each kind and role"):
        Divide(POOL, values)


def test_says_what_is_wrong_with_a_pile() -> None:
    with pytest.raises(ValueError, match="at least one of each"):
        Pool((("book", "books"),), (0,))
