"""A player without privileged information: observations, admissible commands and the usual places of objects."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from agentgym.alfworld import things
from agentgym.alfworld.game import CLEAN, COOL, DIALECTS, HEAT, LOOK, PICK, TWO, put_command
from agentgym.alfworld.generated.households import MACHINES, ROOMS
from agentgym.alfworld.goals import SENTENCES

#: Maximum number of characters of an observation that are read.
MOST_READ = 100_000
_NAME = r"[a-z]+ \d+"
_SENTENCES = tuple(
    (kind, re.compile(sentence.format(thing=r"(?P<thing>\w+)", place=r"(?P<place>\w+)")))
    for kind, sentences in SENTENCES.items()
    for sentence in sentences
)
_TASK = "Your task is to: "
_ROOM = re.compile(r"Looking quickly around you, you see (.+)")
_ITEM = re.compile(rf"\ba ({_NAME})")
_SHOWN = re.compile(rf"(?:The ({_NAME}) is open\. In it|On the ({_NAME})), you see ")
_PICKED = re.compile(rf"You pick up the ({_NAME}) from the ({_NAME})\.")
_PUT = re.compile(rf"You (?:move|put) the ({_NAME}) (?:to|in/on) the ({_NAME})\.")
_TREATED = re.compile(rf"You (clean|heat|cool) the ({_NAME}) using the ")
#: Commands that show that a receptacle is in reach.
_AT = frozenset({"examine", "open", "close"})
_TAKE = re.compile(rf"take ({_NAME}) from ({_NAME})")

_TREATMENT = {CLEAN: "clean", HEAT: "heat", COOL: "cool"}
#: Receptacles that identify a kind of room.
_SIGNS = (("fridge", "kitchen"), ("toilet", "bathroom"), ("bed", "bedroom"))
_WITH_DOOR = frozenset(kind.lower() for kind in things.ALWAYS_OPENABLE | things.SOMETIMES_OPENABLE)
#: Default weights of a receptacle that accepts the object, and of one that does not.
_POSSIBLE, _UNLIKELY = 1.0, 0.01
#: Weight factor of receptacles that never contain the task's objects at the start: the goal, and those that treat them.
_NEVER = 0.02
#: Maximum number of repetitions of a command with the same object in hand.
_PATIENCE = 3
_IDLE = ("help", "look", "inventory", "examine", "close")


class Task(NamedTuple):
    """A task: one of `game.TASK_TYPES` ("" if not understood), the object, and the receptacle or lamp."""

    kind: str
    thing: str
    place: str


def read_task(text: str) -> Task:
    """Return the task of a first observation."""
    _, found, rest = text.partition(_TASK)
    sentence = rest.partition("\n")[0].rstrip().removesuffix(".")
    for kind, pattern in _SENTENCES if found else ():
        match = pattern.fullmatch(sentence)
        if match:
            return Task(kind, match["thing"], match["place"])
    return Task("", "", "")


def _shown(text: str) -> Iterator[tuple[str, list[str]]]:
    end = 0
    while match := _SHOWN.search(text, end):
        end = text.find(".", match.end())
        if end < 0:
            return
        yield match[1] or match[2], _ITEM.findall(text[match.end() : end])


def kind_of(name: str) -> str:
    """Return the kind of an object by its name."""
    return name.partition(" ")[0]


class Beliefs:
    """The observations of the player in one episode.

    `here`: receptacles in reach; `closed`: those of them that are closed; `seen`: contents of each receptacle that was
    looked into; `held`: object in hand, "" for none; `treated`: (verb, object) of everything cleaned, heated or cooled.
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
        observation = observation[:MOST_READ]
        for receptacle, content in _shown(observation):
            self.seen[receptacle] = set(content)
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
        """Return the receptacles known to contain objects of a kind, and these."""
        found = {name: sorted(i for i in things if kind_of(i) == kind) for name, things in self.seen.items()}
        return {name: things for name, things in found.items() if things}


class ALFWorldPlayer:
    """Plays official and generated games, in both wordings, from observations and admissible commands alone.

    It searches the most promising receptacles per step, takes the objects that it needs and does the task. A first
    observation (with "Your task is to: ") starts a new episode.
    """

    def __init__(self) -> None:
        self._beliefs: Beliefs | None = None
        self._done: Counter[tuple[str, str]] = Counter()
        self._refused: set[tuple[str, str]] = set()

    def act(self, observation: str, admissible: Collection[str]) -> str:
        if self._beliefs is None or "Your task is to: " in observation:
            self._beliefs = Beliefs(observation, admissible)
            self._done.clear()
            self._refused.clear()
        else:
            self._beliefs.update(observation, admissible)
        held = self._beliefs.held
        command = self._decide(self._beliefs, admissible)
        if command not in admissible or self._done[command, held] >= _PATIENCE:
            useful = [other for other in admissible if not other.startswith(_IDLE)] or list(admissible) or ["look"]
            command = min(useful, key=lambda other: (self._done[other, held], other))
        self._done[command, held] += 1
        return command

    def _decide(self, known: Beliefs, admissible: Collection[str]) -> str:
        task = known.task
        if not known.held:
            return self._fetch(known)
        if kind_of(known.held) != task.thing:
            return self._put(known, known.receptacles, admissible)
        if task.kind == LOOK:
            return self._light(known)
        if task.kind in _TREATMENT:
            verb, machine = _TREATMENT[task.kind], MACHINES[task.kind]
            if (verb, known.held) not in known.treated:
                choice = _nearest(known, (name for name in known.receptacles if kind_of(name) == machine))
                return f"{verb} {known.held} with {choice}" if choice in known.here else f"go to {choice}"
        places = [name for name in known.receptacles if kind_of(name) == task.place]
        return self._put(known, places, admissible)

    def _fetch(self, known: Beliefs) -> str:
        task = known.task
        seen = known.where(task.thing)
        if task.kind in (PICK, TWO):
            seen = {name: things for name, things in seen.items() if kind_of(name) != task.place}
        if task.kind == TWO:  # an object listed in two receptacles is one object
            there = {thing for name, things in known.seen.items() if kind_of(name) == task.place for thing in things}
            seen = {name: [thing for thing in things if thing not in there] for name, things in seen.items()}
            seen = {name: things for name, things in seen.items() if things}
        if not seen:
            return self._search(known, task.thing)
        choice = _nearest(known, seen)
        return f"take {seen[choice][-1]} from {choice}" if choice in known.here else f"go to {choice}"

    def _light(self, known: Beliefs) -> str:
        lamps = known.where(known.task.place)
        if not lamps:
            return self._search(known, known.task.place)
        choice = _nearest(known, lamps)
        return f"use {lamps[choice][-1]}" if choice in known.here else f"go to {choice}"

    def _put(self, known: Beliefs, places: Collection[str], admissible: Collection[str]) -> str:
        held, possible = known.held, set(admissible)
        wanted = known.where(kind_of(held)) if known.task.kind == TWO else {}
        puts = [(name, put_command(dialect, held, name)) for name in places for dialect in DIALECTS]
        open_here = {name: command for name, command in puts if command in possible}
        left = [name for name in places if (held, name) not in self._refused]
        for choices in ([name for name in left if name in wanted], left):
            ready = [name for name in (open_here if choices is left else choices) if name in open_here]
            if ready:
                return open_here[ready[0]]
            for choice in sorted(choices, key=_steps(known)):
                if choice in known.closed:
                    return f"open {choice}"
                if choice not in known.here:
                    return f"go to {choice}"
                self._refused.add((held, choice))  # it is open and does not accept the object
        return "go to "

    def _search(self, known: Beliefs, kind: str) -> str:
        unseen = [name for name in known.receptacles if name not in known.seen]
        if not unseen:
            return min(
                (f"go to {name}" for name in known.receptacles if name not in known.here),
                key=lambda command: self._done[command, known.held],
                default="look",
            )
        weights = _weights(tuple(known.receptacles), kind)
        steps = {name: 1.0 if name in known.here or kind_of(name) not in _WITH_DOOR else 2.0 for name in unseen}
        if kind == known.task.thing:
            never = known.task.place if known.task.kind in (PICK, TWO) else MACHINES.get(known.task.kind)
            weights = {name: w * (_NEVER if kind_of(name) == never else 1) for name, w in weights.items()}
        choice = max(unseen, key=lambda name: weights[name] / steps[name])
        if choice in known.closed:
            return f"open {choice}"
        return f"examine {choice}" if choice in known.here else f"go to {choice}"


def _steps(known: Beliefs) -> Callable[[str], tuple[bool, bool]]:
    return lambda name: (name not in known.here, kind_of(name) in _WITH_DOOR and name not in known.seen)


def _nearest(known: Beliefs, places: Iterable[str]) -> str:
    return min(places, key=_steps(known), default="")


@lru_cache(maxsize=1024)
def _weights(receptacles: tuple[str, ...], kind: str) -> dict[str, float]:
    kinds = [kind_of(name) for name in receptacles]
    room = next((room for sign, room in _SIGNS if sign in kinds), "living room")
    stock = ROOMS[room].stock.get(kind)
    table = dict(stock.where) if stock else {}
    counts = Counter(kinds)
    weights = {}
    for name, place in zip(receptacles, kinds, strict=True):
        possible = kind in things.ACCEPTED.get(place, ())
        weights[name] = table.get(place, _POSSIBLE if possible else _UNLIKELY) / counts[place]
    return weights
