"""Kinds of rooms, fixtures and things of generated houses, with the simulator's states and properties."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from agentgym.outside.text import tables_beside


@dataclass(frozen=True)
class Kind:
    """A class of objects; `dirty` is the probability that one is dirty at the start, None if it cannot be."""

    name: str
    category: str
    properties: tuple[str, ...]
    dirty: float | None = None


class Spot(NamedTuple):
    """A place of a thing: kind of fixture, ON or INSIDE, and relative frequency."""

    fixture: str
    relation: str
    weight: float


@dataclass(frozen=True)
class Stock:
    """Frequency of a thing in houses: probability of any, numbers of copies, and places."""

    kind: Kind
    likely: float
    copies: tuple[int, ...]
    spots: tuple[Spot, ...]


_LETTERS: Final = {
    "s": "SURFACES", "o": "CAN_OPEN", "c": "CONTAINERS", "w": "HAS_SWITCH", "p": "HAS_PLUG", "t": "SITTABLE",
    "l": "LIEABLE", "k": "LOOKABLE", "m": "MOVABLE", "g": "GRABBABLE", "r": "RECIPIENT", "u": "POURABLE",
    "d": "DRINKABLE", "e": "EATABLE", "x": "CUTTABLE", "v": "COVER_OBJECT", "y": "CLOTHES", "h": "HANGABLE",
    "b": "READABLE", "a": "HAS_PAPER",
}  # fmt: skip


def _kinds(category: str, table: str) -> dict[str, Kind]:
    """Read rows of "name: letters of properties, probability of dirty"."""
    kinds = {}
    for row in table.strip().splitlines():
        name, rest = row.strip().split(": ")
        letters, _, dirty = rest.partition(", ")
        properties = tuple([_LETTERS[letter] for letter in letters if letter != "-"])
        kinds[name] = Kind(name, category, properties, dirty=float(dirty) if dirty else None)
    return kinds


_TABLES = tables_beside(__file__, "catalogue.toml")
FURNITURE, APPLIANCES, ELECTRONICS, LAMPS, THINGS = (_kinds(*each) for each in _TABLES["kinds"].items())
#: Every kind by its name, without doors, hands and the character.
KINDS: Final = {**FURNITURE, **APPLIANCES, **ELECTRONICS, **LAMPS, **THINGS}


def _fixtures(text: str) -> tuple[tuple[str, int, int], ...]:
    rows = (row.split() for row in text.split(", "))
    return tuple((kind, int(fewest), int(most)) for kind, fewest, most in rows)


#: Fixtures of each kind of room: (kind, fewest, most).
ROOMS: Final = {room: _fixtures(text) for room, text in _TABLES["rooms"].items()}
#: The things that a seat or a bed faces in its room; the first present one counts.
VIEWS: Final[dict[str, tuple[str, ...]]] = {kind: tuple(faced) for kind, faced in _TABLES["views"].items()}


def _stock(table: str) -> tuple[Stock, ...]:
    """Read rows of "name likely copies: spots"; a spot is "fixture weight", with "/" for inside."""
    rows = []
    for row in table.strip().splitlines():
        head, places = row.strip().split(": ")
        name, likely, copies = head.split()
        spots = []
        for place in places.split(", "):
            fixture, weight = place.split()
            relation = "INSIDE" if fixture.endswith("/") else "ON"
            spots.append(Spot(fixture.removesuffix("/"), relation, float(weight)))
        rows.append(Stock(THINGS[name], float(likely), tuple(map(int, copies)), tuple(spots)))
    return tuple(rows)


_SPOTS = _TABLES["things"]["spots"]
#: Frequencies of things; lists of spots may name others.
STOCK: Final[tuple[Stock, ...]] = _stock(_TABLES["things"]["stock"].format(**_SPOTS).format(**_SPOTS))
