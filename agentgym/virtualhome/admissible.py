"""Which commands can be done now, by the rules of dialect "v1".

Every command that is listed succeeds, and none of `OFFERED` that would succeed is missing, but for

* `find` where `walk to` does the same: it is offered for what is near, unless that is known already and directly close;
* `grab` for what is in hand, and `put` and `pour` of a thing on, in or into itself;
* whatever concerns the character itself as a thing.

Not offered, though understood, are other words for the same (`run to`, `release`, `rinse`, `scrub`) and gestures
without effect (`point at`, `push`, `pull`, `move`, `squeeze`).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

from agentgym.virtualhome.commands import TEMPLATES, Words
from agentgym.virtualhome.handling import POURED_INTO_ALSO, TAKEN_ALSO
from agentgym.virtualhome.household import Household, OriginalError
from agentgym.virtualhome.moving import BEDS, SEATS
from agentgym.virtualhome.scene import (
    CLOSE,
    FACING,
    HOLDS_LH,
    HOLDS_RH,
    INSIDE,
    IS_CLOSED,
    IS_OFF,
    IS_ON,
    IS_OPEN,
    LYING,
    ON,
    PLUGGED_IN,
    PLUGGED_OUT,
    SITTING,
    SOURCES,
    STATES,
    WIDTH,
    Scene,
    members,
)  # fmt: skip
from agentgym.virtualhome.using import OPENED_ALSO

#: Actions that are offered.
OFFERED: Final = tuple(
    [
        name
        for name in TEMPLATES
        if name not in ("RUN", "RELEASE", "RINSE", "SCRUB", "POINTAT", "PUSH", "PULL", "MOVE", "SQUEEZE")
    ]
)
_WALK: Final = "walk to "
#: Lists of all commands, by state, that one scene remembers: episodes of a group begin alike, and much changes nothing.
_MOST_LISTS: Final = 128
#: Lists of places to go to that one scene remembers.
_MOST_WALKS: Final = 64
#: Things in some condition whose commands one scene remembers.
_MOST_KNOWN: Final = 1024
#: What else decides what can be done to a thing, beside its states, what is on it, and the character's posture: a hand
#: is free, something is held, a knife is; it is shut in, it is held itself.
_HAND, _HOLDS, _KNIFE, _SHUT, _HELD = (1 << bit for bit in range(16, 21))


class Offers:
    """The commands that can be done in one scene.

    Args:
        words: the scene's commands.

    Attributes:
        words: the scene's commands.
    """

    def __init__(self, words: Words) -> None:
        self.words = words
        self._scene = scene = words.scene
        self._say, self._each = words.say, words.each
        self._known: dict[tuple[int, int, int, int], tuple[str, ...]] = {}
        self._me = scene.character * WIDTH
        self._lists: dict[tuple[int, int, tuple[Any, ...]], tuple[str, ...]] = {}
        self._walks: dict[int, tuple[str, ...]] = {}
        self._ways: dict[tuple[int, int], tuple[int, int]] = {}
        having = scene.having
        self._doors = _of(scene, "door", "doorjamb")
        self._door_cells = [(door * WIDTH + STATES, 1 << door) for door in members(self._doors)]
        self._room_cells = [(room * WIDTH + SOURCES + INSIDE, 1 << room) for room in members(scene.rooms)]
        self._no_rooms = ~scene.rooms
        self._self = 1 << scene.character
        self._grabbable = having["GRABBABLE"] | _of(scene, *TAKEN_ALSO)
        self._openable = having["CAN_OPEN"] | _of(scene, *OPENED_ALSO)
        self._typed = having["HAS_SWITCH"] | _of(scene, "keyboard")
        self._poured = having["POURABLE"] | having["DRINKABLE"]
        self._poured_into = having["RECIPIENT"] | _of(scene, *POURED_INTO_ALSO)
        self._knives = sum(nodes for name, nodes in scene.classes.items() if "knife" in name)
        self._in_hand = (
            ("DRINK", having["DRINKABLE"] | having["RECIPIENT"]),
            ("READ", having["READABLE"]),
            ("PUTON", having["CLOTHES"]),
        )

    def admissible(self, state: Household, known: int) -> tuple[str, ...]:
        """Return every offered command that can be done, sorted as strings; remembered for some states.

        Args:
            state: of an episode in the scene, with dialect "v1".
            known: the nodes that were discovered, as a set.
        """
        key = state.fingerprint(), known, tuple(state.places.items())
        commands = self._lists.get(key)
        if commands is None:
            if len(self._lists) >= _MOST_LISTS:
                self._lists.clear()
            commands = self._lists[key] = self._work_out(state, known)
        return commands

    def _work_out(self, state: Household, known: int) -> tuple[str, ...]:
        cells, me = state.cells, self._me
        close = near = cells[me + CLOSE]
        for node in _positions(close):
            near |= cells[node * WIDTH + CLOSE] | cells[node * WIDTH + SOURCES + ON]
        near &= ~self._self
        right, left, rest = cells[me + HOLDS_RH], cells[me + HOLDS_LH], cells[me + STATES] & (SITTING | LYING)
        held = right | left
        finds = self._each("FIND")
        found = [finds[node] for node in _positions(near & ~(close & known))]
        if rest:
            found += ["stand up", "sleep", "wake up"]
        hands = _HAND if not (right and left) else 0
        hands |= (_HOLDS if held else 0) | (_KNIFE if held & self._knives else 0) | rest
        for node in _positions(near & known):
            base = node * WIDTH
            inside = cells[base + INSIDE] & self._no_rooms
            how = hands | _SHUT if inside and state.shut(node) else hands
            if held >> node & 1:
                how |= _HELD
            key = node, cells[base + STATES], how, cells[base + SOURCES + ON]
            commands = self._known.get(key)
            if commands is None:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                commands = self._known[key] = self._at(*key)
            found += commands
        for node in _positions(held & known):
            self._with(found, state, node, near, known)
        self._from_afar(found, state, known)
        found.sort()
        if rest:
            return tuple(found)
        split = bisect_left(found, _WALK)
        return (*found[:split], *self._walk_commands(self.reachable(state)), *found[split:])

    def _with(self, found: list[str], state: Household, thing: int, near: int, known: int) -> None:
        """Add what can be done with a thing in hand."""
        say, each = self._say, self._each
        found.append(each("DROP")[thing])
        found += [each(action)[thing] for action, able in self._in_hand if able >> thing & 1]
        pours = self._poured >> thing & 1
        for node in _positions(near & known & ~(1 << thing)):
            found.append(say("PUTBACK", thing, node))
            if self._takes_in(state, node):
                found.append(say("PUTIN", thing, node))
            if pours and self._poured_into >> node & 1:
                found.append(say("POUR", thing, node))
        place, relation = state.places.get(thing, (-1, 0))
        if place >= 0 and state.near(place) and (relation != INSIDE or self._takes_in(state, place)):
            found.append(each("PUTOBJBACK")[thing])

    def _takes_in(self, state: Household, node: int) -> bool:
        return bool(not self._scene.having["CAN_OPEN"] >> node & 1 or state.cells[node * WIDTH + STATES] & IS_OPEN)

    def _at(self, node: int, bits: int, how: int, on: int) -> tuple[str, ...]:
        """Return what can be done to a known thing that is near, apart from putting something there.

        Args:
            node: the thing.
            bits: its states.
            how: the character's posture, and bits of `_HAND` and so on.
            on: what is on it, as a set.
        """
        having, hand, name = self._scene.having, how & _HAND, self._scene.names[node]
        actions = ["WASH"]
        if how & _HOLDS:
            actions.append("WIPE")
        if not how & _SHUT:
            actions.append("TOUCH")
            if hand and self._grabbable >> node & 1 and not how & _HELD:
                actions.append("GRAB")
        if self._openable >> node & 1:
            if hand and bits & IS_CLOSED and not bits & IS_ON:
                actions.append("OPEN")
            if bits & IS_OPEN:
                actions.append("CLOSE")
        if having["HAS_SWITCH"] >> node & 1:
            if bits & IS_OFF and not bits & PLUGGED_OUT:
                actions.append("SWITCHON")
            if bits & IS_ON:
                actions.append("SWITCHOFF")
        if hand and having["HAS_PLUG"] >> node & 1:
            if bits & PLUGGED_OUT:
                actions.append("PLUGIN")
            if bits & PLUGGED_IN:
                actions.append("PLUGOUT")
        if having["SITTABLE"] >> node & 1 and not how & SITTING and on.bit_count() < SEATS.get(name, 1):
            actions.append("SIT")
        if having["LIEABLE"] >> node & 1 and not how & LYING and on.bit_count() < BEDS.get(name, 1):
            actions.append("LIE")
        if self._typed >> node & 1:
            actions.append("TYPE")
        eatable = having["EATABLE"]
        if eatable >> node & 1 or on & eatable:
            actions.append("EAT")
        if hand and how & _KNIFE and eatable & having["CUTTABLE"] & 1 << node:
            actions.append("CUT")
        return tuple([self._each(action)[node] for action in actions])

    def _from_afar(self, found: list[str], state: Household, known: int) -> None:
        """Add what can be done to known things that need not be near."""
        cells, each, scene, me = state.cells, self._each, self._scene, self._me
        turns = each("TURNTO")
        found += [turns[node] for node in _positions(known)]
        found += [each("GREET")[node] for node in _positions(known & scene.having["PERSON"])]
        worn = cells[me + SOURCES + ON] & scene.having["CLOTHES"] & known
        found += [each("PUTOFF")[node] for node in _positions(worn)]
        facing = seen = cells[me + FACING]
        for node in _positions(facing):
            seen |= cells[node * WIDTH + FACING]
        if not seen & known:
            return
        room = state.room(scene.character)
        for node in _positions(seen & known):
            found.append(each("LOOKAT")[node])
            if scene.having["LOOKABLE"] >> node & 1 and state.room(node) == room is not None:
                resting = cells[me + STATES] & (SITTING | LYING)
                if scene.names[node] == "computer" or not resting or facing >> node & 1:
                    found.append(each("WATCH")[node])

    def reachable(self, state: Household) -> int:
        """Return the nodes that a character that stands can walk to, as a set."""
        cells, scene = state.cells, self._scene
        start = state.room(scene.character)
        if start is None:
            return 0
        closed = 0
        for slot, door in self._door_cells:
            if cells[slot] & IS_CLOSED:
                closed |= door
        ways = self._ways.get((start, closed))
        if ways is None:
            ways = self._ways[start, closed] = self._open_ways(state, start)
        rooms, doors = ways
        found, elsewhere = rooms, 0
        for slot, room in self._room_cells:
            inside = cells[slot]
            if rooms & room:
                found |= inside
            else:
                elsewhere |= inside
        for node in _positions(found & elsewhere):  # in several rooms: the first one counts
            if state.room(node) not in members(rooms):
                found ^= 1 << node
        return (found | doors) & ~self._self

    def _open_ways(self, state: Household, start: int) -> tuple[int, int]:
        """Return the rooms that can be walked to from a room, and the doors that can be beside what is in these."""
        scene, rooms, doors = self._scene, 0, 0
        for room in members(scene.rooms):
            try:
                closed = state.closed_doors(start, room)
            except OriginalError:
                continue
            if closed == []:
                rooms |= 1 << room
            elif closed and state.room(closed[-1]) == room:
                doors |= 1 << closed[-1]
        for door in members(self._doors):
            if state.passable_door(door, start):
                doors |= 1 << door
        return rooms, doors

    def _walk_commands(self, nodes: int) -> tuple[str, ...]:
        commands = self._walks.get(nodes)
        if commands is None:
            if len(self._walks) >= _MOST_WALKS:
                self._walks.clear()
            commands = self._walks[nodes] = tuple(sorted([self._each("WALK")[node] for node in members(nodes)]))
        return commands


def _of(scene: Scene, *classes: str) -> int:
    """Return the nodes of some classes, as a set."""
    return sum(scene.classes.get(name, 0) for name in classes)


def _positions(nodes: int) -> list[int]:
    """Return the members of a set, lowest first."""
    found = []
    while nodes:
        low = nodes & -nodes
        found.append(low.bit_length() - 1)
        nodes ^= low
    return found
