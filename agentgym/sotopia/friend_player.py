"""A scripted player of the search for a mutual friend: it answers truly, and asks what tells most.

It asks about one property of the likeliest friend after the other, and names a friend once the other has said yes to
all that is known of that friend, or when nobody else is left.
"""

from __future__ import annotations

from agentgym.sotopia.acts import LEAVE, Act
from agentgym.sotopia.dialogue import View
from agentgym.sotopia.games.friend import Friend, FriendSide
from agentgym.sotopia.games.game import Heard
from agentgym.sotopia.temperaments import Temperament


def play_friend(view: View, side: FriendSide, temper: Temperament) -> Act:
    """Return the next act.

    Args:
        view: what the player sees.
        side: its side of the game.
        temper: whether it asks by itself, and how long it waits for answers.
    """
    me, other = view.role, 1 - view.role
    standing = side.begin()
    left = {friend.name: friend for friend in side.friends}
    agreeing: dict[str, int] = dict.fromkeys(left, 0)
    asked: Heard | None = None
    last: Heard | None = None
    last_text, idle = "", 0
    seen: set[str] = set()
    for turn in view.turns:
        standing = side.read(standing, turn)
        kind, text = turn.acts[me]
        if kind == "speak":
            asked = side.hear(me, text)
        kind, text = turn.acts[other]
        if kind == "none" and turn.acts[me].kind != "none":
            continue
        last = side.hear(other, text) if kind == "speak" else Heard()
        last_text = text if kind == "speak" else ""
        idle = idle + 1 if text in seen or not last_text else 0
        seen.add(text)
        if asked is not None and asked.things and (last.accepts or last.refuses):
            _learn(side, asked, last, left, agreeing)
        if last.asks and last.things:
            for name in side.matching(_properties(side, last)):
                agreeing[name] += 1
        asked = None
    if standing.agreed is not None or idle >= temper.patience:
        return LEAVE
    answer = _answer(side, last, last_text) if last is not None else ""
    if answer.startswith(_KNOWN):
        return Act("speak", answer)
    question = _ask(side, left, agreeing, standing.things[me]) if temper.asks else ""
    return Act("speak", f"{answer} {question}".strip() or _WAITING[(view.seed + len(view.turns)) % 3])


_KNOWN = "Yes, I know"
_WAITING = ("Whom do you know?", "Go on, ask me.", "Tell me more about your friends?")


def _properties(side: FriendSide, heard: Heard) -> frozenset[str]:
    return frozenset(heard.things) - side.names()


def _learn(
    side: FriendSide, asked: Heard, answer: Heard, left: dict[str, Friend], agreeing: dict[str, int]
) -> None:
    """Take the answer to an own question into account; names denied and properties denied are out."""
    properties = _properties(side, asked)
    named = [name for name in asked.things if name in side.names()]
    if answer.refuses:
        out = named if named else side.matching(properties)
        if len(left.keys() - set(out)):
            for name in out:
                left.pop(name, None)
    elif not named:
        for name in side.matching(properties):
            agreeing[name] += 1 + len(properties)


def _answer(side: FriendSide, heard: Heard, text: str) -> str:
    """Return the true answer to what the other said; "" where that asks nothing."""
    named = [name for name in heard.things if name in side.names()]
    if named:
        return f"{_KNOWN} {named[0]}."
    properties = _properties(side, heard)
    if not heard.asks:
        return ""
    if properties and side.matching(properties):
        return "Yes, somebody like that."
    return "No, none of mine." if text else ""


def _ask(side: FriendSide, left: dict[str, Friend], agreeing: dict[str, int], brought: tuple[str, ...]) -> str:
    """Return the next question."""
    known = set(brought)
    shared = {name: sum(other.values[i] == friend.values[i] for other in left.values() for i in range(len(friend.values)))
              for name, friend in left.items()}
    best = max(left.values(), key=lambda friend: (agreeing[friend.name], shared[friend.name], friend.name))
    values = [value for value in best.values]
    open_values = [value for value in values if value.lower() not in known]
    if len(left) == 1 or not open_values or len(values) - len(open_values) >= 2:
        return f"Is it {best.name}?"
    counts = {value: sum(value in other.values for other in left.values()) for value in open_values}
    value = max(open_values, key=lambda each: (counts[each], each))
    confirmed = [each for each in values if each.lower() in known]
    pair = [*confirmed, value]
    return "Do you know somebody with " + " and ".join(
        f"{side.attributes[values.index(each)]} {each}" for each in pair
    ) + "?"
