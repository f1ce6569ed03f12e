"""Predicates of the rules on a state, in both dialects, as in `evolving_graph/execution.py`.

Sources: andrewliao11/virtualhome 2c406fd ("v1") and xavierpuigf/virtualhome 58970fd ("head").
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

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
    STATES,
    WIDTH,
    Scene,
    members,
)
from agentgym.virtualhome.state import State

#: Maximum number of cached ways per scene.
_MOST_WAYS = 64
_RESTING = IS.SITTING | IS.LYING


class Rule(NamedTuple):
    """An action: check(household, node, ...) raises or returns `how` for effect(household, how, node, ...)."""

    check: Callable[..., Any]
    effect: Callable[..., None] | None = None


class Refused(Exception):  # noqa: N818  # an answer of the original, no error
    """An impossible action; the message is the original's reason, empty where the original gives none."""


class OriginalError(Exception):
    """The original raises here; the message is the exception's name, with the text of the original's own exceptions."""


class Household(State):
    """A state with the predicates of the rules; arguments are those of `rules.World`.

    `messages`: since the caller cleared them; `carry_room` ... `put_back`: the rule holds, by the dialect or by a
    repair.
    """

    __slots__ = (
        "_doors", "_posture_cell", "_posture_is_now", "_stop_at_cycles", "carry_room", "find_walks",
        "leave_seat", "me", "messages", "put_back", "take_off", "v1",
    )  # fmt: skip

    def __init__(self, scene: Scene, dialect: str = "v1", repairs: Collection[str] = ()) -> None:
        super().__init__(scene, set_order="lowest id" if "grab_place" in repairs else "cpython")
        self.v1 = dialect == "v1"
        self.find_walks = self.v1 or "find" in repairs
        self.take_off = self.v1 or "take_off" in repairs
        self.put_back = self.v1 or "put_back" in repairs
        self._posture_is_now = self.v1 or "posture" in repairs
        self.carry_room = "carry_room" in repairs
        self.leave_seat = "leave_seat" in repairs
        self.messages: list[str] = []
        self._stop_at_cycles = "cycles" in repairs
        self.me = scene.shown[scene.character]
        self._doors = _doors(scene, self._order is not None)
        self._posture_cell = self._me + STATES

    # Requirements of actions. Each raises `Refused` with the original's words.

    def need(self, wanted: str, node: int, otherwise: str, also: Collection[str] = ()) -> None:
        if not self.scene.having[wanted] >> node & 1 and self.scene.names[node] not in also:
            raise Refused(f"{self.scene.shown[node]} {otherwise}")

    def need_near(self, node: int) -> None:
        if not self.near(node):
            raise Refused(f"{self.me} is not close to {self.scene.shown[node]}")

    def need_not_shut(self, node: int) -> None:
        if self.shut(node):
            raise Refused(f"{self.scene.shown[node]} is inside other closed thing")

    def need_hand(self) -> int:
        """Require an empty hand, and return its relation, the right one first."""
        if not self.cells[self._me + HOLDS_RH]:
            return HOLDS_RH
        if not self.cells[self._me + HOLDS_LH]:
            return HOLDS_LH
        raise Refused(f"{self.me} does not have a free hand")

    def need_held(self, node: int) -> None:
        if not self.holds(node):
            raise Refused(f"{self.me} is not holding {self.scene.shown[node]}")

    # The character.

    def posture(self) -> int:
        """Return the character's states as the rules see them: in dialect "head" those of the start."""
        return (self.cells if self._posture_is_now else self.scene.cells)[self._posture_cell]

    def seated(self) -> bool:
        return bool((self.cells if self._posture_is_now else self.scene.cells)[self._posture_cell] & _RESTING)

    def held(self) -> list[int]:
        return [*self.in_order(self.scene.character, HOLDS_LH), *self.in_order(self.scene.character, HOLDS_RH)]

    def holds(self, node: int) -> bool:
        return bool(self.in_hands() >> node & 1)

    # Nodes.

    def near(self, node: int) -> bool:
        """Return whether the character is close to a node, to what is close to it, or to what it is on."""
        cells = self.cells
        close = cells[self._me + CLOSE]
        if self._order is not None:
            return self._near_in_order(node, close)
        here = node * WIDTH
        return bool(close >> node & 1 or close & (cells[here + SOURCES + CLOSE] | cells[here + ON]))

    def faces(self, node: int) -> bool:
        facing = self.cells[self._me + FACING]
        return bool(facing >> node & 1 or facing & self.cells[node * WIDTH + SOURCES + FACING])

    def shut(self, node: int) -> bool:
        """Return whether a node is inside something closed that is no room."""
        self.asked(node, INSIDE)
        cells = self.cells
        inside = cells[node * WIDTH + INSIDE] & ~self.scene.rooms
        return any(cells[each * WIDTH + STATES] & IS.CLOSED for each in members(inside)) if inside else False

    def takes_in(self, node: int) -> bool:
        """Return whether things can be put into a node: it is open, or has no door."""
        return not self.scene.having["CAN_OPEN"] >> node & 1 or bool(self.cells[node * WIDTH + STATES] & IS.OPEN)

    def room(self, node: int) -> int | None:
        """Return the room of a node, None if it is in none; an `OriginalError` for a cycle in dialect "head"."""
        rooms = self.scene.rooms
        if rooms >> node & 1:
            return node
        inside = self.cells[node * WIDTH + INSIDE]
        found = inside & rooms
        if inside and found == inside and not found & (found - 1) and self._order is None:
            return found.bit_length() - 1
        if not self.v1:
            if inside & (inside - 1):
                self.asked(node, INSIDE)
            elif inside and not found:
                return self._outermost(node)
        if found & (found - 1):
            return next(each for each in self.in_order(node, INSIDE) if rooms >> each & 1)
        self.asked(node, INSIDE)
        return found.bit_length() - 1 if found else None

    def on(self, node: int) -> int:
        self.asked_all(ON)
        return self.cells[node * WIDTH + SOURCES + ON]

    def crowded(self, node: int, most: int) -> bool:
        if self._order is None:
            return self.cells[node * WIDTH + SOURCES + ON].bit_count() >= most
        count = 0
        for each in self.nodes_in_order():
            self.asked(each, ON)
            count += self.cells[each * WIDTH + ON] >> node & 1
            if count >= most:
                return True
        return False

    def listed(self, nodes: int) -> Iterable[int]:
        if self._order is None or not nodes & (nodes - 1):
            return members(nodes)
        return [node for node in self.nodes_in_order() if nodes >> node & 1]

    # Doors.

    def passable_door(self, node: int, room: int) -> bool:
        between = self.related(node, BETWEEN) >> room | self.related(room, BETWEEN) >> node
        return bool(self.scene.doors >> node & between & 1)

    def open_way(self, start: int, end: int | None) -> bool:
        """Return quickly whether `closed_doors` is empty; False if that needs a search."""
        if end is None or self.touched & self.scene.doors:
            return False
        return bool(self._doors.open_from(start) >> end & 1)

    def closed_doors(self, start: int, end: int | None) -> list[int] | None:
        """Return the closed doors on a way between rooms, from its end back; [] for an open way, None without a way.

        `OriginalError`: "KeyError" for a room without doors, "AttributeError" for `end` None.
        """
        doors = self._doors
        if start not in doors.passages:
            raise OriginalError("KeyError")
        if end is None:
            raise OriginalError("AttributeError")
        if start == end:
            return []
        closed = self.closed_now()
        if end in doors.ways(start, closed):
            return []
        ways = doors.ways(start, 0)
        if end not in ways:
            return None
        on_the_way = []
        while end != start:
            end, door = ways[end]
            if closed >> door & 1:
                on_the_way.append(door)
        return on_the_way

    def closed_now(self) -> int:
        """Return the closed doors between rooms, as a set."""
        doors = self._doors
        return doors.closed_now(self.cells) if self.touched & self.scene.doors else doors.closed

    def _near_in_order(self, node: int, close: int) -> bool:
        me = self.scene.character
        self.asked(me, CLOSE)
        if close >> node & 1:
            return True
        for each in self.in_order(me, CLOSE):
            self.asked(each, CLOSE)
            if self.cells[each * WIDTH + CLOSE] >> node & 1:
                return True
            self.asked(node, ON)
            if self.cells[node * WIDTH + ON] >> each & 1:
                return True
        return False

    def _outermost(self, node: int) -> int | None:
        seen = set()
        inside = self.in_order(node, INSIDE)
        while inside:
            node = inside[0]
            if self.scene.rooms >> node & 1:
                return node
            if node in seen:
                if self._stop_at_cycles:
                    return None
                raise OriginalError("endless loop")
            seen.add(node)
            inside = self.in_order(node, INSIDE)
        return None


class _Doors:
    """The doors of a scene (constant); a door joins the first two nodes that it is between, in set order."""

    def __init__(self, scene: Scene, cpython: bool) -> None:
        start = State(scene, set_order="cpython" if cpython else "lowest id")
        self.passages: dict[int, list[tuple[int, int]]] = {}
        self._cells: list[tuple[int, int]] = []
        self._open: dict[int, int] = {}
        self._ways: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
        for kind in ("door", "doorjamb"):
            for door in members(scene.classes.get(kind, 0)):
                rooms = start.in_order(door, BETWEEN)
                if len(rooms) > 1:
                    self._cells.append((door * WIDTH + STATES, 1 << door))
                    self.passages.setdefault(rooms[0], []).append((rooms[1], door))
                    self.passages.setdefault(rooms[1], []).append((rooms[0], door))

        self.closed = self.closed_now(scene.cells)

    def closed_now(self, cells: Sequence[int]) -> int:
        closed = 0
        for slot, door in self._cells:
            if cells[slot] & IS.CLOSED:
                closed |= door
        return closed

    def open_from(self, start: int) -> int:
        rooms = self._open.get(start, -1)
        if rooms < 0:
            ways = self.ways(start, self.closed) if start in self.passages else ()
            rooms = self._open[start] = sum(1 << room for room in ways)
        return rooms

    def ways(self, start: int, closed: int) -> dict[int, tuple[int, int]]:
        ways = self._ways.get((start, closed))
        if ways is not None:
            return ways
        ways = {start: (start, -1)}
        queue = deque([start])
        while queue:
            room = queue.popleft()
            for other, door in self.passages[room]:
                if other not in ways and not closed >> door & 1:
                    ways[other] = room, door
                    queue.append(other)
        if len(self._ways) >= _MOST_WAYS:
            self._ways.clear()
        self._ways[start, closed] = ways
        return ways


#: Maximum number of scenes with cached doors.
_doors = lru_cache(maxsize=1024)(_Doors)
