"""Generated rooms: receptacles, their locations, and their objects, by rounded counts over the official train split.

A layout's scene number depends on the seed alone. A hash of its receptacles assigns it to training or to testing.
"""

import hashlib
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, count
from typing import Any

import numpy as np

from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TWO, mask, numbered
from agentgym.outside.text import tables_beside
from agentgym.tasks import Draws


@dataclass(frozen=True)
class Stock:
    """Frequency of a kind of object in a kind of room: probability of any, numbers of copies (equally likely), where.

    `where` is (kind of receptacle, weight); the weight is divided among the room's receptacles of that kind.
    """

    likely: float
    copies: tuple[int, ...]
    where: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Room:
    """A kind of room; numbers in a tuple are equally likely.

    `together`: (kind, kind, probability that a receptacle of the first kind shares the location of one of the second);
    `closing`: per kind, probability that a receptacle can be opened, 0 if missing; `needs`: groups of kinds of which a
    room has at least one each; `tasks`: frequency of each task type in this kind of room.
    """

    scenes: int
    receptacles: dict[str, tuple[int, ...]]
    together: tuple[tuple[str, str, float], ...]
    closing: dict[str, float]
    needs: tuple[tuple[str, ...], ...]
    stock: dict[str, Stock]
    tasks: dict[str, float]


def _counts(text: str) -> dict[str, tuple[int, ...]]:
    lines = (line.split() for line in text.strip().splitlines())
    return {kind: tuple(map(int, numbers)) for kind, *numbers in sorted(lines)}


def _stock(text: str) -> dict[str, Stock]:
    table = {}
    for line in text.strip().splitlines():
        kind, percent, copies, *where = line.split()
        pairs = tuple(zip(where[::2], map(float, where[1::2]), strict=True))
        table[kind] = Stock(int(percent) / 100, tuple(map(int, copies)), pairs)
    return table


def _room(table: Mapping[str, Any]) -> Room:
    return Room(
        scenes=table["scenes"],
        receptacles=_counts(table["receptacles"]),
        together=tuple(map(tuple, table["together"])),
        closing=table["closing"],
        needs=tuple(map(tuple, table["needs"])),
        stock=_stock(table["stock"]),
        tasks=table["tasks"],
    )


ROOMS: dict[str, Room] = {name: _room(table) for name, table in tables_beside(__file__, "households.toml").items()}

#: Games of each type in a block of 36, as in the official train split.
PROPORTIONS: dict[str, int] = {PICK: 8, LOOK: 3, CLEAN: 7, HEAT: 5, COOL: 5, TWO: 8}

#: Numbers of objects of the goal, equally likely; the second tuple for `pick_two_obj_and_place`.
TARGETS: tuple[int, ...] = (1, 1, 1, 1, 2, 2, 2, 3, 3, 4)
PAIRS: tuple[int, ...] = (2, 2, 2, 2, 3, 3, 3, 4, 4)

#: Receptacles with space for one object.
SINGLE = frozenset({"coffeemachine", "handtowelholder", "stoveburner", "toaster", "toiletpaperhanger", "towelholder"})

#: Receptacles that clean, heat or cool: objects to be treated are not there at the start.
MACHINES: dict[str, str] = {CLEAN: "sinkbasin", HEAT: "microwave", COOL: "fridge"}

#: Weight factor of receptacles with doors for objects of the goal.
DOORS = 0.5

#: Receptacles that are never the goal; the one that heats or cools is not the goal of that task either.
NEVER_GOAL = frozenset(
    {"bathtubbasin", "handtowelholder", "laundryhamper", "sinkbasin", "toaster", "towelholder", "tvstand"}
)
#: Weight of a kind of receptacle as the goal, 1 if missing.
GOAL_WEIGHTS: dict[str, float] = {
    "armchair": 2, "cart": 5, "coffeemachine": 0.5, "coffeetable": 2, "desk": 2, "dresser": 2, "garbagecan": 0.5,
    "sidetable": 2, "sofa": 2, "stoveburner": 0.5, "toilet": 1.5,
}  # fmt: skip

#: Probability that an object has a copy in no receptacle, which leaves a gap in the numbers.
NOWHERE = 0.04
#: Probability that a vessel "contains" an object beside it (only `examine` shows it).
FILLED = 0.03


#: Splits of generated games, with the sort of their layouts.
SPLITS: dict[str, str] = {"train": "seen", "valid_seen": "seen", "valid_unseen": "unseen"}

#: Number of layouts of each kind of room; every fifth of them is unseen.
LAYOUTS = 30
_EVERY = 5


def seeded(entropy: list[int]) -> Draws:
    """Return the draws of a seed: its numbers in blocks of 256, the last of each block first."""
    rng = np.random.default_rng(entropy)
    return Draws(number for _ in count() for number in reversed(rng.random(256).tolist()))


def weighted(draws: Draws, totals: Sequence[float]) -> int:
    """Return a position, by weights as running totals."""
    return bisect(totals, draws.uniform() * totals[-1])


#: Running totals of weights, and their receptacles.
Spots = tuple[list[float], list[int]]


@dataclass(frozen=True, eq=False)
class Layout:
    """A room with its receptacles in listing order.

    `places`: location of each receptacle, numbered from 0 in their order; `signs`: the locations in the order of their
    names; `openable`: receptacles that can be opened (bit mask).
    """

    room: str
    scene: int
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    places: tuple[int, ...]
    signs: tuple[int, ...]
    openable: int
    _spots: dict[tuple[str, str, float], Spots] = field(default_factory=dict, init=False, repr=False)

    def spots(self, kind: str, without: str = "", doors: float = 1) -> Spots:
        """Return the possible receptacles of a kind of object (never `without`); `doors` scales openable ones."""
        found = self._spots.get((kind, without, doors))
        if found is None:
            weights = [
                (weight / self.kinds.count(name) * (doors if self.openable >> receptacle & 1 else 1), receptacle)
                for name, weight in ROOMS[self.room].stock[kind].where
                for receptacle, other in enumerate(self.kinds)
                if other == name != without
            ]
            found = list(accumulate(weight for weight, _ in weights)), [receptacle for _, receptacle in weights]
            self._spots[kind, without, doors] = found
        return found


def layouts(seed: int, room: str, sort: str) -> tuple[Layout, ...]:
    """Return the layouts of a kind of room (key of `ROOMS`), "seen" or "unseen", in the order of their scenes."""
    unseen = sort == "unseen"
    return tuple(found for i, found in enumerate(_layouts(seed, room)) if (i % _EVERY == _EVERY - 1) == unseen)


def sort_of(room: str, kinds: Sequence[str]) -> str:
    """Return "unseen" for one in five lists of receptacles (in listing order), else "seen"."""
    text = f"{room}: {' '.join(kinds)}"
    return "seen" if hashlib.sha256(text.encode()).digest()[0] % _EVERY else "unseen"


@lru_cache(maxsize=64)
def _layouts(seed: int, name: str) -> tuple[Layout, ...]:
    room = ROOMS[name]
    draws = seeded([seed, room.scenes])
    found: dict[tuple[str, ...], Layout] = {}
    while len(found) < LAYOUTS:
        wanted = "unseen" if len(found) % _EVERY == _EVERY - 1 else "seen"
        kinds = _receptacles(room, draws)
        if kinds not in found and sort_of(name, kinds) == wanted:
            closing = mask(i for i, kind in enumerate(kinds) if draws.uniform() < room.closing.get(kind, 0))
            places = _places(room, kinds, draws)
            signs = tuple(sorted(set(places), key=lambda _: draws.uniform()))
            found[kinds] = Layout(name, room.scenes + len(found), kinds, numbered(kinds), places, signs, closing)
    return tuple(found.values())


def _receptacles(room: Room, draws: Draws) -> tuple[str, ...]:
    while True:
        counts = {kind: numbers[draws.below(len(numbers))] for kind, numbers in room.receptacles.items()}
        if all(any(counts[kind] for kind in group) for group in room.needs):
            return tuple(kind for kind, number in counts.items() for _ in range(number))


def _places(room: Room, kinds: Sequence[str], draws: Draws) -> tuple[int, ...]:
    place = list(range(len(kinds)))
    for kind, other, likely in room.together:
        anchors = [i for i, name in enumerate(kinds) if name == other]
        for i, name in enumerate(kinds):
            if name == kind and anchors and draws.uniform() < likely:
                place[i] = place[anchors[draws.below(len(anchors))]]
    number = {old: new for new, old in enumerate(dict.fromkeys(place))}
    return tuple(number[old] for old in place)
