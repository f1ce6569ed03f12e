"""What things are called, as in `chair 2`, and commands in these words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from agentgym.virtualhome.scene import Scene, positions
from agentgym.virtualhome.script import Line

#: Action -> the command; "{}" stands for a thing.
TEMPLATES: Final[dict[str, str]] = {
    "WALK": "walk to {}", "RUN": "run to {}", "FIND": "find {}", "GRAB": "grab {}", "PUTBACK": "put {} on {}",
    "PUTIN": "put {} in {}", "PUTOBJBACK": "put {} back", "DROP": "drop {}", "RELEASE": "release {}", "OPEN": "open {}",
    "CLOSE": "close {}", "SWITCHON": "switch on {}", "SWITCHOFF": "switch off {}", "PLUGIN": "plug in {}",
    "PLUGOUT": "plug out {}", "SIT": "sit on {}", "LIE": "lie on {}", "STANDUP": "stand up", "SLEEP": "sleep",
    "WAKEUP": "wake up", "TURNTO": "turn to {}", "LOOKAT": "look at {}", "POINTAT": "point at {}", "WATCH": "watch {}",
    "TOUCH": "touch {}", "WASH": "wash {}", "RINSE": "rinse {}", "SCRUB": "scrub {}", "WIPE": "wipe {}",
    "DRINK": "drink {}", "READ": "read {}", "EAT": "eat {}", "CUT": "cut {}", "POUR": "pour {} into {}",
    "PUTON": "put on {}", "PUTOFF": "take off {}", "GREET": "greet {}", "TYPE": "type on {}", "MOVE": "move {}",
    "PULL": "pull {}", "PUSH": "push {}", "SQUEEZE": "squeeze {}",
}  # fmt: skip
#: Most characters of a command that is read; the longest with published names has 80.
_MOST_READ: Final = 500


def _pattern(template: str) -> tuple[str, str, str, int]:
    """Return what comes before, between and behind the things of a template, and how many these are."""
    head, *rest = template.split("{}")
    return head, rest[0] if len(rest) > 1 else "", rest[-1] if rest else "", len(rest)


#: First word -> the templates that begin with it.
_PARTS: Final[dict[str, list[tuple[str, str, str, str, int]]]] = {}
for _action, _template in TEMPLATES.items():
    _PARTS.setdefault(_template.split(" ")[0], []).append((_action, *_pattern(_template)))


#: Actions with one thing -> their place in `Phrases.each`.
PLACE: Final[dict[str, int]] = {
    action: place
    for place, action in enumerate(action for action, template in TEMPLATES.items() if template.count("{}") == 1)
}


#: Sorted commands in the four parts of `agentgym.virtualhome.admissible`.
Group = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]


class Phrases:
    """The commands about one name alone, shared by all scenes that have a thing of this name.

    Args:
        name: such as "mug 1".

    Attributes:
        each: the command for every action of `PLACE`.
        groups: lists of some of them, for whoever asks for the same again.
    """

    __slots__ = ("each", "groups")

    def __init__(self, name: str) -> None:
        self.each = tuple([TEMPLATES[action].format(name) for action in PLACE])
        self.groups: dict[int, Group] = {}


#: Names that are remembered: some 300 in generated houses, at most 470 in a published one.
phrases = lru_cache(maxsize=1 << 11)(Phrases)


@lru_cache(maxsize=1 << 14)
def _readings(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what a text can mean: actions with names of things, the first that a house knows counts."""
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
    """The names of a scene's nodes: the class, and a number by the order of ids, as in `chair 2`.

    Args:
        scene: the scene.

    Attributes:
        of: name of each node, by position: "kitchen counter 1"; the character is "you".
        position: the way back, for all but the character.
    """

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
        """Return the members of a set in the alphabetical order of their names, numbers as numbers."""
        found = positions(nodes)
        if len(found) > 1:
            found.sort(key=self._rank.__getitem__)
        return found

    def listed(self, nodes: int) -> str:
        """Return the names of a set in that order, with commas between them."""
        if not nodes & (nodes - 1):
            return self.of[nodes.bit_length() - 1] if nodes else ""
        return ", ".join([self.of[node] for node in self.in_order(nodes)])

    def together(self, nodes: Sequence[int]) -> str:
        """Return the names of nodes as a sentence lists them, in the order given: "mug 1, mug 2 and plate 1"."""
        names = [self.of[node] for node in nodes]
        return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


class Words:
    """The commands of one scene in words.

    Args:
        scene: the scene.

    Attributes:
        scene: the scene.
        names: what its things are called.
        phrases: commands about each node alone.

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
        """Return the command for an action done with nodes, given by their positions."""
        return TEMPLATES[action].format(*[self.names.of[node] for node in nodes])

    def said(self, line: Line) -> str:
        """Return a line of a script as a command."""
        return self.say(line.action, *[self.scene.index[number] for _, number in line.things])

    def read(self, text: str) -> tuple[str, list[int]] | None:
        """Return the action and the nodes of a command; None where it is not understood."""
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
        """Return what a command says as a line of a script; None where it is not understood."""
        found = self.read(text)
        return None if found is None else Line(found[0], tuple([self.scene.things[node] for node in found[1]]))
