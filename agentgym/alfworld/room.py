"""What all games in one room share: names, places, and the commands that depend on nothing else.

The 3,553 official train games play in 108 rooms. What belongs to a room is worked out once, whatever the number of
games and episodes in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

#: Where the agent is when no receptacle is near.
ELSEWHERE = "the middle of the room"
_ALWAYS = {"move": ("help", "inventory", "look"), "put": ("inventory", "look")}
_MAX_STANDS = 4096


class Stand(NamedTuple):
    """An agent at a location, with some of the receptacles there open; commands are sorted within each field."""

    accessible: tuple[int, ...]
    closes: tuple[str, ...]
    examines: tuple[str, ...]
    routes: tuple[str, ...]
    always: tuple[str, ...]
    opens: tuple[str, ...]
    #: All of the above, sorted.
    everything: tuple[str, ...]


class Room:
    """Receptacles and where they stand.

    Attributes:
        local: receptacles at each location, ascending.
        facing: the same in words, "the middle of the room" for none.
        reach: receptacles at each location, as a bit mask.
        index: position of each receptacle's name.
        goes: receptacle of each `go to` command.
        closed: text that describes each receptacle as closed.
        sinks, microwaves, fridges: receptacles that clean, heat, cool, as bit masks.
    """

    def __init__(
        self,
        receptacles: tuple[str, ...],
        types: tuple[str, ...],
        places: tuple[int, ...],
        locations: int,
        openable: int,
        dialect: str,
    ) -> None:
        here: list[list[int]] = [[] for _ in range(locations)]
        for receptacle, place in enumerate(places):
            here[place].append(receptacle)
        self.receptacles = receptacles
        self.local = tuple(map(tuple, here))
        self.facing = tuple([listing([receptacles[i] for i in some]) if some else ELSEWHERE for some in here])
        self.reach = tuple([sum(1 << i for i in some) for some in here])
        self.index = {name: i for i, name in enumerate(receptacles)}
        self.goes = {f"go to {receptacles[i]}": i for i in sorted(range(len(places)), key=lambda i: receptacles[i])}
        self.closed = tuple([f"The {name} is closed." for name in receptacles])
        self.sinks = sum(1 << i for i, kind in enumerate(types) if kind in ("sinkbasin", "sink"))
        self.microwaves = sum(1 << i for i, kind in enumerate(types) if kind == "microwave")
        self.fridges = sum(1 << i for i, kind in enumerate(types) if kind == "fridge")
        self._openable = openable
        self._always = _ALWAYS[dialect]
        self._stands: dict[tuple[int, int, bool], Stand] = {}

    def stand(self, loc: int, is_open: int, go_to_shared: bool) -> Stand:
        """Return what an agent can do at a location, as far as the room decides it.

        Args:
            loc: the location.
            is_open: the receptacles that are open, as a bit mask; those elsewhere do not matter.
            go_to_shared: whether the agent can go to the receptacles of this location, if it has several (a repair).
        """
        key = loc, is_open & self.reach[loc], go_to_shared
        found = self._stands.get(key)
        if found is None:
            if len(self._stands) >= _MAX_STANDS:
                self._stands.clear()
            found = self._stands[key] = self._stand(*key)
        return found

    def _stand(self, loc: int, is_open: int, go_to_shared: bool) -> Stand:
        here = self.local[loc]
        names = {i: self.receptacles[i] for i in here}
        closed = self._openable & ~is_open
        closes = tuple(sorted([f"close {name}" for i, name in names.items() if is_open >> i & 1]))
        opens = tuple(sorted([f"open {name}" for i, name in names.items() if closed >> i & 1]))
        examines = tuple(sorted([f"examine {name}" for name in names.values()]))
        everywhere = go_to_shared and len(here) > 1
        routes = tuple([command for command, i in self.goes.items() if everywhere or i not in names])
        everything = (*closes, *examines, *routes, *self._always, *opens)
        accessible = tuple([i for i in here if not closed >> i & 1])
        return Stand(accessible, closes, examines, routes, self._always, opens, everything)


#: Room by its properties, the same one every time.
room_of = lru_cache(maxsize=1024)(Room)


def listing(names: Sequence[str]) -> str:
    """Join names the way the original does; two of them have a comma too.

    >>> listing([]), listing(["a x 1"]), listing(["a x 1", "a y 1"])
    ('nothing', 'a x 1', 'a x 1, and a y 1')
    """
    if len(names) > 1:
        return ", ".join(names[:-1]) + ", and " + names[-1]
    return names[0] if names else "nothing"
