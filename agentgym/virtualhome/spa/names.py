"""Action strings of the papers' agents, `walk to dining room`, and the things that class names mean."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from agentgym.virtualhome import commands
from agentgym.virtualhome.household import OriginalError
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import CLOSE, INSIDE, members

#: Action -> its words. "release" takes no thing here and one in the rules: it never works alone.
TEMPLATES: Final[dict[str, str]] = commands.TEMPLATES | {"PUTOBJBACK": "put back {}", "RELEASE": "release"}
#: The reading of an action string without words.
EMPTY: Final = "[EMPTY]"
#: Maximum length of an action string; a longer one names nothing in a house and has no effect.
MOST_CHARACTERS: Final = 1000

_ACTION = re.compile(r"Action:\s?(.*)", re.DOTALL)
_PATTERNS: Final = {
    action: re.compile(re.escape(template).replace(r"\{\}", "(.+?)"), re.IGNORECASE | re.DOTALL)
    for action, template in TEMPLATES.items()
}


def action_of(reply: str) -> str | None:
    """Return the text after the first `Action:` of a reply, None without one."""
    found = _ACTION.search(reply.strip())
    return None if found is None else found[1]


def open_line(action: str) -> str | None:
    """Return an action string as a script line with ids 1, None if it is empty.

    A string with exactly one action and its number of things is read as that. Otherwise the first word is the action,
    and the rest two things if it has two words, else one.

    >>> open_line("Put cup on coffee table"), open_line("grab the red cup"), open_line("walk")
    ('[PUTBACK] <cup> (1) <coffee_table> (1)', '[GRAB] <the_red_cup> (1)', '[WALK]')
    """
    return EMPTY if len(action) > MOST_CHARACTERS else _read(action)


@lru_cache(maxsize=8192)
def _read(action: str) -> str | None:
    said = action.lower().strip()
    if not said:
        return None
    if ":" in said:
        said = said[said.index(":") + 1 :].strip()
    found = [(name, match.groups()) for name, pattern in _PATTERNS.items() if (match := pattern.fullmatch(said))]
    found = [(name, things) for name, things in found if name != "RELEASE"]
    if len(found) == 1:
        (name, things) = found[0]
        return " ".join([f"[{name}]", *(f"<{thing.replace(' ', '_')}> (1)" for thing in things)])
    words = (action[action.index(":") + 1 :].strip() if ":" in action else action).split(" ")
    if words == [""]:
        return EMPTY
    things = tuple(words[1:]) if len(words) <= 3 else ("_".join(words[1:]),)
    return " ".join([f"[{words[0].upper()}]", *(f"<{thing}> (1)" for thing in things)])


#: Chooses one of several ids.
Choose = Callable[[Sequence[int]], int]

_ONE = re.compile(r"\[([^]]+)\]|<([^>]+)>|\(([^)]+)\)")
_TWO = re.compile(r"\[(.*?)\]|<(.*?)>|\((.*?)\)")
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"\(\d+\)")


class Objects:
    """The node ids that an episode's names mean; arguments are those of `SpaEpisode`.

    `last` is the node that was named last, None at the start.
    """

    def __init__(self, world: World, known: dict[str, int], choose: Choose) -> None:
        self.known = known
        self.last: int | None = None
        self._world = world
        self._choose = choose

    def fill(self, line: str) -> str:
        """Return a line with the ids of its nodes, or why there are none; `OriginalError` if the original raises."""
        self._world.asked_all()
        things = line.count("<")
        if things == 0:
            return line
        if things == 1:
            return self._fill_one(line)
        if things == 2:
            return self._fill_two(line)
        raise OriginalError("TypeError")

    def _fill_one(self, line: str) -> str:
        parts = ["".join(groups) for groups in _ONE.findall(line)]
        if len(parts) < 2:
            raise OriginalError("IndexError")
        action, name = parts[:2]
        nodes = self._named(name)
        if not nodes and (action in ("FIND", "WALK") or name not in self.known):
            return f"{name} isn't available in the environment."
        self.last = self._meant(name, nodes)
        return _DIGITS.sub(str(self.last), line)

    def _fill_two(self, line: str) -> str:
        parts = [part for groups in _TWO.findall(line) for part in groups if part]
        if len(parts) < 4:
            raise OriginalError("IndexError")
        name, other = parts[1], parts[3]
        scene = self._world.scene
        hands = self._world.in_hands()
        candidates = [node for node in self._named(name) if hands >> scene.index[node] & 1]
        if not candidates:
            return f"{name} not in hand. Robot agent should hold {name} firstly."
        node = self.known[name] = self._choose(candidates)
        others = self._named(other)
        if not others:
            return f"{other} isn't available in the environment."
        target = self._meant(other, others)
        if node == target:
            return f"{name} can't be put or pour into itself."
        self.last = target
        end = line.index(")") + 1
        return _NUMBER.sub(f"({node})", line[:end], count=1) + _NUMBER.sub(f"({target})", line[end:], count=1)

    def meant(self, name: str) -> int | None:
        """Return the position of the node that a name means independently of draws, else None."""
        node = self.known.get(name)
        if node is None:
            node = self._near(name)
        return None if node is None else self._world.scene.index.get(node)

    def _meant(self, name: str, nodes: Sequence[int]) -> int:
        node = self.known.get(name)
        if node is None:
            node = self._near(name)
            if node is None:
                node = self._choose(nodes)
            self.known[name] = node
        return node

    def _named(self, name: str) -> list[int]:
        scene = self._world.scene
        return [scene.ids[node] for node in self._world.listed(scene.classes.get(name, 0))]

    def _near(self, name: str) -> int | None:
        scene = self._world.scene
        near = self._joined(scene.character, CLOSE)
        last = None if self.last is None else scene.index.get(self.last)
        if last is not None:
            near += self._joined(last, CLOSE) + self._joined(last, INSIDE)
        named = scene.classes.get(name, 0)
        return next((node for node in reversed(near) if named >> scene.index[node] & 1), None)

    def _joined(self, node: int, relation: int) -> list[int]:
        world = self._world
        ids = world.scene.ids
        joined = {ids[each] for each in chain(world.listing(node, relation), members(world.sources(node, relation)))}
        return list(joined) if world.exact_order else sorted(joined)
