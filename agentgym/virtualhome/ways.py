"""Where one can walk to, which changes with doors, and with what lies in which room; the lists are remembered."""

from __future__ import annotations

from typing import Final

from agentgym.virtualhome.commands import PLACE, Words
from agentgym.virtualhome.household import Household, OriginalError
from agentgym.virtualhome.scene import BETWEEN, INSIDE, IS_CLOSED, SOURCES, STATES, WIDTH, members, positions

_WALK: Final = PLACE["WALK"]
#: Lists that one scene remembers.
_MOST_LISTS: Final = 64


class Ways:
    """The walks that are possible in one scene for somebody who stands, by the rules of dialect "v1".

    Args:
        words: the scene's commands.
    """

    def __init__(self, words: Words) -> None:
        self._scene = scene = words.scene
        self._phrases = words.phrases
        self._not_me = ~(1 << scene.character)
        self._me_inside = scene.character * WIDTH + INSIDE
        self._lists: dict[int, tuple[str, ...]] = {}
        self._here: dict[tuple[object, int, int], tuple[str, ...]] = {}
        self._open: dict[tuple[int, int], tuple[int, int]] = {}
        self._door_cells = [(door * WIDTH + STATES, 1 << door) for door in members(scene.doors)]
        self._room_cells = [(room * WIDTH + SOURCES + INSIDE, 1 << room) for room in members(scene.rooms)]
        self._closed = self._closed_now(scene.cells)

    def commands(self, state: Household) -> tuple[str, ...]:
        """Return the commands to walk to what is reachable, sorted."""
        cells = state.cells
        closed = self._closed_now(cells) if state.touched & self._scene.doors else self._closed
        here = state.placed, cells[self._me_inside], closed
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
        """Return the nodes that a character that stands can walk to, as a set."""
        cells, scene = state.cells, self._scene
        start = state.room(scene.character)
        if start is None:
            return 0
        closed = self._closed_now(cells) if state.touched & scene.doors else self._closed
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

    def _closed_now(self, cells: list[int] | tuple[int, ...]) -> int:
        """Return the doors that are closed, as a set."""
        closed = 0
        for slot, door in self._door_cells:
            if cells[slot] & IS_CLOSED:
                closed |= door
        return closed

    def _open_ways(self, state: Household, start: int) -> tuple[int, int]:
        """Return the rooms that can be walked to from a room, and the doors that can be beside what is in these."""
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
