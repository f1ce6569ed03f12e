"""Kinds of receptacles and objects, and which go together, in all 4,027 official games."""

from __future__ import annotations

import tomllib
from pathlib import Path

_TEXT = Path(__file__).with_name("things.toml").read_text("utf-8")
#: Objects that a receptacle accepts, by type; 436 pairs.
CAN_CONTAIN: dict[str, tuple[str, ...]] = {name: tuple(words.split()) for name, words in tomllib.loads(_TEXT).items()}

#: The same in lower case, as in games.
ACCEPTED: dict[str, frozenset[str]] = {
    name.lower(): frozenset(word.lower() for word in words) for name, words in CAN_CONTAIN.items()
}

#: Types of receptacles, in alphabetical order.
RECEPTACLE_TYPES: tuple[str, ...] = tuple(CAN_CONTAIN)

#: Receptacles that sometimes can be opened, and those that always can.
SOMETIMES_OPENABLE = frozenset({"Drawer", "Safe", "Cabinet"})
ALWAYS_OPENABLE = frozenset({"Fridge", "Microwave"})

_CUTLERY = "ButterKnife Cloth DishSponge Fork Kettle Knife Ladle SoapBar Spatula Spoon"
_FOOD = "Apple Egg Potato Tomato"
_DISHES = "Cup Mug Plate"
_POTS = "Bowl Pan Pot"
_FIXED = (
    "Bathtub Blinds Chair Curtains HousePlant LaundryHamperLid LightSwitch Mirror Painting Poster ShowerDoor "
    "ShowerGlass Sink StoveKnob Television Window"
)
_PLAIN = (
    "AlarmClock BaseballBat BasketBall Book Boots CD Candle CellPhone CreditCard Footstool Glassbottle HandTowel "
    "KeyChain Laptop Newspaper PaperTowelRoll Pen Pencil PepperShaker Pillow Plunger RemoteControl SaltShaker "
    "ScrubBrush SoapBottle SprayBottle Statue TeddyBear TennisRacket TissueBox ToiletPaper Towel Vase Watch WateringCan"
)
CLEANABLE = frozenset(f"{_CUTLERY} {_FOOD} {_DISHES} {_POTS} Lettuce".split())
HEATABLE = frozenset(f"{_FOOD} {_DISHES} Bread".split())
COOLABLE = frozenset(f"{_FOOD} {_DISHES} {_POTS} Bread Lettuce WineBottle".split())
SLICEABLE = frozenset(f"{_FOOD} Bread Lettuce".split())
VESSELS = frozenset(f"{_DISHES} {_POTS} Box".split())
TOGGLEABLE = frozenset({"DeskLamp", "FloorLamp"})
#: Objects that can be picked up (only about half of the official footstools can).
PICKUPABLE = frozenset(f"{_CUTLERY} {_FOOD} {_DISHES} {_POTS} {_PLAIN} Box Bread Lettuce WineBottle".split())
#: Types of objects, in alphabetical order.
OBJECT_TYPES: tuple[str, ...] = tuple(sorted({*PICKUPABLE, *TOGGLEABLE, *_FIXED.split()}))

_SPELLED: dict[str, str] = {name.lower(): name for name in (*RECEPTACLE_TYPES, *OBJECT_TYPES)}


def spelled(kind: str) -> str:
    """Return the name of a kind with its capitals ("tvstand": "TVStand"); an unknown kind is unchanged."""
    return _SPELLED.get(kind, kind)
