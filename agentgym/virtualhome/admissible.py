"""Admissible commands by the rules of dialect "v1". Every listed command succeeds.

Every command of `OFFERED` that succeeds is listed, except

* `find` where `walk to` does the same: it is listed for near things unless they are known and directly close;
* `grab` of a held thing, and `put` and `pour` of a thing on, in or into itself;
* commands about the character itself as a thing.

Synonyms (`run to`, `rinse`, ...) and gestures without effect (`point at`, `push`, ...) are understood but not listed.
"""

from bisect import bisect_left, insort
from functools import lru_cache
from itertools import chain
from typing import Final

from agentgym.virtualhome.actions import BEDS, OPENED_ALSO, POURED_INTO_ALSO, SEATS, TAKEN_ALSO
from agentgym.virtualhome.commands import PLACE, TEMPLATES, Group, Phrases, Words
from agentgym.virtualhome.household import Household, OriginalError
from agentgym.virtualhome.scene import (
    BETWEEN,
    CLOSE,
    FACING,
    HOLDS_LH,
    HOLDS_RH,
    INSIDE,
    IS,
    ON,
    SOURCES,
    STATE_NAMES,
    STATES,
    WIDTH,
    members,
    positions,
)

#: Actions that are offered.
OFFERED: Final = tuple(
    [
        name
        for name in TEMPLATES
        if name not in ("RUN", "RELEASE", "RINSE", "SCRUB", "POINTAT", "PUSH", "PULL", "MOVE", "SQUEEZE")
    ]
)
_FIND, _TURN_TO = PLACE["FIND"], PLACE["TURNTO"]
#: Most commands have one of these three prefixes and are sorted once; they separate the four sorted parts.
_BETWEEN: Final = ("find ", "turn to ", "walk to ")
#: The actions on a known, near thing, as bits of a set.
_LOCAL: Final = (
    "CLOSE", "CUT", "EAT", "GRAB", "LIE", "OPEN", "PLUGIN", "PLUGOUT", "SIT", "SWITCHOFF", "SWITCHON", "TOUCH", "TYPE",
    "WASH", "WIPE",
)  # fmt: skip
(
    _DO_CLOSE, _CUT, _EAT, _GRAB, _LIE, _OPEN, _PLUG_IN, _PLUG_OUT, _SIT, _SWITCH_OFF, _SWITCH_ON, _TOUCH, _TYPE, _WASH,
    _WIPE,
) = (1 << number for number in range(len(_LOCAL)))  # fmt: skip
_ALL: Final = (1 << len(_LOCAL)) - 1
#: The actions that need a standing character with empty hands.
_EMPTY_HANDED: Final = _ALL & ~(_WIPE | _CUT)
_WITH_A_HAND: Final = _CUT | _GRAB | _OPEN | _PLUG_IN | _PLUG_OUT

Parts = tuple[list[str], list[str], list[str], list[str]]


def _part(command: str) -> int:
    return bisect_left(_BETWEEN, command)


def _allowed(bits: int) -> int:
    actions = _ALL & ~(_OPEN | _DO_CLOSE | _SWITCH_ON | _SWITCH_OFF | _PLUG_IN | _PLUG_OUT)
    if bits & IS.CLOSED and not bits & IS.ON:
        actions |= _OPEN
    if bits & IS.OFF and not bits & IS.PLUGGED_OUT:
        actions |= _SWITCH_ON
    for state, action in (
        (IS.OPEN, _DO_CLOSE), (IS.ON, _SWITCH_OFF), (IS.PLUGGED_OUT, _PLUG_IN), (IS.PLUGGED_IN, _PLUG_OUT)
    ):  # fmt: skip
        if bits & state:
            actions |= action
    return actions


#: By the bits of a states cell.
_BY_STATES: Final = tuple([_allowed(bits) for bits in range(1 << len(STATE_NAMES))])


@lru_cache(maxsize=1 << 11)
def _able(name: str, properties: tuple[str, ...]) -> int:
    actions = _WASH | _WIPE | _TOUCH
    for known, also, able in (
        ("GRABBABLE", TAKEN_ALSO, _GRAB), ("CAN_OPEN", OPENED_ALSO, _OPEN | _DO_CLOSE),
        ("HAS_SWITCH", (), _SWITCH_ON | _SWITCH_OFF), ("HAS_SWITCH", ("keyboard",), _TYPE),
        ("HAS_PLUG", (), _PLUG_IN | _PLUG_OUT), ("SITTABLE", (), _SIT), ("LIEABLE", (), _LIE), ("EATABLE", (), _EAT),
    ):  # fmt: skip
        if known in properties or name in also:
            actions |= able
    return actions | _CUT if {"EATABLE", "CUTTABLE"} <= set(properties) else actions


class Offers:
    """The admissible commands of one scene, made once per name and set of actions; other lists are cached."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self._scene = scene = words.scene
        self._phrases = words.phrases
        self._finds = [phrases.each[_FIND] for phrases in words.phrases]
        self._able: dict[int, int] = {}
        self._at_first: dict[int, int] = {}
        self._groups_at_first: dict[int, Group] = {}
        self._me = scene.character * WIDTH
        self._not_me = ~(1 << scene.character)
        self._turns: tuple[int, list[str]] = (0, [])
        self._ways = Ways(words)
        self._no_rooms = ~scene.rooms
        having = scene.having
        self._poured = having["POURABLE"] | having["DRINKABLE"]
        self._poured_into = having["RECIPIENT"] | sum(scene.classes.get(name, 0) for name in POURED_INTO_ALSO)
        self._persons, self._clothes = having["PERSON"], having["CLOTHES"]
        self._knives = sum(nodes for name, nodes in scene.classes.items() if "knife" in name)
        self._in_hand = (
            ("DRINK", having["DRINKABLE"] | having["RECIPIENT"]),
            ("READ", having["READABLE"]),
            ("PUTON", having["CLOTHES"]),
        )

    def admissible(self, state: Household, known: int) -> tuple[str, ...]:
        """Return every offered command that is possible, sorted; `known` is the set of discovered nodes."""
        cells, me = state.cells, self._me
        near = rest = close = cells[me + CLOSE]
        while rest:
            low = rest & -rest
            base = (low.bit_length() - 1) * WIDTH
            near |= cells[base + CLOSE] | cells[base + SOURCES + ON]
            rest ^= low
        near &= self._not_me
        finds, rest, every = [], near & ~(close & known), self._finds
        while rest:
            low = rest & -rest
            finds.append(every[low.bit_length() - 1])
            rest ^= low
        finds.sort()
        held = state.in_hands()
        posture = cells[me + STATES] & (IS.SITTING | IS.LYING)
        local, touched = near & known, state.touched
        turns = self._turn_commands(known)
        groups: list[Group] = []
        if held or posture:
            how = self._how(cells, held, posture)
            groups = [
                self._group_now(state, node, how & ~_GRAB if held >> node & 1 else how) for node in positions(local)
            ]
        else:
            at_first = self._groups_at_first
            while local:
                low = local & -local
                group = at_first.get(low) if not touched & low else None
                groups.append(group or self._group_now(state, low.bit_length() - 1, _EMPTY_HANDED))
                local ^= low
            if not (cells[me + FACING] or cells[me + SOURCES + ON] or known & self._persons):
                walks = self._ways.commands(state)
                if not groups:
                    return (*finds, *turns, *walks)
                first, second, third, fourth = groups[0] if len(groups) == 1 else _merged(groups)
                return (*first, *finds, *second, *turns, *third, *walks, *fourth)
        parts = _merged(groups)
        for node in positions(held & known):
            self._with(parts, state, node, near, known)
        if posture:
            parts[1].extend(("sleep", "stand up"))
            parts[2].append("wake up")
        self._from_afar(parts, state, known)
        for part in parts:
            part.sort()
        walks = () if posture else self._ways.commands(state)
        return (*parts[0], *finds, *parts[1], *turns, *parts[2], *walks, *parts[3])

    def _how(self, cells: list[int], held: int, posture: int) -> int:
        how = _ALL if held else _EMPTY_HANDED
        if cells[self._me + HOLDS_RH] and cells[self._me + HOLDS_LH]:
            how &= ~_WITH_A_HAND
        if not held & self._knives:
            how &= ~_CUT
        return how & ~((_SIT if posture & IS.SITTING else 0) | (_LIE if posture & IS.LYING else 0))

    def _group_now(self, state: Household, node: int, how: int) -> Group:
        touched = state.touched >> node & 1
        actions = self._at_first.get(node, -1) if not touched else -1
        if actions < 0:
            actions = self._actions(state, node)
            if not touched and not state.cells[node * WIDTH + INSIDE] & self._no_rooms:
                self._at_first[node] = actions
        phrases, actions = self._phrases[node], actions & how
        group = phrases.groups.get(actions) or _group(phrases, actions)
        if how == _EMPTY_HANDED and node in self._at_first and not touched:
            self._groups_at_first[1 << node] = group
        return group

    def _actions(self, state: Household, node: int) -> int:
        cells, scene, base = state.cells, self._scene, node * WIDTH
        actions = self._able.get(node, -1)
        if actions < 0:
            actions = self._able[node] = _able(scene.names[node], scene.properties[node])
        on = cells[base + SOURCES + ON]
        if on:
            if on & scene.having["EATABLE"]:
                actions |= _EAT
            if on.bit_count() >= SEATS.get(scene.names[node], 1):
                actions &= ~_SIT
            if on.bit_count() >= BEDS.get(scene.names[node], 1):
                actions &= ~_LIE
        if cells[base + INSIDE] & self._no_rooms and state.shut(node):
            actions &= ~(_TOUCH | _GRAB)
        return actions & _BY_STATES[cells[base + STATES]]

    def _with(self, parts: Parts, state: Household, thing: int, near: int, known: int) -> None:
        say, each = self.words.say, self._phrases[thing].each
        found = [each[PLACE["DROP"]], *[each[PLACE[action]] for action, able in self._in_hand if able >> thing & 1]]
        pours = self._poured >> thing & 1
        for node in positions(near & known & ~(1 << thing)):
            found.append(say("PUTBACK", thing, node))
            if state.takes_in(node):
                found.append(say("PUTIN", thing, node))
            if pours and self._poured_into >> node & 1:
                found.append(say("POUR", thing, node))
        place, relation = state.places.get(thing, (-1, 0))
        if place >= 0 and state.near(place) and (relation != INSIDE or state.takes_in(place)):
            found.append(each[PLACE["PUTOBJBACK"]])
        for command in found:
            parts[_part(command)].append(command)

    def _from_afar(self, parts: Parts, state: Household, known: int) -> None:
        cells, scene, me = state.cells, self._scene, self._me
        persons = known & self._persons
        worn = cells[me + SOURCES + ON] & self._clothes & known
        facing = seen = cells[me + FACING]
        if not (persons or worn or facing):
            return
        found = [self._phrases[node].each[PLACE["GREET"]] for node in members(persons)]
        found += [self._phrases[node].each[PLACE["PUTOFF"]] for node in members(worn)]
        for node in members(facing):
            seen |= cells[node * WIDTH + FACING]
        room = state.room(scene.character)
        for node in members(seen & known):
            each = self._phrases[node].each
            found.append(each[PLACE["LOOKAT"]])
            if scene.having["LOOKABLE"] >> node & 1 and state.room(node) == room is not None:
                resting = cells[me + STATES] & (IS.SITTING | IS.LYING)
                if scene.names[node] == "computer" or not resting or facing >> node & 1:
                    found.append(each[PLACE["WATCH"]])
        for command in found:
            parts[_part(command)].append(command)

    def _turn_commands(self, known: int) -> list[str]:
        last, commands = self._turns
        if known != last:
            if last & ~known:
                last, commands = 0, []
            for node in positions(known & ~last):
                insort(commands, self._phrases[node].each[_TURN_TO])
            self._turns = known, commands
        return commands


def _merged(groups: list[Group]) -> Parts:
    first, second, third, fourth = map(sorted, map(chain.from_iterable, zip(*groups or [_NO_GROUP], strict=True)))
    return first, second, third, fourth


_NO_GROUP: Final[Group] = ((), (), (), ())


def _group(phrases: Phrases, actions: int) -> Group:
    parts: Parts = ([], [], [], [])
    for number in members(actions):
        command = phrases.each[PLACE[_LOCAL[number]]]
        parts[_part(command)].append(command)
    first, second, third, fourth = map(tuple, parts)
    phrases.groups[actions] = first, second, third, fourth
    return phrases.groups[actions]


_WALK: Final = PLACE["WALK"]
#: Maximum number of cached lists per scene.
_MOST_LISTS: Final = 64


class Ways:
    """The possible walks in one scene for a standing character; they change with doors and places."""

    def __init__(self, words: Words) -> None:
        self._scene = scene = words.scene
        self._phrases = words.phrases
        self._not_me = ~(1 << scene.character)
        self._me_inside = scene.character * WIDTH + INSIDE
        self._lists: dict[int, tuple[str, ...]] = {}
        self._here: dict[tuple[object, int, int], tuple[str, ...]] = {}
        self._open: dict[tuple[int, int], tuple[int, int]] = {}
        self._room_cells = [(room * WIDTH + SOURCES + INSIDE, 1 << room) for room in members(scene.rooms)]

    def commands(self, state: Household) -> tuple[str, ...]:
        here = state.placed, state.cells[self._me_inside], state.closed_now()
        commands = self._here.get(here)
        if commands is None:
            if len(self._here) >= _MOST_LISTS:
                self._here.clear()
            commands = self._here[here] = self._found(state)
        return commands

    def _found(self, state: Household) -> tuple[str, ...]:
        nodes = self.reachable(state)
        commands = self._lists.get(nodes)
        if commands is None:
            if len(self._lists) >= _MOST_LISTS:
                self._lists.clear()
            phrases = self._phrases
            commands = self._lists[nodes] = tuple(sorted([phrases[node].each[_WALK] for node in positions(nodes)]))
        return commands

    def reachable(self, state: Household) -> int:
        """Return the nodes to which a standing character can walk, as a set."""
        cells, scene = state.cells, self._scene
        start = state.room(scene.character)
        if start is None:
            return 0
        closed = state.closed_now()
        ways = self._open.get((start, closed))
        if ways is None:
            ways = self._open[start, closed] = self._open_ways(state, start)
        rooms, doors = ways
        found, elsewhere = rooms, 0
        for slot, room in self._room_cells:
            if rooms & room:
                found |= cells[slot]
            else:
                elsewhere |= cells[slot]
        if found & elsewhere:
            for node in positions(found & elsewhere):  # in several rooms: the first one counts
                if state.room(node) not in positions(rooms):
                    found ^= 1 << node
        return (found | doors) & self._not_me

    def _open_ways(self, state: Household, start: int) -> tuple[int, int]:
        scene, cells, rooms = self._scene, state.cells, 0
        beside = (cells[start * WIDTH + SOURCES + BETWEEN] | cells[start * WIDTH + BETWEEN]) & scene.doors
        doors = sum(1 << door for door in positions(beside) if state.room(door) is not None)
        for room in positions(scene.rooms):
            try:
                closed = state.closed_doors(start, room)
            except OriginalError:
                continue
            if closed == []:
                rooms |= 1 << room
            elif closed and state.room(closed[-1]) == room:
                doors |= 1 << closed[-1]
        return rooms, doors
