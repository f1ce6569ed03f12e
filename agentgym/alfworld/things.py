"""Kinds of receptacles and objects, and which go together, in all 4,027 official games."""

from agentgym.outside.text import tables_beside

_TABLES = tables_beside(__file__, "things.toml")
#: Objects that a receptacle accepts, by type; 436 pairs.
CAN_CONTAIN: dict[str, tuple[str, ...]] = {name: tuple(words.split()) for name, words in _TABLES["accepted"].items()}
#: The same in lower case, as in games.
ACCEPTED: dict[str, frozenset[str]] = {
    name.lower(): frozenset(word.lower() for word in words) for name, words in CAN_CONTAIN.items()
}
#: Types of receptacles, in alphabetical order.
RECEPTACLE_TYPES: tuple[str, ...] = tuple(CAN_CONTAIN)
#: Receptacles that sometimes can be opened, and those that always can.
SOMETIMES_OPENABLE = frozenset({"Drawer", "Safe", "Cabinet"})
ALWAYS_OPENABLE = frozenset({"Fridge", "Microwave"})

#: Properties of objects, as the facts of a game name them.
FLAGS = ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable")
_CUTLERY, _FOOD, _DISHES, _POTS, _FIXED, _PLAIN = (frozenset(words.split()) for words in _TABLES["kinds"].values())
CLEANABLE = _CUTLERY | _FOOD | _DISHES | _POTS | {"Lettuce"}
HEATABLE = _FOOD | _DISHES | {"Bread"}
COOLABLE = _FOOD | _DISHES | _POTS | {"Bread", "Lettuce", "WineBottle"}
SLICEABLE = _FOOD | {"Bread", "Lettuce"}
VESSELS = _DISHES | _POTS | {"Box"}
TOGGLEABLE = frozenset({"DeskLamp", "FloorLamp"})
#: Objects that can be picked up (only about half of the official footstools can).
PICKUPABLE = _CUTLERY | _FOOD | _DISHES | _POTS | _PLAIN | {"Box", "Bread", "Lettuce", "WineBottle"}
#: Types of objects, in alphabetical order.
OBJECT_TYPES: tuple[str, ...] = tuple(sorted(PICKUPABLE | TOGGLEABLE | _FIXED))

_SPELLED: dict[str, str] = {name.lower(): name for name in (*RECEPTACLE_TYPES, *OBJECT_TYPES)}


def spelled(kind: str) -> str:
    """Return the name of a kind with its capitals ("tvstand": "TVStand"); an unknown kind is unchanged."""
    return _SPELLED.get(kind, kind)
