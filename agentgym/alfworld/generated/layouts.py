"""Generated rooms: which receptacles stand where. A layout keeps its scene number for as long as the seed is the same.

Layouts for training and for testing differ: the list of receptacles decides by a hash to which of the two a layout
may belong, so no room of the one side is on the other, whatever the seeds.
"""

from __future__ import annotations

import hashlib
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

import numpy as np

from agentgym.alfworld.game import mask, numbered
from agentgym.alfworld.generated.households import ROOMS, Room

#: Splits of generated games, with the sort of layouts they are played in.
SPLITS: dict[str, str] = {"train": "seen", "valid_seen": "seen", "valid_unseen": "unseen"}

#: Number of layouts of each kind of room; every fifth of them is unseen.
LAYOUTS = 30
_EVERY = 5


class Draws:
    """Random numbers in blocks, which is faster than one by one.

    Args:
        rng: where they come from.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._left: list[float] = []

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        if not self._left:
            self._left = self._rng.random(256).tolist()
        return self._left.pop()

    def below(self, count: int) -> int:
        """Return an integer in [0, count)."""
        return int(self.uniform() * count)

    def weighted(self, totals: Sequence[float]) -> int:
        """Return a position, by weights given as running totals."""
        return bisect(totals, self.uniform() * totals[-1])


#: Running totals of weights, and the receptacles they belong to.
Spots = tuple[list[float], list[int]]


@dataclass(frozen=True, eq=False)
class Layout:
    """A room with its receptacles.

    Attributes:
        room: key of `households.ROOMS`.
        scene: its number.
        kinds: kinds of its receptacles, in listing order.
        names: their names.
        places: location of each; locations are numbered from 0 in the order of the receptacles.
        signs: the locations in the order of their names.
        openable: receptacles that can be opened (bit mask).
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
        """Return where a kind of object may lie.

        Args:
            kind: kind of object.
            without: kind of receptacle to leave out.
            doors: factor for the weights of receptacles that can be opened.
        """
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
    """Return the layouts of a kind of room, in the order of their scenes.

    Args:
        seed: another one gives other rooms.
        room: key of `households.ROOMS`.
        sort: "seen" or "unseen".
    """
    unseen = sort == "unseen"
    return tuple(found for i, found in enumerate(_layouts(seed, room)) if (i % _EVERY == _EVERY - 1) == unseen)


def sort_of(room: str, kinds: Sequence[str]) -> str:
    """Return "unseen" for one in five lists of receptacles (in listing order), else "seen"."""
    text = f"{room}: {' '.join(kinds)}"
    return "seen" if hashlib.sha256(text.encode()).digest()[0] % _EVERY else "unseen"


@lru_cache(maxsize=64)
def _layouts(seed: int, name: str) -> tuple[Layout, ...]:
    """All layouts of a kind of room; no two have the same receptacles."""
    room = ROOMS[name]
    draws = Draws(np.random.default_rng(np.random.SeedSequence([seed, room.scenes])))
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
    """Draw the receptacles of a room."""
    while True:
        counts = {kind: numbers[draws.below(len(numbers))] for kind, numbers in room.receptacles.items()}
        if all(any(counts[kind] for kind in group) for group in room.needs):
            return tuple(kind for kind, count in counts.items() for _ in range(count))


def _places(room: Room, kinds: Sequence[str], draws: Draws) -> tuple[int, ...]:
    """Draw which receptacles are reached from one place, and number the places."""
    place = list(range(len(kinds)))
    for kind, other, likely in room.together:
        anchors = [i for i, name in enumerate(kinds) if name == other]
        for i, name in enumerate(kinds):
            if name == kind and anchors and draws.uniform() < likely:
                place[i] = place[anchors[draws.below(len(anchors))]]
    number = {old: new for new, old in enumerate(dict.fromkeys(place))}
    return tuple(number[old] for old in place)
