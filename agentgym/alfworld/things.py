"""Kinds of receptacles and objects, and which go together, in all 4,027 official games."""

from __future__ import annotations

#: Objects that a receptacle accepts, by type; 436 pairs.
CAN_CONTAIN: dict[str, tuple[str, ...]] = {
    name: tuple(words.split())
    for name, words in {
        "ArmChair": "Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
        "BathtubBasin": "Cloth DishSponge HandTowel SoapBar",
        "Bed": "BaseballBat BasketBall Book CellPhone Laptop Pillow TennisRacket",
        "Cabinet": (
            "Book Bowl Box CD Candle Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug Newspaper Pan "
            "PepperShaker Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Vase "
            "WateringCan WineBottle"
        ),
        "Cart": "Candle Cloth DishSponge HandTowel Plunger SoapBar SoapBottle SprayBottle TissueBox ToiletPaper",
        "CoffeeMachine": "Mug",
        "CoffeeTable": (
            "Book Bowl Box Candle CellPhone CreditCard KeyChain Laptop Newspaper Pen Pencil Plate RemoteControl "
            "Statue TissueBox Vase Watch WateringCan"
        ),
        "CounterTop": (
            "AlarmClock Apple Book Bowl Bread ButterKnife CD Candle CellPhone Cloth CreditCard Cup DishSponge Egg "
            "Fork Glassbottle HandTowel Kettle KeyChain Knife Ladle Laptop Lettuce Mug Pan Pen Pencil "
            "PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle "
            "Statue TissueBox ToiletPaper Tomato Vase WineBottle"
        ),
        "Desk": (
            "AlarmClock BasketBall Book Bowl Box CD CellPhone Cloth CreditCard KeyChain Laptop Mug Pen Pencil "
            "RemoteControl Statue TennisRacket TissueBox Vase Watch WateringCan"
        ),
        "DiningTable": (
            "AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife CD Candle CellPhone Cloth "
            "CreditCard Cup DishSponge Egg Fork Glassbottle Kettle KeyChain Knife Ladle Laptop Lettuce Mug "
            "Newspaper Pan Pen Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBottle Spatula "
            "Spoon SprayBottle Statue TennisRacket TissueBox Tomato Vase Watch WateringCan WineBottle"
        ),
        "Drawer": (
            "Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain Knife Ladle "
            "Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon "
            "SprayBottle TissueBox ToiletPaper Watch WateringCan"
        ),
        "Dresser": (
            "AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard KeyChain Laptop Mug "
            "Newspaper Pen Pencil Plate RemoteControl SprayBottle Statue TennisRacket TissueBox ToiletPaper Vase "
            "Watch WateringCan"
        ),
        "Fridge": "Apple Bowl Bread Cup Egg Glassbottle Lettuce Mug Pan Plate Pot Potato Tomato WineBottle",
        "GarbageCan": (
            "Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper Pen Pencil Potato SoapBar SoapBottle "
            "SprayBottle TissueBox ToiletPaper Tomato WineBottle"
        ),
        "HandTowelHolder": "HandTowel",
        "LaundryHamper": "Cloth",
        "Microwave": "Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato",
        "Ottoman": "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
        "Safe": "CD CellPhone CreditCard KeyChain Statue Vase Watch",
        "Shelf": (
            "AlarmClock Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup DishSponge Glassbottle HandTowel "
            "Kettle KeyChain Mug Newspaper Pen Pencil PepperShaker Plate Pot RemoteControl SaltShaker SoapBar "
            "SoapBottle SprayBottle Statue TissueBox ToiletPaper Vase Watch WateringCan WineBottle"
        ),
        "SideTable": (
            "AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife CD Candle CellPhone Cloth "
            "CreditCard Cup DishSponge Egg Fork HandTowel Kettle KeyChain Knife Laptop Lettuce Mug Newspaper Pan "
            "Pen Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon "
            "SprayBottle Statue TennisRacket TissueBox ToiletPaper Tomato Vase Watch WateringCan WineBottle"
        ),
        "SinkBasin": (
            "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife Ladle "
            "Lettuce Mug Pan Plate Pot Potato SoapBar Spatula Spoon Tomato"
        ),
        "Sofa": "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
        "StoveBurner": "Kettle Pan Pot",
        "TVStand": "TissueBox",
        "ToiletPaperHanger": "ToiletPaper",
        "Toilet": "Candle Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper",
        "TowelHolder": "Towel",
    }.items()
}

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
