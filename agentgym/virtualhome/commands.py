"""Actions as script lines, `[PUTBACK] <cup> (6) <table> (5)`, and as commands, `put cup 1 on table 1`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from agentgym.outside.text import tables_beside
from agentgym.virtualhome.scene import Scene, positions

#: Instructions, commands and repairs.
TEXTS: Final = tables_beside(__file__, "texts.toml")
#: Action -> the command; "{}" is the place of a thing.
TEMPLATES: Final[dict[str, str]] = TEXTS["commands"]
#: Maximum length of a command; the longest with published names has 80 characters.
_MOST_READ: Final = 500


#: First word -> the templates that begin with it: action, texts before, between and after the things, their number.
_PARTS: Final[dict[str, list[tuple[str, str, str, str, int]]]] = {}
for _action, _template in TEMPLATES.items():
    _head, *_rest = _template.split("{}")
    _row = _action, _head, _rest[0] if len(_rest) > 1 else "", _rest[-1] if _rest else "", len(_rest)
    _PARTS.setdefault(_template.split(" ")[0], []).append(_row)

#: Actions with one thing -> their place in `Phrases.each`.
PLACE: Final[dict[str, int]] = {
    action: place
    for place, action in enumerate(action for action, template in TEMPLATES.items() if template.count("{}") == 1)
}


#: Sorted commands in the four parts of `agentgym.virtualhome.admissible`.
Group = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]


class Phrases:
    """The commands about one name, such as "mug 1", shared by all scenes; `groups` is a cache of `admissible`."""

    __slots__ = ("each", "groups")

    def __init__(self, name: str) -> None:
        self.each = tuple([TEMPLATES[action].format(name) for action in PLACE])
        self.groups: dict[int, Group] = {}


#: Cached names: about 300 in generated houses, at most 470 in a published one.
phrases = lru_cache(maxsize=1 << 11)(Phrases)


@lru_cache(maxsize=1 << 14)
def _readings(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for action, head, middle, tail, count in _PARTS.get(text.partition(" ")[0], ()):
        if text.startswith(head) and text.endswith(tail) and len(text) >= len(head) + len(tail):
            rest = text[len(head) : len(text) - len(tail)]
            if count == 2:
                first, _, second = rest.partition(middle)
                found.append((action, (first, second)))
            elif count or not rest:
                found.append((action, (rest,) if count else ()))
    return tuple(found)


class Names:
    """The names of a scene's nodes: class and number in the order of ids (`chair 2`); the character is "you"."""

    __slots__ = ("_rank", "of", "position")

    def __init__(self, scene: Scene) -> None:
        names = [""] * scene.size
        seen: dict[str, int] = {}
        keys: list[tuple[str, int, int]] = []
        for node in sorted(scene.index):
            position = scene.index[node]
            words = scene.names[position].replace("_", " ")
            number = seen[words] = seen.get(words, 0) + 1
            names[position] = f"{words} {number}"
            keys.append((words, number, position))
        names[scene.character] = "you"
        ranks = [0] * scene.size
        for rank, (_, _, position) in enumerate(sorted(keys)):
            ranks[position] = rank
        self.of = tuple(names)
        self._rank = tuple(ranks)
        self.position = {name: position for position, name in enumerate(names) if position != scene.character}

    def in_order(self, nodes: int) -> list[int]:
        """Return the members of a set sorted by name; numbers sort as numbers."""
        found = positions(nodes)
        if len(found) > 1:
            found.sort(key=self._rank.__getitem__)
        return found

    def listed(self, nodes: int) -> str:
        if not nodes & (nodes - 1):
            return self.of[nodes.bit_length() - 1] if nodes else ""
        return ", ".join([self.of[node] for node in self.in_order(nodes)])

    def together(self, nodes: Sequence[int]) -> str:
        names = [self.of[node] for node in nodes]
        return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


class Words:
    """The commands of one scene; `phrases` are those about each node.

    >>> from agentgym.virtualhome.scene import Node
    >>> scene = Scene([Node(1, "character", "Characters"), Node(2, "mug", "Things"), Node(7, "desk", "Furniture")], [])
    >>> words = Words(scene)
    >>> str(words.line("put mug 1 on desk 1")), words.line("put mug 1 on mug 2")
    ('[PUTBACK] <mug> (2) <desk> (7)', None)
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.names = Names(scene)
        self.phrases = [phrases(name) for name in self.names.of]

    def say(self, action: str, *nodes: int) -> str:
        """Return the command for an action with nodes, given by their positions."""
        return TEMPLATES[action].format(*[self.names.of[node] for node in nodes])

    def said(self, line: Line) -> str:
        return self.say(line.action, *[self.scene.index[number] for _, number in line.things])

    def read(self, text: str) -> tuple[str, list[int]] | None:
        text = text.strip()
        if len(text) > _MOST_READ:
            return None
        position = self.names.position
        for action, things in _readings(text):
            if len(things) == 1:
                node = position.get(things[0], -1)
                if node >= 0:
                    return action, [node]
                continue
            nodes = [position.get(thing, -1) for thing in things]
            if -1 not in nodes:
                return action, nodes
        return None

    def line(self, text: str) -> Line | None:
        """Return a command as a script line; None if it is not understood."""
        found = self.read(text)
        return None if found is None else Line(found[0], tuple([self.scene.things[node] for node in found[1]]))


#: Number of things of each action.
PARAMETERS: Final[dict[str, int]] = {
    **{action: template.count("{}") for action, template in TEMPLATES.items()}, "LOOKAT_SHORT": 1, "LOOKAT_LONG": 1,
}  # fmt: skip
#: Other spellings of an action.
ALIASES: Final = {"LOOKAT_MEDIUM": "LOOKAT"}

#: Maximum length of a cached line; no script has longer ones.
_MOST_REMEMBERED: Final = 200
_ACTION = re.compile(r"\[(\w+)\]")
_SPACE = re.compile(r"\s*")


class Line(NamedTuple):
    """An action of `PARAMETERS`, and its things: (name in lower case with underscores, id)."""

    action: str
    things: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"[{self.action}]" + "".join(f" <{name}> ({number})" for name, number in self.things)


class LineError(ValueError):
    """An impossible script line; the message is the original's exception with its text."""


def parse_line(text: str) -> Line:
    """Parse a script line in linear time; a `LineError` has the original's exception.

    >>> parse_line("[putback] <Coffee Cup> (6) <table> (5)")
    Line(action='PUTBACK', things=(('coffee_cup', 6), ('table', 5)))
    """
    line, wrong = _remembered(text) if len(text) <= _MOST_REMEMBERED else _parse(text)
    if line is None:
        raise LineError(wrong)
    return line


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


_remembered = lru_cache(maxsize=8192)(_parse)


class _Next:
    def __init__(self, text: str, character: str) -> None:
        self.text, self.character, self.place = text, character, -1

    def at(self, start: int) -> int:
        if self.place < start:
            place = self.text.find(self.character, start)
            self.place = len(self.text) if place < 0 else place
        return self.place


def _things(text: str, start: int) -> list[tuple[str, str]]:
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
            # No later `<` can match: it would have to end at one of the same places.
            opened = text.find("<", last)
    return found
