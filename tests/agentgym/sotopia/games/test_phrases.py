"""Utterances without a hint of agreement, denial or a claim are not searched for them, and are read the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

from agentgym.sotopia.games import bargain, divide, phrases
from agentgym.sotopia.games.divide import Divide, Pool

#: Words of all patterns and of none, with capitals, and letters that Python's patterns take for others (ſ for s).
WORDS = (
    "deal Deal AGREED accept accepted sold ſold sounds good works well for me that take it I'll done settled let's do "
    "fine by with yes sure ok no nope sorry problem isn't isn\u2019t cannot NOT never none nobody unable refuse reject "
    "decline impossible busy bad way thanks too low high few if would could lower than $40 55 dollars know note "
    "lorem ipsum dolor Zürich plans 70 55. x12 x12y $3 \u0665 bucks uſd dollar 1,250 make it for about"
)
CLAIMS = (
    "I take two books", "you get the hat", "I keep everything", "you can have the rest", "for me 2 hats", "a hat",
    "the books are mine", "I want nothing", "you take all the straßen", "I get one straße", "we plan", "I take it all",
)  # fmt: skip
ENDS = (".", "?", "!", ",", ";", ", but", ". ", "")


def utterances(seed: int, count: int) -> list[str]:
    rng = np.random.default_rng(seed)
    pieces = [*WORDS.split(), *CLAIMS, *CLAIMS]
    return [
        " ".join(str(piece) + str(rng.choice(ENDS)) for piece in rng.choice(pieces, rng.integers(1, 9)))
        for _ in range(count)
    ]


def test_hints_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = utterances(0, 6_000)
    read = phrases.read.__wrapped__  # type: ignore[attr-defined]  # without its cache
    pools = [Pool((("book", "books"), ("hat", "hats")), (3, 2)), Pool((("straße", "straßen"), ("hat", "hats")), (3, 2))]

    def everything() -> list[object]:
        heard = [read(text) for text in texts]
        prices = [bargain.hear.__wrapped__(text) for text in texts]  # type: ignore[attr-defined]
        return [heard, [divide.claimed(pool, said.open) for pool in pools for said in heard], prices]

    quick = everything()
    asked: list[bool] = []
    for module in (phrases, divide, bargain):
        monkeypatch.setattr(module, "may_hold", lambda text, hints: asked.append(True) or True)
    monkeypatch.setattr(bargain, "_BEGINS", re.compile(""))
    assert everything() == quick
    assert asked
    said, claims, prices = quick
    assert len({each.terms for each in prices}) > 2  # type: ignore[attr-defined]
    assert {each.agrees for each in said} == {each.no for each in said} == {True, False}  # type: ignore[attr-defined]
    assert len(set(claims)) > 5  # type: ignore[call-overload]


def test_clauses_break_and_begin_as_the_plain_patterns_say() -> None:
    breaks = re.compile(r"(?<=[.!?;])\s+|\n+|,? but | however,? |; |, so ", re.IGNORECASE)
    yes = re.compile(r"^\W*(?:yes|yeah|yep|sure)\b", re.IGNORECASE)
    no = re.compile(r"^\W*(?:no|nope|nah|sorry)\b(?! (?:problem|worries|doubt))", re.IGNORECASE)
    pieces = [
        *(".", "!", "?", ",", ";", "a", "but", "But", "however", "\u017fo", "yes", "YES", "ye\u017f", "no", "sorry"),
        *[" ", "  ", "\n", "\t", "\x0b", "\x85", "; ", ", but ", " but ", " however, ", ", so ", " problem"],
    ]
    rng = np.random.default_rng(0)
    found = set()
    for _ in range(20_000):
        text = "".join(rng.choice(pieces, rng.integers(0, 10)))
        parts = breaks.split(text)
        assert phrases._BREAK.split(text) == parts, repr(text)
        said = phrases.read_new(text)
        assert said.yes == (said.agrees or any(yes.match(part) for part in parts if part)), repr(text)
        assert said.no == (bool(said.denied) or any(no.match(part) for part in parts if part)), repr(text)
        found.add((len(parts) > 1, said.yes, said.no))
    assert len(found) == 7  # one clause does not say both


def test_shares_and_points_by_hand_and_against_one_by_one() -> None:
    pool = Pool((("book", "books"), ("hat", "hats")), (2, 1))
    # Shares (0,0) (0,1) (1,0) (1,1) (2,0) (2,1) at 3 points a book and 4 a hat.
    assert pool.points((3, 4)) == [0, 4, 3, 7, 6, 10]
    game = Divide(Pool((("book", "books"), ("hat", "hats"), ("ball", "balls")), (3, 2, 1)), ((1, 3, 1), (2, 1, 2)))
    for side in game.sides:
        levels, divisions = side._ranked
        one_by_one = sorted(
            (side.worth(terms), side.own(terms), terms, game.pool.rest(side.own(terms))) for terms in game.pool.shares()
        )
        assert levels == [worth for worth, *_ in one_by_one]
        assert divisions == [(terms, rest) for _, _, terms, rest in one_by_one]
