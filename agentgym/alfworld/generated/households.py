"""Generated rooms: receptacles, their locations, and their objects, by rounded counts over the official train split.

A layout's scene number depends on the seed alone. A hash of its receptacles assigns it to training or to testing.
"""

from __future__ import annotations

import hashlib
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, count

import numpy as np

from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TWO, mask, numbered
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
    for line in sorted(text.strip().splitlines()):
        kind, percent, copies, *where = line.split()
        pairs = tuple(zip(where[::2], map(float, where[1::2]), strict=True))
        table[kind] = Stock(int(percent) / 100, tuple(map(int, copies)), pairs)
    return table


KITCHEN = Room(
    scenes=1,
    receptacles=_counts("""
        cabinet 4 8 9 10 11 13 13 15 18 20 21 25
        coffeemachine 1
        countertop 1 1 2 2 2 2 3 3 3 4
        diningtable 0 0 0 0 1 1 1 1 1 2
        drawer 1 3 3 4 4 5 6 6 8 10 12
        fridge 1
        garbagecan 1
        microwave 1
        shelf 0 0 0 0 0 3
        sidetable 0 0 0 0 0 0 0 0 1
        sinkbasin 1
        stoveburner 4
        toaster 1
    """),
    together=(
        ("cabinet", "cabinet", 0.08),
        ("coffeemachine", "countertop", 0.2),
        ("drawer", "cabinet", 0.02),
        ("drawer", "drawer", 0.1),
        ("garbagecan", "cabinet", 0.04),
        ("stoveburner", "stoveburner", 0.4),
        ("toaster", "countertop", 0.3),
    ),
    closing={"cabinet": 0.81, "drawer": 0.82, "fridge": 1, "microwave": 1},
    needs=(),
    stock=_stock("""
        apple 99 123 countertop 25 fridge 24 diningtable 27 microwave 13 garbagecan 12 sinkbasin 9 sidetable 17
        book 11 1122 countertop 65 cabinet 14 diningtable 19 drawer 5 shelf 4
        bowl 99 123 cabinet 36 countertop 21 fridge 20 diningtable 27 sinkbasin 3 microwave 3 shelf 8 sidetable 4
        bread 99 1122 countertop 55 diningtable 55 fridge 12 sidetable 6
        butterknife 95 1223 countertop 59 diningtable 46 drawer 8 sinkbasin 5 sidetable 16
        cellphone 11 123 countertop 41 diningtable 48 drawer 43
        creditcard 9 123 countertop 46 drawer 37 shelf 23
        cup 99 123 cabinet 23 countertop 21 fridge 21 diningtable 25 sinkbasin 9 microwave 7 sidetable 17 shelf 10
        dishsponge 99 123 countertop 26 cabinet 24 drawer 22 diningtable 23 sinkbasin 7 garbagecan 5 shelf 13
        egg 99 123 fridge 25 countertop 24 sinkbasin 13 garbagecan 13 microwave 12 diningtable 21 sidetable 14
        fork 98 123 countertop 44 diningtable 41 drawer 23 sinkbasin 9 sidetable 15
        glassbottle 23 123 cabinet 31 countertop 27 diningtable 30 sinkbasin 9 fridge 9 shelf 13
        houseplant 36 1 countertop 77 diningtable 47
        kettle 52 12 stoveburner 41 countertop 25 cabinet 24 diningtable 17 sinkbasin 2 shelf 2
        knife 98 1223 countertop 48 diningtable 44 drawer 21 sinkbasin 5 sidetable 8
        ladle 35 123 countertop 42 cabinet 25 drawer 19 diningtable 31 sinkbasin 2
        lettuce 98 1223 countertop 41 diningtable 50 fridge 23 sinkbasin 5 sidetable 14
        mug 98 1223 countertop 33 coffeemachine 21 cabinet 19 fridge 16 diningtable 22 microwave 9 sinkbasin 7 shelf 8
        pan 99 1112 stoveburner 68 countertop 44 cabinet 9 diningtable 10 fridge 5
        papertowelroll 35 1 countertop 57 diningtable 41 garbagecan 15 shelf 30 sidetable 23
        pen 6 123 countertop 39 diningtable 63 drawer 21 garbagecan 5
        pencil 7 1223 drawer 41 countertop 30 diningtable 40 garbagecan 10
        peppershaker 99 123 cabinet 33 countertop 30 diningtable 29 drawer 15 shelf 16 sidetable 21
        plate 97 1223 cabinet 40 countertop 30 diningtable 28 fridge 9 sinkbasin 2 shelf 8
        pot 99 1122 stoveburner 87 countertop 17 fridge 5 diningtable 9 cabinet 4 shelf 2
        potato 99 123 countertop 28 fridge 26 diningtable 28 sinkbasin 11 microwave 10 garbagecan 6 sidetable 12
        saltshaker 99 123 countertop 32 cabinet 32 diningtable 31 drawer 14 shelf 14 sidetable 22
        soapbottle 99 123 countertop 32 cabinet 31 diningtable 36 garbagecan 10 shelf 17 sidetable 14
        spatula 99 123 countertop 45 diningtable 43 drawer 22 sinkbasin 9 sidetable 6
        spoon 99 123 countertop 38 drawer 28 diningtable 38 sinkbasin 11 sidetable 16
        spraybottle 7 1223 countertop 33 cabinet 33 diningtable 39 garbagecan 12
        statue 15 1223 countertop 51 shelf 44 diningtable 12
        tomato 99 123 fridge 33 countertop 30 diningtable 34 garbagecan 9 sinkbasin 7 sidetable 15
        vase 15 23 countertop 34 shelf 32 cabinet 31 diningtable 10
        winebottle 42 123 countertop 37 cabinet 25 diningtable 35 garbagecan 9 shelf 8
    """),
    tasks={PICK: 10, CLEAN: 77, HEAT: 100, COOL: 100, TWO: 15},
)

LIVING_ROOM = Room(
    scenes=201,
    receptacles=_counts("""
        armchair 0 1 1 1 1 1 1 2 2 2
        cabinet 0 0 0 0 0 0 0 0 2 6
        coffeetable 0 1 1 1 1 1 1 2
        desk 0 0 0 0 0 0 0 0 0 0 0 1
        diningtable 0 0 0 1 1 1
        drawer 0 0 1 1 4 4 6 7 12
        dresser 0 0 1
        garbagecan 1
        ottoman 0 0 0 0 0 1
        safe 0 0 0 0 0 0 0 0 0 1
        shelf 0 0 0 0 1 3 4 6 8 13
        sidetable 0 1 1 1 2 2 3 3
        sofa 1 1 1 1 2
        tvstand 0 0 0 1 1
    """),
    together=(
        ("drawer", "drawer", 0.08),
        ("drawer", "sidetable", 0.03),
        ("shelf", "tvstand", 0.05),
        ("garbagecan", "tvstand", 0.05),
    ),
    closing={"cabinet": 0.92, "drawer": 0.96, "safe": 1},
    needs=(("coffeetable", "sidetable"),),
    stock=_stock("""
        book 26 1223 coffeetable 32 dresser 36 sofa 17 armchair 11 diningtable 24 sidetable 8
        bowl 11 1223 diningtable 55 coffeetable 27 sidetable 13 shelf 23 tvstand 40
        box 86 112 diningtable 51 sofa 24 coffeetable 27 sidetable 10 cabinet 23 shelf 11 dresser 9 ottoman 9 desk 22
        candle 9 23 sidetable 51 coffeetable 28 diningtable 20 drawer 18 dresser 12 tvstand 10
        cellphone 21 123 dresser 25 sidetable 18 coffeetable 20 sofa 14 drawer 13 diningtable 18 ottoman 21 shelf 21
        creditcard 99 123 sofa 19 coffeetable 18 drawer 17 armchair 14 sidetable 13 diningtable 20 dresser 18 shelf 14
        desklamp 25 1 sidetable 90 coffeetable 10
        houseplant 66 1 sidetable 59 coffeetable 30 dresser 24 diningtable 12 tvstand 21
        keychain 92 1223 coffeetable 24 sidetable 19 drawer 20 sofa 12 armchair 10 diningtable 16 tvstand 14 safe 10
        laptop 99 112 sofa 27 coffeetable 30 diningtable 41 dresser 23 sidetable 9 armchair 5 ottoman 10 desk 18
        newspaper 62 123 sofa 20 coffeetable 22 diningtable 32 sidetable 16 shelf 25 dresser 29 armchair 8 ottoman 13
        pen 20 123 coffeetable 34 dresser 36 sidetable 20 drawer 6 garbagecan 4 shelf 24 diningtable 16 tvstand 12
        pencil 16 123 sidetable 32 coffeetable 27 drawer 10 dresser 18 garbagecan 6 shelf 32 diningtable 10 tvstand 12
        pillow 99 11112 sofa 80 armchair 21
        plate 35 12 diningtable 62 coffeetable 24 shelf 40 sidetable 13 dresser 6
        remotecontrol 97 123 coffeetable 29 sofa 19 sidetable 16 diningtable 22 dresser 22 armchair 9 tvstand 16
        statue 96 23 coffeetable 31 shelf 38 diningtable 37 sidetable 26 dresser 25 desk 11 tvstand 18
        television 71 1 tvstand 100 dresser 90 coffeetable 9 sidetable 3
        tissuebox 34 123 coffeetable 46 diningtable 30 sidetable 19 shelf 29 tvstand 22 drawer 4 dresser 10
        vase 49 233 shelf 53 coffeetable 24 diningtable 26 sidetable 20 dresser 71 cabinet 11 tvstand 10
        watch 49 123 coffeetable 27 drawer 27 sidetable 21 diningtable 27 dresser 26 shelf 23 tvstand 20
        wateringcan 9 1122 coffeetable 53 shelf 38 sidetable 9
    """),
    tasks={PICK: 27, LOOK: 17, TWO: 27},
)

BEDROOM = Room(
    scenes=301,
    receptacles=_counts("""
        armchair 0 0 0 0 1
        bed 1 1 1 1 1 1 2
        cabinet 0 0 0 0 0 0 2 4
        countertop 0 0 0 0 0 0 0 0 0 0 1
        desk 0 1 1
        diningtable 0 0 0 0 0 1
        drawer 2 2 2 3 4 5 5 6 8 10 12
        dresser 0 1
        garbagecan 1
        laundryhamper 0 0 0 1
        safe 0 0 0 0 0 1
        shelf 0 0 0 1 1 2 4 5 8
        sidetable 0 0 1 1 1 2
    """),
    together=(
        ("drawer", "desk", 0.02),
        ("drawer", "drawer", 0.12),
        ("drawer", "dresser", 0.03),
        ("drawer", "sidetable", 0.02),
        ("shelf", "cabinet", 0.02),
        ("shelf", "shelf", 0.1),
    ),
    closing={"cabinet": 1, "drawer": 0.81, "safe": 0.75},
    needs=(("desk", "dresser", "sidetable"),),
    stock=_stock("""
        alarmclock 99 1122 desk 47 shelf 31 sidetable 30 dresser 38 diningtable 56 countertop 34
        book 99 1223 bed 51 desk 28 drawer 12 dresser 11 sidetable 6 cabinet 15 diningtable 20 armchair 10
        bowl 45 1122 desk 62 shelf 38 dresser 29 diningtable 36 sidetable 6 countertop 29
        box 9 1 desk 58 shelf 42
        cd 93 123 drawer 29 desk 29 dresser 30 sidetable 20 garbagecan 8 shelf 11 diningtable 50 cabinet 15 safe 4
        cellphone 99 123 bed 29 desk 25 drawer 17 dresser 22 sidetable 15 shelf 11 diningtable 26 armchair 17 safe 12
        creditcard 99 123 drawer 30 shelf 27 desk 26 sidetable 24 dresser 26 diningtable 24 armchair 17 countertop 22
        desklamp 71 1 desk 42 sidetable 53 dresser 45 shelf 16
        houseplant 23 1 shelf 63 desk 54 cabinet 60 dresser 37
        keychain 98 123 drawer 28 desk 26 sidetable 25 shelf 23 dresser 30 diningtable 33 safe 24 armchair 17
        laptop 99 1122 bed 74 desk 26 dresser 8 diningtable 17 armchair 6 countertop 26
        mug 49 1223 desk 54 shelf 30 sidetable 27 dresser 28 diningtable 45 cabinet 20 countertop 20
        pen 99 123 desk 40 drawer 19 shelf 23 dresser 32 sidetable 22 diningtable 49 garbagecan 2 countertop 28
        pencil 99 123 desk 33 drawer 19 sidetable 27 shelf 25 dresser 26 diningtable 50 garbagecan 5 countertop 32
        pillow 99 1122 bed 97 armchair 3
        remotecontrol 12 1223 drawer 34 desk 39 sidetable 15 countertop 33 armchair 10 diningtable 18 dresser 10
        statue 15 112 shelf 43 dresser 41 desk 50 sidetable 24
        teddybear 27 1 bed 100
        tissuebox 14 1223 desk 45 drawer 26 diningtable 81 shelf 14 sidetable 13 dresser 5
        vase 6 123 shelf 45 dresser 36 desk 21 sidetable 9
        watch 7 123 drawer 31 shelf 20 diningtable 38 desk 27 dresser 19 sidetable 15
    """),
    tasks={PICK: 30, LOOK: 83, TWO: 30},
)

BATHROOM = Room(
    scenes=401,
    receptacles=_counts("""
        bathtubbasin 0 0 1 1 1 1 1
        cabinet 0 0 0 0 2 3 4 4 4 5
        cart 0 0 0 0 0 0 0 0 0 1
        countertop 0 1 1 1 1 1 2
        drawer 0 0 0 0 1 2 4 4 6 8
        dresser 0 0 0 0 0 0 0 0 0 1
        garbagecan 1
        handtowelholder 1 1 1 2 2
        shelf 0 0 0 0 0 0 1 1 2 3
        sidetable 0 0 0 0 0 0 0 0 0 1
        sinkbasin 1 2
        toilet 1
        toiletpaperhanger 1
        towelholder 1 1 2
    """),
    together=(
        ("cabinet", "cabinet", 0.12),
        ("drawer", "drawer", 0.2),
        ("garbagecan", "toiletpaperhanger", 0.04),
        ("handtowelholder", "towelholder", 0.03),
    ),
    closing={"cabinet": 0.98, "drawer": 0.84},
    needs=(("cabinet", "countertop", "drawer", "shelf"),),
    stock=_stock("""
        candle 97 123 countertop 35 toilet 30 cabinet 31 drawer 22 shelf 28 sidetable 45 cart 21 dresser 15
        cloth 99 123 bathtubbasin 42 cabinet 46 countertop 19 drawer 25 sinkbasin 8 shelf 16 toilet 3 cart 17
        dishsponge 23 123 countertop 23 drawer 27 bathtubbasin 21 sinkbasin 10 shelf 19 toilet 8 cart 14 cabinet 19
        handtowel 99 11112 handtowelholder 96 countertop 4
        papertowelroll 13 1 countertop 45 toilet 31 shelf 40 garbagecan 11 cart 26
        soapbar 97 123 countertop 22 toilet 16 sinkbasin 15 cabinet 27 bathtubbasin 18 drawer 19 garbagecan 7 shelf 16
        soapbottle 96 1223 countertop 34 toilet 24 cabinet 43 shelf 36 garbagecan 9 drawer 5 sidetable 23 cart 13
        spraybottle 99 123 countertop 37 toilet 27 cabinet 36 garbagecan 10 shelf 26 cart 40 sidetable 48 dresser 20
        tissuebox 25 1223 countertop 43 shelf 52 drawer 26 cabinet 26 cart 20 sidetable 85 toilet 3
        toiletpaper 99 1223 toilet 23 countertop 26 toiletpaperhanger 12 drawer 20 cabinet 25 garbagecan 9 shelf 22
        towel 99 11112 towelholder 99
    """),
    tasks={PICK: 33, CLEAN: 23, TWO: 29},
)

ROOMS: dict[str, Room] = {"kitchen": KITCHEN, "living room": LIVING_ROOM, "bedroom": BEDROOM, "bathroom": BATHROOM}

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
