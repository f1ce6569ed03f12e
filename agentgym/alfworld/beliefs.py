"""What a player knows from what it was told: the task, where it stands, what it saw where, what it holds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TWO

#: Characters of an observation that are read: a multiple of what official games show.
MOST_READ = 100_000
_NAME = r"[a-z]+ \d+"
_SENTENCES: tuple[tuple[str, str], ...] = (
    (LOOK, r"look at (?P<thing>\w+) under the (?P<place>\w+)"),
    (LOOK, r"examine the (?P<thing>\w+) with the (?P<place>\w+)"),
    (CLEAN, r"put a clean (?P<thing>\w+) in (?P<place>\w+)"),
    (CLEAN, r"clean some (?P<thing>\w+) and put it in (?P<place>\w+)"),
    (HEAT, r"put a hot (?P<thing>\w+) in (?P<place>\w+)"),
    (HEAT, r"heat some (?P<thing>\w+) and put it in (?P<place>\w+)"),
    (COOL, r"put a cool (?P<thing>\w+) in (?P<place>\w+)"),
    (COOL, r"cool some (?P<thing>\w+) and put it in (?P<place>\w+)"),
    (TWO, r"put two (?P<thing>\w+) in (?P<place>\w+)"),
    (TWO, r"find two (?P<thing>\w+) and put them in (?P<place>\w+)"),
    (PICK, r"put a (?P<thing>\w+) in (?P<place>\w+)"),
    (PICK, r"put some (?P<thing>\w+) on (?P<place>\w+)"),
)
_TASK = "Your task is to: "
_ROOM = re.compile(r"Looking quickly around you, you see (.+)")
_ITEM = re.compile(rf"\ba ({_NAME})")
_SHOWN = re.compile(rf"(?:The ({_NAME}) is open\. In it|On the ({_NAME})), you see ")
_PICKED = re.compile(rf"You pick up the ({_NAME}) from the ({_NAME})\.")
_PUT = re.compile(rf"You (?:move|put) the ({_NAME}) (?:to|in/on) the ({_NAME})\.")
_TREATED = re.compile(rf"You (clean|heat|cool) the ({_NAME}) using the ")
_TAKE = re.compile(rf"take ({_NAME}) from ({_NAME})")


class Task(NamedTuple):
    """What is to be done: one of `game.TASK_TYPES` ("" when not understood), with what, where (or under which lamp)."""

    kind: str
    thing: str
    place: str


def read_task(text: str) -> Task:
    """Return the task of a first observation.

    >>> read_task("Your task is to: find two soapbar and put them in garbagecan.")
    Task(kind='pick_two_obj_and_place', thing='soapbar', place='garbagecan')
    """
    _, found, rest = text.partition(_TASK)
    sentence = rest.partition("\n")[0].rstrip().removesuffix(".")
    for kind, pattern in _SENTENCES if found else ():
        match = re.fullmatch(pattern, sentence)
        if match:
            return Task(kind, match["thing"], match["place"])
    return Task("", "", "")


def _shown(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (receptacle, what is in it) for each one that a text describes."""
    end = 0
    while match := _SHOWN.search(text, end):
        end = text.find(".", match.end())
        if end < 0:
            return
        yield match[1] or match[2], _ITEM.findall(text[match.end() : end])


def kind_of(name: str) -> str:
    """Return the kind of a thing by its name.

    >>> kind_of("drawer 12")
    'drawer'
    """
    return name.partition(" ")[0]


class Beliefs:
    """What was seen in one episode; nothing is known that no text or list of commands said.

    Args:
        observation: the first observation.
        admissible: the commands that can be done.

    Attributes:
        task: the task.
        receptacles: all receptacles of the room, as listed.
        here: receptacles in reach.
        closed: receptacles in reach that are closed now.
        seen: what is in each receptacle that was looked into.
        held: object in hand, "" for none.
        treated: (verb, object) of everything cleaned, heated or cooled.
    """

    def __init__(self, observation: str, admissible: Collection[str]) -> None:
        observation = observation[:MOST_READ]
        self.task = read_task(observation)
        room = _ROOM.search(observation)
        self.receptacles: list[str] = _ITEM.findall(room[1]) if room else []
        self.here: set[str] = set()
        self.closed: set[str] = set()
        self.seen: dict[str, set[str]] = {}
        self.held = ""
        self.treated: set[tuple[str, str]] = set()
        self._look_around(admissible)

    def update(self, observation: str, admissible: Collection[str]) -> None:
        """Take in what the last command brought."""
        observation = observation[:MOST_READ]
        for receptacle, things in _shown(observation):
            self.seen[receptacle] = set(things)
        picked, put = _PICKED.search(observation), _PUT.search(observation)
        if picked:
            self.held = picked[1]
            self.seen.setdefault(picked[2], set()).discard(picked[1])
        if put:
            self.held = ""
            self.seen.setdefault(put[2], set()).add(put[1])
        self.treated.update(_TREATED.findall(observation))
        self._look_around(admissible)

    def _look_around(self, admissible: Collection[str]) -> None:
        """Read from the commands what is in reach; with empty hands they show what lies there too."""
        known = set(self.receptacles)
        self.here = {name for word, _, name in (c.partition(" ") for c in admissible) if word in _AT} & known
        self.closed = {command[5:] for command in admissible if command.startswith("open ")}
        takes = [match.groups() for match in map(_TAKE.fullmatch, admissible) if match]
        for item, receptacle in takes:
            self.seen.setdefault(receptacle, set()).add(item)
        if not self.held:
            for receptacle in sorted(self.here):
                if receptacle not in self.closed:
                    self.seen.setdefault(receptacle, set())

    def where(self, kind: str) -> dict[str, list[str]]:
        """Return the receptacles known to hold objects of a kind, and which."""
        found = {name: sorted(i for i in things if kind_of(i) == kind) for name, things in self.seen.items()}
        return {name: things for name, things in found.items() if things}


_AT = frozenset({"examine", "open", "close"})
