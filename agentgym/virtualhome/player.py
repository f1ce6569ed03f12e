"""A player without privileged information: observations and offered commands."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator
from typing import Final

from agentgym.virtualhome.generated.families import SENTENCES, UNPLUG

#: Maximum number of characters of an observation that are read.
MOST_READ: Final = 100_000
_TASK: Final = "Your task is to: "
_NAME: Final = re.compile(r"[a-z][a-z -]* \d+")
_HELD: Final = re.compile(r"^You hold ([^.\n]*)\.", re.MULTILINE)
_NEAR: Final = re.compile(r"^Near you: ([^\n]*)\.$", re.MULTILINE)
#: Maximum number of attempts at one thing.
_PATIENCE: Final = 12

#: Commands are yielded; the generator continues after the next observation has been read.
Steps = Generator[str, None, None]


def _read(sentence: str) -> str:
    pattern, seen = "", set()
    for part in re.split(r"(\{\w+\})", sentence):
        key = part[1:-1]
        if not part.startswith("{"):
            pattern += re.escape(part)
        elif key in seen:
            pattern += f"(?P={key})"
        else:
            seen.add(key)
            pattern += f"(?P<{key}>[a-z0-9 ,-]{{1,300}}?)"
    return pattern


_PATTERNS: Final = [(kind, re.compile(_read(text))) for kind, text in (*SENTENCES.items(), ("switch_off", UNPLUG))]
#: Families whose patterns also match sentences of others come last.
_ORDER: Final = sorted(_PATTERNS, key=lambda row: -len(row[1].pattern))


def read_task(observation: str) -> tuple[str, dict[str, list[str]]]:
    """Return (family, names of things by placeholder) of a first observation's task; ("", {}) if unknown."""
    _, found, rest = observation.partition(_TASK)
    sentence = rest.partition("\n")[0].strip()
    for kind, pattern in _ORDER if found and len(sentence) < 1000 else ():
        match = pattern.fullmatch(sentence)
        if match:
            return kind, {key: _names(text) for key, text in match.groupdict().items()}
    return "", {}


def _names(text: str) -> list[str]:
    return [name for part in re.split(r", | and ", text) if _NAME.fullmatch(name := part.strip())]


class VirtualHomePlayer:
    """Plays generated activities of VirtualHome from observations and offered commands alone.

    It does the task of the sentence in a feasible order, opens closed containers and doors, and stands up or empties a
    hand when necessary. A first observation (with "Your task is to: ") starts a new episode.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._steps: Steps | None = None
        self._past: list[tuple[str, Collection[str]]] = []
        self._offered: Collection[str] = ()
        self._held: list[str] = []
        self._boxes: dict[str, str] = {}
        self._turns = 0

    def __getstate__(self) -> tuple[list[tuple[str, Collection[str]]], int]:
        """Return the episode's observations: a generator cannot be copied, but replaying them restores it."""
        return list(self._past), self._turns

    def __setstate__(self, state: tuple[list[tuple[str, Collection[str]]], int]) -> None:
        self._forget()
        past, turns = state
        for observation, offered in past:
            self.act(observation, offered)
        self._turns = turns

    def __deepcopy__(self, memo: object) -> VirtualHomePlayer:
        """Return a player with the same history; texts and offers are shared."""
        copied = VirtualHomePlayer()
        copied.__setstate__(self.__getstate__())
        return copied

    def act(self, observation: str, admissible: Collection[str]) -> str:
        observation = observation[:MOST_READ]
        if _TASK in observation:
            self._forget()
        self._offered = admissible if isinstance(admissible, frozenset) else frozenset(admissible)
        self._past.append((observation, self._offered))
        self._look(observation)
        if self._steps is None:
            self._steps = self._play(*read_task(observation))
        command = next(self._steps, "")
        if not command:
            self._past.clear()  # without a plan the past observations are not needed
        if command in self._offered:
            return command
        self._turns += 1
        return sorted(self._offered)[self._turns % len(self._offered)] if self._offered else ""

    def _look(self, observation: str) -> None:
        held, near = _HELD.search(observation), _NEAR.search(observation)
        parts = held[1].split(", ") if held else []
        self._held = [name[0] for part in parts if (name := _NAME.match(part))]
        for part in near[1].split("; ") if near else ():
            thing, inside, box = part.partition(" with ")[0].partition(" in ")
            name, around = _NAME.match(thing), _NAME.match(box)
            if name and inside and around:
                self._boxes[name[0]] = around[0]
            elif name:
                self._boxes.pop(name[0], None)

    # The families.

    def _play(self, kind: str, things: dict[str, list[str]]) -> Steps:
        for _ in range(_PATIENCE if kind else 0):
            yield from self._once(kind, things)

    def _once(self, kind: str, things: dict[str, list[str]]) -> Steps:
        one = {key: names[0] for key, names in things.items() if names}
        if kind in ("place", "set_table"):
            yield from self._carry(things["things"], one.get("target") or one.get("table", ""), "on")
        elif kind == "fetch":
            yield from self._hold(one["thing"])
            yield from self._use("close", one["box"])
            yield from self._carry([one["thing"]], one["target"], "on")
        elif kind in ("store", "cook", "laundry", "wash_dishes"):
            box = one.get("box") or one.get("machine", "")
            yield from self._carry(things["things"], box, "in")
            yield from self._use("close", box)
            if kind != "store":
                yield from self._switch_on(box)
        elif kind == "switch_on":
            for device in things["devices"]:
                yield from self._switch_on(device)
        elif kind == "switch_off":
            for device in things["devices"]:
                yield from self._use("switch off", device)
                if device in things.get("plugs", ()):
                    yield from self._use("plug out", device)
        elif kind == "wash":
            for thing in things["things"]:
                yield from self._use("wash", thing)
        elif kind == "dress":
            for thing in things["clothes"]:
                yield from self._hold(thing)
                yield f"put on {thing}"
        else:
            yield from self._with_seat(kind, one)

    def _with_seat(self, kind: str, one: dict[str, str]) -> Steps:
        if kind == "wipe":
            if not self._held:
                yield from self._reach(one["target"])
                yield from self._anything()
            yield from self._use("wipe", one["target"])
        elif kind == "drink":
            yield from self._hold(one["cup"])
            yield from self._hold(one["drink"])
            yield f"pour {one['drink']} into {one['cup']}"
            yield f"drink {one['cup']}"
        elif kind == "rest":
            yield from self._use("lie on", one["bed"])
            yield "sleep"
        elif kind in ("watch", "work", "read"):
            if kind != "read":
                yield from self._switch_on(one["device"])
            carried = one.get("book") or one.get("keyboard")
            if carried:
                yield from self._hold(carried)
            yield from self._use("sit on", one["seat"])
            yield {"watch": f"watch {one.get('device')}", "work": f"type on {carried}"}.get(kind, f"read {carried}")

    # Subtasks.

    def _carry(self, things: list[str], target: str, where: str) -> Steps:
        for thing in things:
            yield from self._hold(thing)
            yield from self._reach(target)
            if where == "in" and f"put {thing} in {target}" not in self._offered:
                yield from self._open(target)
            yield f"put {thing} {where} {target}"

    def _switch_on(self, device: str) -> Steps:
        yield from self._reach(device)
        if f"plug in {device}" in self._offered:
            yield f"plug in {device}"
        yield f"switch on {device}"

    def _hold(self, thing: str) -> Steps:
        if thing in self._held:
            return
        if len(self._held) > 1:
            yield f"drop {self._held[0]}"
        yield from self._reach(thing)
        if f"grab {thing}" not in self._offered and thing in self._boxes:
            yield from self._open(self._boxes[thing])
            yield from self._reach(thing)
        yield f"grab {thing}"

    def _use(self, verb: str, thing: str) -> Steps:
        yield from self._reach(thing)
        if f"{verb} {thing}" in self._offered:
            yield f"{verb} {thing}"

    def _open(self, box: str) -> Steps:
        yield from self._reach(box)
        if f"open {box}" not in self._offered:
            yield from self._use("switch off", box)
        yield from self._use("open", box)

    def _anything(self) -> Steps:
        for start in ("grab ", "find ", "walk to "):
            for command in sorted(command for command in self._offered if command.startswith(start)):
                yield command
                if start != "grab ":
                    grab = f"grab {command.removeprefix(start)}"
                    if grab in self._offered:
                        yield grab
                if self._held:
                    return

    def _reach(self, thing: str) -> Steps:
        for _ in range(_PATIENCE):
            if f"wash {thing}" in self._offered:
                return
            for command in (f"find {thing}", f"walk to {thing}", "stand up"):
                if command in self._offered:
                    yield command
                    break
            else:
                yield from self._open_a_door()

    def _open_a_door(self) -> Steps:
        for walk in sorted(command for command in self._offered if command.startswith("walk to door ")):
            if len(self._held) > 1:
                yield f"drop {self._held[0]}"
            yield walk
            door = walk.removeprefix("walk to ")
            if f"open {door}" in self._offered:
                yield f"open {door}"
                return
