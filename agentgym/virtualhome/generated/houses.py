"""Generated houses: rooms, doors, fixtures and things, as a function of split and number.

A hash of rooms and fixtures decides the split, so splits share no house.
"""

import hashlib
from bisect import bisect
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from typing import Final, NamedTuple

from agentgym.tasks import Draws
from agentgym.virtualhome.activity import Lexicon
from agentgym.virtualhome.generated.catalogue import KINDS, ROOMS, STOCK, VIEWS, Kind, Stock
from agentgym.virtualhome.scene import Edge, Node, Scene

#: Splits, with the sides of their houses.
SPLITS: Final[dict[str, tuple[int, ...]]] = {"train": (0, 1), "valid_seen": (2,), "valid_unseen": (3,)}
_SIDES = 4
#: Probabilities at the start: a container is open, a door closed, a device on, its plug out.
_OPEN, _SHUT_DOOR, _ON, _UNPLUGGED = 0.25, 0.1, 0.25, 0.3
_FEWEST_ROOMS, _MOST_ROOMS = 3, 5
#: Neighbours that a fixture draws in its room.
_NEIGHBOURS = 2
_DOOR = Kind("door", "Doors", ("CAN_OPEN",))
_CHARACTER = Kind("character", "Characters", ())
_HANDS = Kind("hands", "Body", ("BODY_PART",), dirty=0.7)


@dataclass(frozen=True, eq=False)
class House:
    """A house at the start.

    `scene`: rooms, fixtures, doors, the character and its hands, then things, with ids from 1 in this order; `states`,
    `rooms`: of each node, by id; `of_class`: ids of each class, ascending; `places`: (relation, fixture) of each thing.
    """

    scene: Scene
    states: dict[int, tuple[str, ...]]
    of_class: dict[str, list[int]]
    places: dict[int, tuple[str, int]]
    rooms: dict[int, int]

    @cached_property
    def lexicon(self) -> Lexicon:
        return Lexicon(self.scene)


class _Layout(NamedTuple):
    rooms: tuple[str, ...]
    doors: list[tuple[int, int]]
    fixtures: list[tuple[str, int]]

    def side(self) -> int:
        text = repr((sorted(self.rooms), sorted(kind for kind, _ in self.fixtures)))
        return hashlib.blake2b(text.encode(), digest_size=1).digest()[0] % _SIDES


@lru_cache(maxsize=1024)
def house(split: str, number: int, seed: int = 0) -> House:
    """Return a house by its split and its number from 0; houses are cached."""
    return _Builder(Draws.seeded(seed, list(SPLITS).index(split), number), SPLITS[split]).house()


def _layout(draws: Draws) -> _Layout:
    count = _FEWEST_ROOMS + draws.below(_MOST_ROOMS - _FEWEST_ROOMS + 1)
    rooms = ("kitchen", *draws.sample([name for name in ROOMS if name != "kitchen"], count - 1))
    doors = [(draws.below(i), i) for i in range(1, count)]
    doors.append(draws.pick([pair for pair in combinations(range(count), 2) if pair not in doors]))
    fixtures = []
    for position, room in enumerate(rooms):
        for kind, fewest, most in ROOMS[room]:
            fixtures += [(kind, position)] * (fewest + draws.below(most - fewest + 1) if most > fewest else most)
    return _Layout(rooms, doors, fixtures)


@dataclass
class _Builder:
    draws: Draws
    sides: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    of_class: dict[str, list[int]] = field(default_factory=dict)
    places: dict[int, tuple[str, int]] = field(default_factory=dict)
    rooms: dict[int, int] = field(default_factory=dict)

    def house(self) -> House:
        layout = _layout(self.draws)
        while layout.side() not in self.sides:
            layout = _layout(self.draws)
        for room in layout.rooms:
            self._add(Kind(room, "Rooms", ()), ())
        for kind, position in layout.fixtures:
            self._add(KINDS[kind], self._states(KINDS[kind]), position + 1)
        for pair in layout.doors:
            shut = self.draws.uniform() < _SHUT_DOOR
            door = self._add(_DOOR, ("CLOSED" if shut else "OPEN",), pair[0] + 1)
            self.edges += [(door, "BETWEEN", position + 1) for position in pair]
        start = 1 + self.draws.below(len(layout.rooms))
        self._add(_CHARACTER, (), start)
        self._add(_HANDS, self._states(_HANDS), start)
        self._arrange()
        for stock in STOCK:
            if stock.likely == 1 or self.draws.uniform() < stock.likely:
                self._place(stock)
        self._gather()
        states = {node.id: node.states for node in self.nodes}
        return House(Scene(self.nodes, self.edges), states, self.of_class, self.places, self.rooms)

    def _add(self, kind: Kind, states: tuple[str, ...], room: int = 0) -> int:
        number = len(self.nodes) + 1
        self.nodes.append(Node(number, kind.name, kind.category, kind.properties, states))
        self.of_class.setdefault(kind.name, []).append(number)
        if room:
            self.rooms[number] = room
            self.edges.append((number, "INSIDE", room))
        return number

    def _states(self, kind: Kind) -> tuple[str, ...]:
        uniform, properties, states = self.draws.uniform, kind.properties, []
        on = "HAS_SWITCH" in properties and uniform() < _ON
        if "CAN_OPEN" in properties:
            states.append("OPEN" if not on and uniform() < _OPEN else "CLOSED")
        if "HAS_SWITCH" in properties:
            states.append("ON" if on else "OFF")
        if "HAS_PLUG" in properties:
            states.append("PLUGGED_OUT" if not on and uniform() < _UNPLUGGED else "PLUGGED_IN")
        if kind.dirty is not None:
            states.append("DIRTY" if uniform() < kind.dirty else "CLEAN")
        return tuple(states)

    def _arrange(self) -> None:
        standing: dict[int, list[int]] = {}
        for number, room in self.rooms.items():
            if self.nodes[number - 1].class_name not in ("door", "character", "hands"):
                standing.setdefault(room, []).append(number)
        pairs: dict[tuple[int, int], None] = {}
        for fixtures in standing.values():
            kinds = {self.nodes[number - 1].class_name: number for number in fixtures}
            for number in fixtures:
                for _ in range(_NEIGHBOURS):
                    other = self.draws.pick(fixtures)
                    if other != number:
                        pairs[number, other] = pairs[other, number] = None
                seen = VIEWS.get(self.nodes[number - 1].class_name, ())
                view = next((kinds[kind] for kind in seen if kind in kinds), None)
                if view is not None:
                    self.edges.append((number, "FACING", view))
        self.edges += [(one, "CLOSE", other) for one, other in pairs]

    def _place(self, stock: Stock) -> None:
        spots = [(spot, self.of_class[spot.fixture]) for spot in stock.spots if spot.fixture in self.of_class]
        if not spots:
            return
        totals = list(accumulate(spot.weight for spot, _ in spots))
        for _ in range(self.draws.pick(stock.copies)):
            spot, fixtures = spots[bisect(totals, self.draws.uniform() * totals[-1])]
            fixture = self.draws.pick(fixtures)
            number = self._add(stock.kind, self._states(stock.kind), self.rooms[fixture])
            self.places[number] = spot.relation, fixture
            self.edges.append((number, spot.relation, fixture))

    def _gather(self) -> None:
        together: dict[int, list[int]] = {}
        for number, (_, fixture) in self.places.items():
            here = together.setdefault(fixture, [fixture])
            for other in here:
                self.edges += [(number, "CLOSE", other), (other, "CLOSE", number)]
            here.append(number)
