"""A scripted player of the search for a mutual friend: it answers truly, and asks what tells most.

It describes the likeliest of its friends, one property after the other. It names a friend when the other knows
somebody like that in everything, or when nobody else is left.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from agentgym.sotopia.acts import LEAVE, Act, Turn
from agentgym.sotopia.dialogue import View
from agentgym.sotopia.games.caches import TurnTree
from agentgym.sotopia.games.friend import FriendSide
from agentgym.sotopia.games.game import Heard, Standing
from agentgym.sotopia.players.deal import Temperament

_SILENCE = Heard()
_KNOWN = "Yes, I know"
_WAITING = ("Whom do you know?", "Go on, ask me.", "What are your friends like?")
#: A description that fits a friend of the other, and the own friends whom it fits.
_Fit = tuple[frozenset[str], tuple[str, ...]]


class _Search(NamedTuple):
    """What a player remembers of a dialogue.

    Attributes:
        standing: how the game stands.
        left: names of own friends who may be the one.
        fits: what is known of friends of the other.
        asked: own question that has no answer yet.
        last: what the other said last.
        heard: all that the other said.
        idle: turns of the other in a row that said nothing new.
    """

    standing: Standing
    left: tuple[str, ...]
    fits: tuple[_Fit, ...] = ()
    asked: Heard = _SILENCE
    last: Heard = _SILENCE
    heard: frozenset[str] = frozenset()
    idle: int = 0


def play_friend(view: View, side: FriendSide, temper: Temperament) -> Act:
    """Return the next act.

    Args:
        view: what the player sees.
        side: its side of the game.
        temper: whether it asks by itself, and how long it waits for answers.
    """
    search = _tree(side).after(view.turns)
    if search.standing.agreed is not None or search.idle >= temper.patience:
        return LEAVE
    answer = _answer(side, search.last)
    if answer.startswith(_KNOWN):
        return Act("speak", answer)
    question = _question(side, search) if temper.asks else ""
    return Act("speak", f"{answer} {question}".strip() or _WAITING[(view.seed + len(view.turns)) % 3])


def _tree(side: FriendSide) -> TurnTree[_Search]:
    tree: TurnTree[_Search] | None = side.notes.get("friend")
    if tree is None:
        start = _Search(Standing(), tuple([friend.name for friend in side.friends]))
        tree = side.notes["friend"] = TurnTree(start, lambda search, turn: _step(side, search, turn))
    return tree


def _step(side: FriendSide, search: _Search, turn: Turn) -> _Search:
    """Return what is remembered after one more turn."""
    standing, left, fits, asked, last, heard, idle = search
    standing = side.read(standing, turn)
    mine, theirs = turn.acts if side.role == 0 else turn.acts[::-1]
    if mine.kind == "speak":
        asked = side.hear(side.role, mine.text)
    if theirs.kind != "none" or mine.kind == "none":  # else the other was not in turn
        last = side.hear(1 - side.role, theirs.text) if theirs.kind == "speak" else _SILENCE
        idle = idle + 1 if theirs.kind != "speak" or theirs.text in heard else 0
        heard = heard | {theirs.text}
        named = tuple([name for name in asked.things if name in side.names])
        if last.refuses:
            out = named or side.matching(frozenset(asked.things))
            left = tuple([name for name in left if name not in out]) or left
        elif last.accepts and not named:
            fits = _with(side, fits, asked)
        if last.asks:  # who asks about somebody has such a friend
            fits = _with(side, fits, last)
        asked = _SILENCE
    return _Search(standing, left, fits, asked, last, heard, idle)


def _with(side: FriendSide, fits: tuple[_Fit, ...], said: Heard) -> tuple[_Fit, ...]:
    """Return what is known, and that somebody fits this description."""
    described = frozenset(said.things) - side.names
    fit = described, side.matching(described)
    return (*fits, fit) if fit[1] and fit not in fits else fits


def _answer(side: FriendSide, heard: Heard) -> str:
    """Return the true answer to what the other said; "" where that asks nothing."""
    named = [name for name in heard.things if name in side.names]
    if named:
        return f"{_KNOWN} {named[0]}."
    if not heard.asks:
        return ""
    return "Yes, somebody like that." if side.matching(frozenset(heard.things)) else "No, none of mine."


def _question(side: FriendSide, search: _Search) -> str:
    """Return the next question; of properties, those are preferred that were brought up already, for they are free."""
    friends = {friend.name: friend for friend in side.friends}
    counts = Counter([value for name in search.left for value in friends[name].values])
    fits = {name: [described for described, who in search.fits if name in who] for name in search.left}
    name = max(
        search.left,
        key=lambda name: (
            max([len(each) for each in fits[name]], default=0),
            len(fits[name]),
            max([counts[value] for value in friends[name].values]),
            name,
        ),
    )
    values = friends[name].values
    best = max(fits[name], key=lambda each: (len(each), sorted(each)), default=frozenset())
    known = [value for value in values if value.lower() in best]
    if len(search.left) == 1 or len(known) == len(values):
        return f"Is it {name}?"
    free = search.standing.things[0] + search.standing.things[1]
    new = max(
        [value for value in values if value not in known],
        key=lambda value: (value.lower() in free, counts[value], value),
    )
    told = [f"{side.attributes[values.index(value)][0]} {value}" for value in (*known, new)]
    return f"Do you know somebody with {' and '.join(told)}?"
