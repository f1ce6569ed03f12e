"""Kinds of rooms, fixtures and things of generated houses, with the simulator's states and properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


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


FURNITURE: Final = _kinds(
    "Furniture",
    """
    counter: s, .4
    kitchen_cupboard: oc
    drawer: oc
    sideboard: soc
    dining_table: s, .5
    chair: tsm
    coffee_table: sm, .5
    sofa: tlsm
    armchair: tm
    bookcase: s
    bed: tls
    nightstand: s
    wardrobe: oc
    dresser: soc
    desk: sm, .4
    filing_cabinet: oc
    shelf: s
    coat_stand: s
    bench: ts
    shoe_rack: s
    bathroom_cabinet: oc
    towel_rack: s
    laundry_basket: oc
    trash_can: oc, .3
    washbasin: rc, .5
    kitchen_sink: rc, .5
    bathtub: lr, .5
    toilet: to, .6
    mirror: k, .5
    """,
)
APPLIANCES: Final = _kinds(
    "Appliances",
    """
    fridge: ocp
    oven: ocw
    stove: sw, .5
    microwave: ocwp, .3
    dishwasher: ocwp
    coffee_machine: ocwp
    toaster: wp
    washing_machine: ocwp
    dryer: ocwp
    """,
)
ELECTRONICS: Final = _kinds(
    "Electronics",
    """
    television: kwp
    radio: wp
    computer: kw
    printer: wp
    fan: wpm
    """,
)
LAMPS: Final = _kinds(
    "Lamps",
    """
    ceiling_light: w
    floor_lamp: wpm
    bedside_lamp: wp
    desk_lamp: wpm
    """,
)
THINGS: Final = _kinds(
    "Things",
    """
    mug: grum, .4
    glass: grum, .4
    plate: grsm, .5
    bowl: grm, .5
    fork: gm, .4
    spoon: gm, .4
    knife: gm, .3
    pan: grm, .5
    apple: gexm
    bread: gexm
    cheese: gexm
    tomato: gexm
    sandwich: gem
    fish: gexm
    milk: gudm
    juice: gudm
    tea: gudm
    sponge: gm, .3
    dish_cloth: gvm, .4
    detergent: gum
    novel: gbam
    magazine: gbam
    newspaper: gbaxm
    notebook: gbam
    phone: gwm
    remote_control: gm
    keyboard: gm
    pen: gm
    jacket: gyhm, .3
    shirt: gyhm, .5
    trousers: gyhm, .5
    hat: gyhm
    scarf: gyhm
    towel: gvhm, .5
    pillow: gvm
    blanket: gvm
    toothbrush: gm
    soap: gm
    shampoo: gum
    candle: gm
    teddy_bear: gm, .4
    basket: grcm
    """,
)
#: Every kind by its name, without doors, hands and the character.
KINDS: Final = {**FURNITURE, **APPLIANCES, **ELECTRONICS, **LAMPS, **THINGS}

#: Fixtures of each kind of room: (kind, fewest, most).
ROOMS: Final[dict[str, tuple[tuple[str, int, int], ...]]] = {
    "kitchen": (
        ("counter", 1, 2), ("kitchen_cupboard", 1, 2), ("drawer", 0, 1), ("kitchen_sink", 1, 1), ("fridge", 1, 1),
        ("oven", 0, 1), ("stove", 1, 1), ("microwave", 0, 1), ("dishwasher", 0, 1), ("coffee_machine", 0, 1),
        ("toaster", 0, 1), ("trash_can", 0, 1), ("ceiling_light", 1, 1),
    ),
    "dining_room": (
        ("dining_table", 1, 1), ("chair", 2, 4), ("sideboard", 0, 1), ("radio", 0, 1), ("ceiling_light", 1, 1),
        ("bookcase", 0, 1),
    ),
    "living_room": (
        ("sofa", 1, 1), ("armchair", 0, 2), ("coffee_table", 1, 1), ("television", 1, 1), ("bookcase", 0, 1),
        ("radio", 0, 1), ("floor_lamp", 0, 2), ("fan", 0, 1), ("ceiling_light", 1, 1),
    ),
    "bedroom": (
        ("bed", 1, 1), ("nightstand", 1, 2), ("bedside_lamp", 0, 2), ("wardrobe", 1, 1), ("dresser", 0, 1),
        ("mirror", 0, 1), ("armchair", 0, 1), ("ceiling_light", 1, 1),
    ),
    "bathroom": (
        ("washbasin", 1, 1), ("bathtub", 0, 1), ("toilet", 1, 1), ("bathroom_cabinet", 1, 1), ("towel_rack", 0, 1),
        ("mirror", 0, 1), ("laundry_basket", 0, 1), ("ceiling_light", 1, 1),
    ),
    "study": (
        ("desk", 1, 1), ("chair", 1, 1), ("computer", 1, 1), ("desk_lamp", 0, 1), ("printer", 0, 1),
        ("filing_cabinet", 0, 1), ("bookcase", 0, 1), ("ceiling_light", 1, 1),
    ),
    "hall": (
        ("coat_stand", 1, 1), ("shoe_rack", 0, 1), ("bench", 0, 1), ("shelf", 1, 1), ("washing_machine", 0, 1),
        ("dryer", 0, 1), ("mirror", 0, 1), ("ceiling_light", 1, 1),
    ),
}  # fmt: skip
#: The things that a seat or a bed faces in its room; the first present one counts.
VIEWS: Final[dict[str, tuple[str, ...]]] = {
    "sofa": ("television",),
    "armchair": ("television", "mirror"),
    "chair": ("computer", "dining_table"),
    "bench": ("mirror",),
    "bed": ("mirror",),
}

_ON_TABLES = "counter 2, dining_table 2, coffee_table 1, sideboard 1"
_DISHES = "kitchen_cupboard/ 3, dishwasher/ 2, kitchen_sink/ 1, " + _ON_TABLES
_FOOD = "fridge/ 3, counter 2, dining_table 1, microwave/ .5"
_PAPER = "bookcase 2, coffee_table 2, nightstand 1, desk 2, shelf 1, counter .5"
_CLOTHES = "wardrobe/ 3, dresser/ 2, coat_stand 2, bed 1, laundry_basket/ 1, washing_machine/ .5"
_BATH = "bathroom_cabinet/ 2, shelf .5, nightstand .5, towel_rack .5, counter .3"


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


#: Frequencies of things.
STOCK: Final[tuple[Stock, ...]] = _stock(
    f"""
    mug .9 123: {_DISHES}
    glass .9 123: {_DISHES}
    plate 1 234: {_DISHES}
    bowl .7 12: {_DISHES}
    fork .9 123: drawer/ 3, {_DISHES}
    spoon .7 12: drawer/ 3, {_DISHES}
    knife .6 12: drawer/ 3, {_DISHES}
    pan .6 1: kitchen_cupboard/ 2, stove 2, kitchen_sink/ 1, counter 1
    apple .7 12: {_FOOD}, coffee_table .5
    bread .6 1: {_FOOD}, kitchen_cupboard/ 1
    cheese .6 1: {_FOOD}
    tomato .5 12: {_FOOD}
    sandwich .5 1: {_FOOD}, coffee_table .5
    fish .4 1: {_FOOD}
    milk .7 1: {_FOOD}
    juice .6 1: {_FOOD}
    tea .5 1: kitchen_cupboard/ 2, counter 1, coffee_table 1
    sponge .7 1: kitchen_sink/ 2, counter 1, bathroom_cabinet/ 1
    dish_cloth .7 12: kitchen_sink/ 1, counter 2, drawer/ 1, towel_rack 1
    detergent .4 1: kitchen_cupboard/ 1, shelf 1, bathroom_cabinet/ 1
    novel .8 12: {_PAPER}
    magazine .6 12: {_PAPER}
    newspaper .5 1: {_PAPER}, trash_can/ .3
    notebook .5 1: {_PAPER}, filing_cabinet/ 1
    phone .6 1: coffee_table 1, nightstand 2, desk 1, shelf 1
    remote_control .6 1: coffee_table 3, bookcase 1
    keyboard 1 1: desk 1
    pen .6 12: desk 3, nightstand 1, shelf 1, filing_cabinet/ 1
    jacket .7 1: {_CLOTHES}
    shirt .8 12: {_CLOTHES}
    trousers .6 12: {_CLOTHES}
    hat .5 1: {_CLOTHES}, shoe_rack .5
    scarf .5 1: {_CLOTHES}, shoe_rack .5
    towel .8 12: towel_rack 3, bathroom_cabinet/ 1, laundry_basket/ 1, washing_machine/ .5
    pillow .6 12: bed 3, sofa 1, wardrobe/ 1
    blanket .4 1: bed 1, sofa 1, wardrobe/ 2
    toothbrush .7 1: {_BATH}
    soap .7 1: {_BATH}, washbasin/ 1
    shampoo .5 1: {_BATH}
    candle .5 1: dining_table 1, coffee_table 1, sideboard 1, shelf 1
    teddy_bear .4 1: bed 2, sofa 1, shelf 1, wardrobe/ 1
    basket .3 1: shelf 1, counter 1, wardrobe/ 1
    """
)
