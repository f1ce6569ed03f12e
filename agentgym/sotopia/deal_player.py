"""A scripted player of games in which two agree on terms: prices, divisions, times.

It opens with what is good for itself, gives way as far as the other did (or at a pace of its own), takes what is good
enough, and leaves when the other does not move. It knows its own side and what was said.
"""

from __future__ import annotations

from typing import Any

from agentgym.sotopia.acts import LEAVE, Act
from agentgym.sotopia.dialogue import View
from agentgym.sotopia.games.game import DealSide
from agentgym.sotopia.temperaments import Temperament

#: No offer counts as worse than this: who opens with an insult gets no credit for taking it back.
_WORST = -8.0
#: With so few turns left it takes anything that is worth something.
_LAST, _BETTER_THAN_NOTHING = 2, 2.0


def play_deal(view: View, side: DealSide, temper: Temperament, takes_last: bool = False) -> Act:
    """Return the next act.

    Args:
        view: what the player sees.
        side: its side of the game.
        temper: how it negotiates.
        takes_last: in its last turn it takes what is better than nothing.
    """
    me, other = view.role, 1 - view.role
    standing = side.begin()
    wishes: list[Any] = []
    said: list[Any] = []
    first = best = _WORST
    gain, idle, spoken = 0.0, 0, 0
    for turn in view.turns:
        standing = side.read(standing, turn)
        kind, text = turn.acts[me]
        if kind == "speak":
            spoken += 1
            terms = side.hear(me, text).terms
            if terms is not None:
                said.append(terms)
        kind, text = turn.acts[other]
        if kind == "none" and turn.acts[me].kind != "none":
            continue
        terms = side.hear(other, text).terms if kind == "speak" else None
        if terms is None:
            idle += 1
            continue
        worth = max(_WORST, side.worth(terms))
        new = terms not in wishes
        if not wishes:
            first = worth
        elif new:
            gain += side.novelty
        idle = 0 if new and (worth > best or side.novelty) else idle + 1
        best = max(best, worth)
        wishes.append(terms)
    if standing.agreed is not None or idle >= temper.patience:
        return LEAVE
    gain += max(0.0, best - first) if wishes else 0.0
    start = side.top - temper.start
    level = max(temper.floor, start - temper.give * gain - temper.pace * spoken)
    theirs = standing.offers[other]
    form = view.seed + len(view.turns)
    if theirs is not None:
        worth = side.worth(theirs)
        last = takes_last and view.max_turns - len(view.turns) <= _LAST
        if worth >= level - 1e-9 or (last and worth >= _BETTER_THAN_NOTHING):
            return Act("speak", _ACCEPT[form % 3])
    terms = side.propose(level, wishes, said)
    if theirs is not None and side.worth(theirs) >= side.worth(terms):
        return Act("speak", _ACCEPT[form % 3])
    return Act("speak", side.phrase(terms, form))


_ACCEPT = ("Deal.", "Agreed.", "That works for me.")
