"""A scripted player of games in which two agree on terms: prices, divisions, times.

It opens with what is good for itself, gives way as far as the other did and at a pace of its own, takes what is good
enough, and leaves when the other does not move. It knows its own side and what was said.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from agentgym.sotopia.acts import LEAVE, Act, Turn
from agentgym.sotopia.dialogue import View
from agentgym.sotopia.games.caches import TurnTree
from agentgym.sotopia.games.game import DealSide

#: No offer counts as worse than this: who opens with an insult gets no credit for taking it back.
_WORST = -8.0
#: With so few turns left it takes anything that is worth something.
_LAST, _BETTER_THAN_NOTHING = 2, 2.0
_ACCEPT = ("Deal.", "Agreed.", "That works for me.")


class Temperament(NamedTuple):
    """What a scripted player wants and how it gives way. Worths are those of `games.game.DealSide`, 10 is best.

    Attributes:
        start: how far below its best terms it opens.
        floor: the least worth that it takes.
        give: worth it gives up per worth that the other gave up since its first proposal.
        pace: worth it gives up at each own turn, whatever the other does.
        patience: turns without a step of the other after which it leaves.
        asks: in a search for a friend, it asks by itself and does not only answer.
        takes_last: in its last turn it takes what is better than nothing.
        plain: it says the same things always in the same words.
    """

    start: float
    floor: float
    give: float
    pace: float = 0.0
    patience: int = 5
    asks: bool = True
    takes_last: bool = False
    plain: bool = False


class _Course(NamedTuple):
    """What a player remembers of a dialogue.

    Attributes:
        wishes: what the other proposed.
        said: what this side proposed.
        best: the worth of the best of the other's proposals.
        gain: how much better for this side the other's proposals became since the first.
        idle: own chances in a row to see the other move, in which it did not.
        spoken: own utterances.
    """

    wishes: tuple[Any, ...] = ()
    said: tuple[Any, ...] = ()
    best: float = _WORST
    gain: float = 0.0
    idle: int = 0
    spoken: int = 0


def play_deal(view: View, side: DealSide, temper: Temperament) -> Act:
    """Return the next act.

    Args:
        view: what the player sees.
        side: its side of the game.
        temper: how it negotiates.
    """
    wishes, said, _, gain, idle, spoken = _tree(side).after(view.turns)
    standing = side.follow(view.turns) if view.standing is None else view.standing
    if standing.agreed is not None or idle >= temper.patience:
        return LEAVE
    level = max(temper.floor, side.top - temper.start - temper.give * gain - temper.pace * spoken)
    form = 0 if temper.plain else view.seed + len(view.turns)
    theirs = standing.offers[1 - side.role]
    worth = _WORST if theirs is None else side.worth(theirs)
    last = temper.takes_last and view.max_turns - len(view.turns) <= _LAST
    if theirs is not None and (worth >= level - 1e-9 or (last and worth >= _BETTER_THAN_NOTHING)):
        return Act("speak", _ACCEPT[form % 3])
    terms = side.propose(level, wishes, said)
    if theirs is not None and worth >= side.worth(terms):
        return Act("speak", _ACCEPT[form % 3])
    return Act("speak", side.phrase(terms, form))


def _tree(side: DealSide) -> TurnTree[_Course]:
    tree: TurnTree[_Course] | None = side.notes.get("deal")
    if tree is None:
        tree = side.notes["deal"] = TurnTree(_Course(), lambda course, turn: _step(side, course, turn))
    return tree


def _step(side: DealSide, course: _Course, turn: Turn) -> _Course:
    """Return what is remembered after one more turn."""
    wishes, said, best, gain, idle, spoken = course
    mine, theirs = turn.acts if side.role == 0 else turn.acts[::-1]
    if mine.kind == "speak":
        spoken += 1
        terms = side.hear(side.role, mine.text).terms
        if terms is not None:
            said = (*said, terms)
    if theirs.kind != "none" or mine.kind == "none":  # else the other was not in turn
        terms = side.hear(1 - side.role, theirs.text).terms if theirs.kind == "speak" else None
        idle += 1
        if terms is not None:
            worth = max(_WORST, side.worth(terms))
            new = terms not in wishes
            if wishes:
                gain += max(0.0, worth - best) + (side.novelty if new else 0.0)
            if new and (worth > best or side.novelty):
                idle = 0
            best = max(best, worth)
            wishes = (*wishes, terms)
    return _Course(wishes, said, best, gain, idle, spoken)
