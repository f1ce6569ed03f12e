"""Commands in words, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from agentgym.virtualhome.names import Names
from agentgym.virtualhome.scene import Scene
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


@lru_cache(maxsize=1 << 14)
def _command(action: str, name: str) -> str:
    """The command for an action with one thing: one text for all scenes that have a thing of this name."""
    return TEMPLATES[action].format(name)


class Each(dict[int, str]):
    """The commands for one action and any node of a scene, made when they are asked for."""

    __slots__ = ("_action", "_names")

    def __init__(self, action: str, names: Sequence[str]) -> None:
        super().__init__()
        self._action, self._names = action, names

    def __missing__(self, node: int) -> str:
        """Make the command for a node."""
        command = self[node] = _command(self._action, self._names[node])
        return command


class Words:
    """The commands of one scene in words.

    Args:
        scene: the scene.

    Attributes:
        scene: the scene.
        names: what its things are called.

    >>> from agentgym.virtualhome.scene import Node
    >>> scene = Scene([Node(1, "character", "Characters"), Node(2, "mug", "Things"), Node(7, "desk", "Furniture")], [])
    >>> words = Words(scene)
    >>> str(words.line("put mug 1 on desk 1")), words.line("put mug 1 on mug 2")
    ('[PUTBACK] <mug> (2) <desk> (7)', None)
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.names = Names(scene)
        self._each: dict[str, Each] = {}

    def say(self, action: str, *nodes: int) -> str:
        """Return the command for an action done with nodes, given by their positions."""
        return TEMPLATES[action].format(*[self.names.of[node] for node in nodes])

    def each(self, action: str) -> Each:
        """Return the command for an action done with one node, by its position."""
        commands = self._each.get(action)
        if commands is None:
            commands = self._each[action] = Each(action, self.names.of)
        return commands

    def said(self, line: Line) -> str:
        """Return a line of a script as a command."""
        return self.say(line.action, *[self.scene.index[number] for _, number in line.things])

    def line(self, text: str) -> Line | None:
        """Return what a command says; None where it is not understood."""
        text = text.strip()
        if len(text) > _MOST_READ:
            return None
        position = self.names.position
        for action, head, middle, tail, count in _PARTS.get(text.partition(" ")[0], ()):
            if text.startswith(head) and text.endswith(tail) and len(text) >= len(head) + len(tail):
                rest = text[len(head) : len(text) - len(tail)]
                if not count:
                    things = [] if not rest else [""]
                elif count == 1:
                    things = [rest]
                else:
                    first, _, second = rest.partition(middle)
                    things = [first, second]
                nodes = [position.get(thing, -1) for thing in things]
                if -1 not in nodes:
                    scene = self.scene
                    return Line(action, tuple([(scene.names[node], scene.ids[node]) for node in nodes]))
        return None
