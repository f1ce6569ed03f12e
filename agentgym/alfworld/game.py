"""One household game: its constant part, shared by all episodes.

Receptacles, objects and locations are integers, their positions in the tuples of a `Game`; a set of them is an int with
bit `i` for position `i`. The order is that of the original's listings, by mangled id: numbers descend within a kind.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from sys import intern
from typing import Any

#: The six kinds of task, in the numbering of the original (1 to 6).
TASK_TYPES: tuple[str, ...] = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
PICK, LOOK, CLEAN, HEAT, COOL, TWO = TASK_TYPES

#: The two wordings in which games exist: "move" (`move x to y`, with `help`) and the older "put" (`put x in/on y`,
#: arrival at `loc n`, no `help`), with what stands between thing and place.
DIALECTS: dict[str, str] = {"move": " to ", "put": " in/on "}
_ALWAYS = {"move": ("help", "inventory", "look"), "put": ("inventory", "look")}

#: Location without a receptacle in reach.
ELSEWHERE = "the middle of the room"
#: Types of objects that slice.
KNIVES = frozenset({"knife", "butterknife"})
_MAX_STANDS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Stand:
    """An agent at a location with some of its receptacles open; names and commands are sorted in each field."""

    accessible: tuple[int, ...]
    sinks: tuple[str, ...]
    microwaves: tuple[str, ...]
    fridges: tuple[str, ...]
    closes: tuple[str, ...]
    examines: tuple[str, ...]
    routes: tuple[str, ...]
    always: tuple[str, ...]
    opens: tuple[str, ...]
    #: `routes` and `always`; no command of an empty hand sorts between them.
    onward: tuple[str, ...]
    #: All of the above, sorted.
    everything: tuple[str, ...]
    #: For each position among `examines`, the commands before and after a further object to examine, up to `opens`.
    around: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    #: Whether there is a sink, a microwave or a fridge.
    machines: bool


class Room:
    """The part that all games in one room share (the 3,553 official train games use 108 rooms).

    `local`: receptacles at each location, ascending; `facing`: the same in words; `reach`: the same as a bit mask;
    `goes`: receptacle of each `go to` command; `closed`: text of each receptacle when closed; `sinks`, `microwaves`,
    `fridges`: receptacles that clean, heat, cool (bit masks).
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
        self._stands: dict[int, Stand] = {}

    def stand(self, loc: int, is_open: int, go_to_shared: bool) -> Stand:
        """Return the commands at a location, as far as the room determines them; `is_open` is a bit mask.

        `go_to_shared`: the agent can go to the receptacles of its own location, if there are several (a repair).
        """
        is_open &= self.reach[loc]
        key = (is_open * len(self.local) + loc) * 2 + go_to_shared
        found = self._stands.get(key)
        if found is None:
            if len(self._stands) >= _MAX_STANDS:
                self._stands.clear()
            found = self._stands[key] = self._stand(loc, is_open, go_to_shared)
        return found

    def _stand(self, loc: int, is_open: int, go_to_shared: bool) -> Stand:
        # by name: commands of one verb sort as the names at their ends
        here = sorted(self.local[loc], key=self.receptacles.__getitem__)
        closed = self._openable & ~is_open
        closes, opens = self._each("close", here, is_open), self._each("open", here, closed)
        examines = self._each("examine", here, -1)
        routes = list(self.goes)
        if len(here) == 1 or not go_to_shared:
            for i in here:
                routes.remove(f"go to {self.receptacles[i]}")
        onward = (*routes, *self._always)
        sinks, microwaves, fridges = (
            tuple([self.receptacles[i] for i in here if kind >> i & 1]) if kind & self.reach[loc] else ()
            for kind in (self.sinks, self.microwaves, self.fridges)
        )
        accessible = tuple([i for i in here if not closed >> i & 1])
        everything = closes + examines + onward + opens
        around = tuple([(closes + examines[:k], examines[k:] + onward) for k in range(len(examines) + 1)])
        return Stand(
            accessible, sinks, microwaves, fridges, closes, examines, tuple(routes), self._always, opens, onward,
            everything, around, bool(sinks or microwaves or fridges),
        )  # fmt: skip

    def _each(self, verb: str, receptacles: list[int], among: int) -> tuple[str, ...]:
        return tuple([f"{verb} {self.receptacles[i]}" for i in receptacles if among >> i & 1])


#: Rooms by their properties; one object each.
room_of = lru_cache(maxsize=1024)(Room)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Game:
    """A game before the first command. Sets of objects or receptacles are bit masks over their positions.

    Attributes:
        task: the sentence after "Your task is to: ", without the final full stop.
        receptacles: names ("drawer 2"), in listing order.
        places: location of each receptacle, numbered in the order of the receptacles; several may share one.
        locations: names of locations ("loc 7"), the start included.
        openable: receptacles that can be opened; all of them are closed at the start.
        objects: names ("apple 1"), in listing order, including objects in no receptacle.
        vessels: objects that can contain others ("This is a normal bowl 1. In it, you see ...").
        contents: objects in each receptacle at the start; an object may be listed in two.
        seen_from: objects that the data places at each location; only slicing and the floor's text use it.
        inner: pairs (vessel, objects in it); constant.
        goal_objects: objects that count for the goal (right type; cleanable, heatable or coolable if required).
        goal_receptacles: positions of the receptacles of the goal; () for `look_at_obj_in_light`.
        goal_lamps: toggleable objects that count for `look_at_obj_in_light`, else 0.
        walkthrough: commands that win, () when the data has none.
        fits: per receptacle, the objects that it accepts; equal for all receptacles of a type.
    """

    task_id: str
    task_type: str
    task: str
    dialect: str
    receptacles: tuple[str, ...]
    receptacle_types: tuple[str, ...]
    places: tuple[int, ...]
    locations: tuple[str, ...]
    start: int
    openable: int
    objects: tuple[str, ...]
    object_types: tuple[str, ...]
    pickupable: int
    cleanable: int
    heatable: int
    coolable: int
    toggleable: int
    sliceable: int
    vessels: int
    cool: int
    contents: tuple[int, ...]
    seen_from: tuple[int, ...]
    inner: tuple[tuple[int, int], ...]
    goal_objects: int
    goal_receptacles: tuple[int, ...]
    goal_lamps: int
    walkthrough: tuple[str, ...]
    fits: tuple[int, ...]
    #: Derived: the part shared with all games in the room; objects that cut; positions of names.
    room: Room = field(init=False, repr=False)
    knives: int = field(init=False)
    object_index: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        kinds, places = self.receptacle_types, self.places
        room = room_of(self.receptacles, kinds, places, len(self.locations), self.openable, self.dialect)
        fix = object.__setattr__
        fix(self, "room", room)
        fix(self, "knives", mask(i for i, kind in enumerate(self.object_types) if kind in KNIVES))
        fix(self, "object_index", dict(zip(self.objects, range(len(self.objects)), strict=True)))

    @property
    def content(self) -> list[Any]:
        """Return everything but name and walkthrough as plain values; see `agentgym.core.TextEnv.content`."""
        left_out = ("task_id", "receptacle_types", "locations", "object_types", "walkthrough")  # names show the types
        return [getattr(self, each.name) for each in fields(self) if each.init and each.name not in left_out]

    def names(self, objects: int) -> list[str]:
        names, result = self.objects, []
        while objects:
            low = objects & -objects
            result.append(names[low.bit_length() - 1])
            objects ^= low
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Game, **{f.name: getattr(self, f.name) for f in fields(self) if f.init}), ()


def mask(positions: Iterable[int]) -> int:
    """Return the bit mask of some positions."""
    result = 0
    for position in positions:
        result |= 1 << position
    return result


def put_command(dialect: str, thing: str, place: str) -> str:
    """Return the command that puts a thing into or onto a receptacle."""
    return f"{dialect} {thing}{DIALECTS[dialect]}{place}"


def bits(mask: int) -> Iterator[int]:
    """Yield the positions in a bit mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def numbered(bases: Sequence[str]) -> tuple[str, ...]:
    """Return names in listing order: numbers count down to 1 within a base ("drawer 2", "drawer 1")."""
    left = Counter(bases)
    names = []
    for base in bases:
        names.append(intern(f"{base} {left[base]}"))
        left[base] -= 1
    return tuple(names)


def listing(names: Sequence[str]) -> str:
    """Join names as the original does; two names also have a comma.

    >>> listing([]), listing(["a x 1"]), listing(["a x 1", "a y 1"])
    ('nothing', 'a x 1', 'a x 1, and a y 1')
    """
    if len(names) > 1:
        return ", ".join(names[:-1]) + ", and " + names[-1]
    return names[0] if names else "nothing"
