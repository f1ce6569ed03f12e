"""Opening, switching, plugging, washing, looking and the rest: what is done with a thing where it is."""

from __future__ import annotations

from functools import partial
from typing import Final

from agentgym.virtualhome.household import Household, OriginalError, Refused, Rule
from agentgym.virtualhome.scene import (
    CLEAN,
    DIRTY,
    FACING,
    IS_CLOSED,
    IS_OFF,
    IS_ON,
    IS_OPEN,
    PLUGGED_IN,
    PLUGGED_OUT,
)

#: What is done to nodes of these classes though they have not the property.
OPENED_ALSO: Final = ("desk", "window")
MOVED_ALSO: Final = ("chair", "curtain", "button")
SQUEEZED_ALSO: Final = (
    "cleaning_solution", "tooth_paste", "shampoo", "food_peanut_butter", "dish_soap", "soap", "towel", "rag", "paper",
    "sponge", "food_lemon", "check",
)  # fmt: skip


def check_open(home: Household, node: int) -> None:
    """Need something closed that can be opened, and a free hand."""
    home.need("CAN_OPEN", node, "can not be opened", OPENED_ALSO)
    home.need_near(node)
    home.need_hand()
    _need_state(home, node, IS_CLOSED, "closed")
    if home.states(node) & IS_ON:
        raise Refused(f"{home.scene.shown[node]} is still on")


def check_close(home: Household, node: int) -> None:
    """Need something open."""
    home.need("CAN_OPEN", node, "can not be opened", OPENED_ALSO)
    home.need_near(node)
    _need_state(home, node, IS_OPEN, "open")


def check_switch_on(home: Household, node: int) -> None:
    """Need something off that is not plugged out."""
    home.need("HAS_SWITCH", node, "does not have a switch")
    home.need_near(node)
    _need_state(home, node, IS_OFF, "off")
    if home.states(node) & PLUGGED_OUT:
        raise Refused(f"{home.scene.shown[node]} is unplugged")


def check_switch_off(home: Household, node: int) -> None:
    """Need something on."""
    home.need("HAS_SWITCH", node, "does not have a switch")
    home.need_near(node)
    _need_state(home, node, IS_ON, "on")


def check_plug_in(home: Household, node: int) -> None:
    """Need something plugged out, and a free hand."""
    home.need("HAS_PLUG", node, "does not have a plug")
    home.need_near(node)
    home.need_hand()
    _need_state(home, node, PLUGGED_OUT, "plugged_out")


def check_plug_out(home: Household, node: int) -> None:
    """Need something plugged in, and a free hand; what is on is complained about and plugged out all the same."""
    home.need("HAS_PLUG", node, "does not have a plug")
    home.need_near(node)
    home.need_hand()
    _need_state(home, node, PLUGGED_IN, "plugged_in")
    if home.states(node) & IS_ON:
        home.messages.append(f"{home.scene.shown[node]} is still on")


def check_wash(home: Household, node: int) -> None:
    """Need something near."""
    home.need_near(node)


def check_wipe(home: Household, node: int) -> None:
    """Need something near, and anything in a hand."""
    home.need_near(node)
    if not home.held():
        raise Refused(f"{home.me} does not hold anything in hands")


def check_face(home: Household, node: int) -> None:
    """Need to face something."""
    if not home.faces(node):
        raise Refused(f"{home.me} does not face {home.scene.shown[node]}")


def check_watch(home: Household, node: int) -> None:
    """Need something to look at in this room; what is shut in is complained about and watched all the same."""
    scene, me = home.scene, home.scene.character
    thing = scene.shown[node]
    my_room, room = home.room(me), home.room(node)
    home.need("LOOKABLE", node, "not lookable")
    if my_room is None or room is None:
        raise OriginalError("AttributeError")
    if my_room != room:
        raise Refused(f"char room {scene.shown[my_room]} is not node room {scene.shown[room]}")
    check_face(home, node)
    if scene.names[node] != "computer" and home.seated() and not home.related(me, FACING) >> node & 1:
        raise Refused(f"{home.me} is not facing {thing} while sitting")
    if home.shut(node):
        home.messages.append(f"{thing} is inside other closed thing")


def check_touch(home: Household, node: int) -> None:
    """Need something near that is not shut in."""
    home.need_near(node)
    home.need_not_shut(node)


def check_type(home: Household, node: int) -> None:
    """Need a keyboard, or a switch."""
    home.need_near(node)
    home.need("HAS_SWITCH", node, "does not have switch", ("keyboard",))


def check_move(home: Household, node: int) -> None:
    """Need something that moves, and a free hand."""
    home.need("MOVABLE", node, "is not movable", MOVED_ALSO)
    check_push(home, node)


def check_push(home: Household, node: int) -> None:
    """Need something near and a free hand; the original lets everything be pushed."""
    check_touch(home, node)
    home.need_hand()


def check_squeeze(home: Household, node: int) -> None:
    """Need something soft, and a free hand."""
    home.need_hand()
    home.need_near(node)
    home.need("CLOTHES", node, "is not clothes", SQUEEZED_ALSO)


def check_cut(home: Household, node: int) -> None:
    """Need food, a knife in one hand, and the other free."""
    home.need_hand()
    home.need_near(node)
    home.need("EATABLE", node, "is not eatable")
    home.need("CUTTABLE", node, "is not cuttable")
    if not any("knife" in home.scene.names[each] for each in home.held()):
        raise Refused(f"{home.me} is not holding a knife")


def check_eat(home: Household, node: int) -> None:
    """Need food, or something with food on it."""
    home.need_near(node)
    eatable, thing = home.scene.having["EATABLE"], home.scene.shown[node]
    if not eatable >> node & 1:
        on_it = home.on(node)
        if not on_it:
            raise Refused(f"{thing} is not eatable")
        if not on_it & eatable:
            raise Refused(f"none of object on {thing} is eatable")


def check_greet(home: Household, node: int) -> None:
    """Need a person."""
    home.need("PERSON", node, "is not person")


def _need_state(home: Household, node: int, state: int, name: str) -> None:
    if not home.states(node) & state:
        raise Refused(f"{home.scene.shown[node]} is not {name}")


def _exchange(gone: int, come: int, home: Household, _: object, node: int) -> None:
    home.set_states(node, home.states(node) & ~gone | come)


_CLEANED = partial(_exchange, DIRTY, CLEAN)

RULES: Final[dict[str, Rule]] = {
    "OPEN": Rule(check_open, partial(_exchange, IS_CLOSED, IS_OPEN)),
    "CLOSE": Rule(check_close, partial(_exchange, IS_OPEN, IS_CLOSED)),
    "SWITCHON": Rule(check_switch_on, partial(_exchange, IS_OFF, IS_ON)),
    "SWITCHOFF": Rule(check_switch_off, partial(_exchange, IS_ON, IS_OFF)),
    "PLUGIN": Rule(check_plug_in, partial(_exchange, PLUGGED_OUT, PLUGGED_IN)),
    "PLUGOUT": Rule(check_plug_out, partial(_exchange, PLUGGED_IN, PLUGGED_OUT)),
    "WASH": Rule(check_wash, _CLEANED),
    "RINSE": Rule(check_wash, _CLEANED),
    "SCRUB": Rule(check_wash, _CLEANED),
    "WIPE": Rule(check_wipe, _CLEANED),
    "LOOKAT": Rule(check_face),
    "POINTAT": Rule(check_face),
    "WATCH": Rule(check_watch),
    "TOUCH": Rule(check_touch),
    "TYPE": Rule(check_type),
    "MOVE": Rule(check_move),
    "PULL": Rule(check_move),
    "PUSH": Rule(check_push),
    "SQUEEZE": Rule(check_squeeze),
    "CUT": Rule(check_cut),
    "EAT": Rule(check_eat),
    "GREET": Rule(check_greet),
}
