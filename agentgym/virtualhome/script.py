"""Lines of a script, `[PUTBACK] <cup> (6) <table> (5)`: the actions there are, and what a line says."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

#: How many things each action is done with.
PARAMETERS: Final[dict[str, int]] = {
    "CLOSE": 1, "DRINK": 1, "FIND": 1, "WALK": 1, "GRAB": 1, "LOOKAT": 1, "LOOKAT_SHORT": 1, "LOOKAT_LONG": 1,
    "OPEN": 1, "POINTAT": 1, "PUTBACK": 2, "PUTIN": 2, "PUTOBJBACK": 1, "RUN": 1, "SIT": 1, "STANDUP": 0,
    "SWITCHOFF": 1, "SWITCHON": 1, "TOUCH": 1, "TURNTO": 1, "WATCH": 1, "WIPE": 1, "PUTON": 1, "PUTOFF": 1,
    "GREET": 1, "DROP": 1, "READ": 1, "LIE": 1, "POUR": 2, "TYPE": 1, "PUSH": 1, "PULL": 1, "MOVE": 1, "WASH": 1,
    "RINSE": 1, "SCRUB": 1, "SQUEEZE": 1, "PLUGIN": 1, "PLUGOUT": 1, "CUT": 1, "EAT": 1, "SLEEP": 0, "WAKEUP": 0,
    "RELEASE": 1,
}  # fmt: skip
#: Other spellings of an action.
ALIASES: Final = {"LOOKAT_MEDIUM": "LOOKAT"}

#: Longer lines, which no script has, are not remembered: they could fill the memory.
_MOST_REMEMBERED: Final = 200
_ACTION = re.compile(r"\[(\w+)\]")
_SPACE = re.compile(r"\s*")


class Line(NamedTuple):
    """What a line says.

    Attributes:
        action: a name in `PARAMETERS`.
        things: (name in lower case with underscores, id) of each thing.
    """

    action: str
    things: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        """Return the line as scripts write it."""
        return f"[{self.action}]" + "".join(f" <{name}> ({number})" for name, number in self.things)


class LineError(ValueError):
    """A line says nothing that can be done; the message is the name of the original's exception, and its text."""


def parse_line(text: str) -> Line:
    """Return what a line says, in time linear in its length.

    Raises:
        LineError: "ScriptParseException: ..." or "ValueError", as the original has it.

    >>> parse_line("[putback] <Coffee Cup> (6) <table> (5)")
    Line(action='PUTBACK', things=(('coffee_cup', 6), ('table', 5)))
    """
    line, wrong = _remembered(text) if len(text) <= _MOST_REMEMBERED else _parse(text)
    if line is None:
        raise LineError(wrong)
    return line


@lru_cache(maxsize=8192)
def _remembered(text: str) -> tuple[Line | None, str]:
    return _parse(text)


def _parse(text: str) -> tuple[Line | None, str]:
    text = text.strip()
    found = _ACTION.match(text)
    if found is None:
        return None, "ScriptParseException: Cannot parse action"
    action = found[1].upper()
    action = ALIASES.get(action, action)
    if action not in PARAMETERS:
        return None, f'ScriptParseException: Unknown action "{action}"'
    things: list[tuple[str, int]] = []
    for name, number in _things(text, found.end(1)):
        try:
            things.append((name.lower().replace(" ", "_"), int(number)))
        except ValueError:
            return None, "ValueError"
    if len(things) != PARAMETERS[action]:
        return None, (
            f'ScriptParseException: Wrong number of parameters for "{action}". Got {len(things)}, '
            f"expected {PARAMETERS[action]}"
        )
    return Line(action, tuple(things)), ""


class _Next:
    """Where a character comes next, asked for places that only grow: the text is read once."""

    def __init__(self, text: str, character: str) -> None:
        self.text, self.character, self.place = text, character, -1

    def at(self, start: int) -> int:
        """Return its place from `start` on, the length of the text where it does not come."""
        if self.place < start:
            place = self.text.find(self.character, start)
            self.place = len(self.text) if place < 0 else place
        return self.place


def _things(text: str, start: int) -> list[tuple[str, str]]:
    r"""Return what `<(.+?)>\s*\((.+?)\)` finds in the rest, one after the other; that pattern itself is quadratic."""
    found: list[tuple[str, str]] = []
    closing, bracket_end = _Next(text, ">"), _Next(text, ")")
    line_end, bracket_line_end = _Next(text, "\n"), _Next(text, "\n")
    opened = text.find("<", start)
    while opened >= 0:
        last = line_end.at(opened + 1)
        closed = closing.at(opened + 2)
        while closed < last:
            space = _SPACE.match(text, closed + 1)
            bracket = space.end() if space else closed + 1
            if text.startswith("(", bracket) and bracket_end.at(bracket + 2) < bracket_line_end.at(bracket + 1):
                end = bracket_end.at(bracket + 2)
                found.append((text[opened + 1 : closed], text[bracket + 1 : end]))
                opened = text.find("<", end)
                break
            closed = closing.at(closed + 1)
        else:
            # No `<` before the line's end can do better: it would have to end at one of the same places.
            opened = text.find("<", last)
    return found
