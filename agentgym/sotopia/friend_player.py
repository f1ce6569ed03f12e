"""A scripted player of the search for a mutual friend: it answers truly, and asks what tells most.

It describes the likeliest of its friends, one property after the other. It names a friend when the other knows
somebody of whom two properties fit this friend alone, or all of them do, or when nobody else is left.
"""

from __future__ import annotations

from agentgym.sotopia.acts import LEAVE, Act
from agentgym.sotopia.dialogue import View
from agentgym.sotopia.games.friend import Friend, FriendSide
from agentgym.sotopia.games.game import Heard
from agentgym.sotopia.temperaments import Temperament

_SILENCE = Heard()
_KNOWN = "Yes, I know"
_WAITING = ("Whom do you know?", "Go on, ask me.", "What are your friends like?")


def play_friend(view: View, side: FriendSide, temper: Temperament) -> Act:
    """Return the next act.

    Args:
        view: what the player sees.
        side: its side of the game.
        temper: whether it asks by itself, and how long it waits for answers.
    """
    me, other = view.role, 1 - view.role
    search = _Search(side)
    standing = side.begin()
    asked = last = _SILENCE
    seen: set[str] = set()
    idle = 0
    for turn in view.turns:
        standing = side.read(standing, turn)
        kind, text = turn.acts[me]
        if kind == "speak":
            asked = side.hear(me, text)
        kind, text = turn.acts[other]
        if kind == "none" and turn.acts[me].kind != "none":
            continue
        last = side.hear(other, text) if kind == "speak" else _SILENCE
        idle = idle + 1 if kind != "speak" or text in seen else 0
        seen.add(text)
        search.take(asked, last)
        asked = _SILENCE
    if standing.agreed is not None or idle >= temper.patience:
        return LEAVE
    answer = _answer(side, last)
    if answer.startswith(_KNOWN):
        return Act("speak", answer)
    question = search.question(standing.things) if temper.asks else ""
    return Act("speak", f"{answer} {question}".strip() or _WAITING[(view.seed + len(view.turns)) % 3])


def _answer(side: FriendSide, heard: Heard) -> str:
    """Return the true answer to what the other said; "" where that asks nothing."""
    named = [name for name in heard.things if name in side.names]
    if named:
        return f"{_KNOWN} {named[0]}."
    if not heard.asks:
        return ""
    return "Yes, somebody like that." if side.matching(frozenset(heard.things)) else "No, none of mine."


class _Search:
    """What is known about who it may be."""

    def __init__(self, side: FriendSide) -> None:
        self.side = side
        self.left: dict[str, Friend] = {friend.name: friend for friend in side.friends}
        #: Descriptions that fit a friend of the other, with the own friends whom they fit.
        self.confirmed: dict[frozenset[str], tuple[str, ...]] = {}

    def take(self, asked: Heard, said: Heard) -> None:
        """Take in what the other said after an own question; what the other asks about fits one of its friends."""
        names = self.side.names
        named = tuple(name for name in asked.things if name in names)
        described = frozenset(asked.things) - names
        if said.refuses:
            self._rule_out(named or self.side.matching(described))
        elif said.accepts and described and not named:
            self.confirmed[described] = self.side.matching(described)
        asks = frozenset(said.things) - names
        if said.asks and self.side.matching(asks):
            self.confirmed[asks] = self.side.matching(asks)

    def _rule_out(self, names: tuple[str, ...]) -> None:
        if len(self.left.keys() - set(names)):
            for name in names:
                self.left.pop(name, None)

    def question(self, things: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
        """Return the next question; properties that were brought up already are preferred, for they are free."""
        fits = {name: [d for d, who in self.confirmed.items() if name in who] for name in self.left}
        counts: dict[str, int] = {}
        for friend in self.left.values():
            for value in friend.values:
                counts[value] = counts.get(value, 0) + 1
        name = max(
            self.left,
            key=lambda name: (
                max(map(len, fits[name]), default=0),
                len(fits[name]),
                max(counts[value] for value in self.left[name].values),
                name,
            ),
        )
        values = self.left[name].values
        best = max(fits[name], key=lambda each: (len(each), sorted(each)), default=frozenset())
        alone = len([each for each in self.confirmed.get(best, ()) if each in self.left]) == 1
        known = [value for value in values if value.lower() in best]
        if len(self.left) == 1 or len(known) == len(values) or (alone and len(known) > 1):
            return f"Is it {name}?"
        free = things[0] + things[1]
        new = max(
            (value for value in values if value not in known),
            key=lambda value: (value.lower() in free, counts[value], value),
        )
        told = [f"{self.side.attributes[values.index(value)][0]} {value}" for value in (*known, new)]
        return f"Do you know somebody with {' and '.join(told)}?"
