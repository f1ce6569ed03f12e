"""Taking, putting, dropping, pouring and wearing: what passes through the hands."""

from __future__ import annotations

from typing import Final

from agentgym.virtualhome.household import Household, OriginalError, Refused, Rule
from agentgym.virtualhome.scene import CLOSE, HOLDS_LH, HOLDS_RH, INSIDE, IS_OPEN, ON

#: What can be taken though it has not the property, and what can be poured into.
TAKEN_ALSO: Final = ("water", "child")
POURED_INTO_ALSO: Final = ("hands_both", "sponge", "face")

#: Where a thing was grabbed: the node, and how it was related to it.
Place = tuple[int, int]


class Unchanged:
    """An action that cannot be done and succeeds all the same, with nothing changed."""


def check_grab(home: Household, node: int) -> tuple[int, int, Place | None]:
    """Need something near that can be taken, and a free hand; return the hand, the room, and where the node is."""
    home.need("GRABBABLE", node, "is not grabbable", TAKEN_ALSO)
    if not home.v1 and node in home.places:
        raise Refused(f"{home.scene.shown[node]} already grabbed")
    home.need_near(node)
    home.need_not_shut(node)
    hand = home.need_hand()
    room = _my_room(home)
    return hand, room, _place(home, node)


def grab(home: Household, how: tuple[int, int, Place | None], node: int) -> None:
    """Take a node away from everything and hold it."""
    me = home.scene.character
    hand, room, place = how
    for relation in (ON, INSIDE, CLOSE) if home.v1 else (ON, INSIDE, CLOSE, HOLDS_LH, HOLDS_RH):
        home.remove_all(node, relation)
    _join(home, me, node)
    home.add(me, hand, node)
    home.add(node, INSIDE, room)
    if place is not None:
        _join(home, me, place[0])
        home.note(home.places, node, place)


def check_put_on(home: Household, node: int, target: int) -> Place:
    """Need a held thing, and to be near the other."""
    return _check_put(home, node, (target, ON))


def check_put_in(home: Household, node: int, target: int) -> Place:
    """Need a held thing, and to be near the other, which is not shut."""
    return _check_put(home, node, (target, INSIDE))


def check_put_object_back(home: Household, node: int) -> Place | type[Unchanged]:
    """Need a held thing that was grabbed somewhere, and to be near that."""
    place = home.places.get(node)
    if place is None:
        raise Refused(f"{home.scene.shown[node]} not grabbed")
    try:
        return _check_put(home, node, place)
    except Refused as refused:
        if home.put_back:
            raise
        home.messages += refused.args
        return Unchanged


def put(home: Household, place: Place, node: int, *_: int) -> None:
    """Lay a held node down."""
    target, relation = place
    _let_go(home, node)
    _join(home, home.scene.character, target)
    _join(home, node, target)
    home.add(node, relation, target)
    home.note(home.places, node, None)


def check_drop(home: Household, node: int) -> int:
    """Need a held thing; return the room that it falls in."""
    home.need_held(node)
    return _my_room(home)


def drop(home: Household, room: int, node: int) -> None:
    """Let a held node fall."""
    _let_go(home, node)
    home.add(node, INSIDE, room)
    home.note(home.places, node, None)


def check_pour(home: Household, node: int, target: int) -> None:
    """Need a held liquid, and to be near a vessel."""
    scene = home.scene
    if not (scene.having["POURABLE"] | scene.having["DRINKABLE"]) >> node & 1:
        raise Refused(f"{scene.shown[node]} is not pourable or drinkable")
    home.need("RECIPIENT", target, "is not recipient", POURED_INTO_ALSO)
    home.need_held(node)
    home.need_near(target)


def pour(home: Household, _: object, node: int, target: int) -> None:
    """Pour; water has left the hand."""
    home.add(node, INSIDE, target)
    if home.scene.names[node] == "water":
        _let_go(home, node)


def check_dress(home: Household, node: int) -> None:
    """Need held clothes."""
    home.need_held(node)
    home.need("CLOTHES", node, "is not clothes")


def dress(home: Household, _: object, node: int) -> None:
    """Put a held node on."""
    home.add(node, ON, home.scene.character)
    _let_go(home, node)


def check_undress(home: Household, node: int) -> None:
    """Need clothes that are worn."""
    if not home.take_off:
        raise OriginalError("TypeError")
    home.asked(node, ON)
    if not home.related(node, ON) >> home.scene.character & 1:
        raise Refused(f"{home.scene.shown[node]} is not on {home.me}")
    home.need("CLOTHES", node, "is not clothes")


def undress(home: Household, _: object, node: int) -> None:
    """Take a worn node off; it is not held then."""
    home.remove(node, ON, home.scene.character)


def check_read(home: Household, node: int) -> None:
    """Need a held thing to read."""
    home.need("READABLE", node, "is not readable")
    home.need_held(node)


def check_drink(home: Household, node: int) -> None:
    """Need a held drink, or vessel."""
    scene = home.scene
    if not (scene.having["DRINKABLE"] | scene.having["RECIPIENT"]) >> node & 1:
        raise Refused(f"{scene.shown[node]} is not drinkable or not recipient")
    home.need_held(node)


def _check_put(home: Household, node: int, place: Place) -> Place:
    target, relation = place
    home.need_held(node)
    home.need_near(target)
    if relation == INSIDE and home.scene.having["CAN_OPEN"] >> target & 1 and not home.states(target) & IS_OPEN:
        raise Refused(f"{home.scene.shown[target]} is not open or is not openable")
    return place


def _place(home: Household, node: int) -> Place | None:
    """Return the first thing, no room, that a node is on, else in, else close to."""
    for relation in (ON, INSIDE, CLOSE):
        for each in home.in_order(node, relation):
            if not home.scene.rooms >> each & 1:
                return each, relation
    return None


def _my_room(home: Household) -> int:
    room = home.room(home.scene.character)
    if room is None:
        raise OriginalError("AttributeError")
    return room


def _let_go(home: Household, node: int) -> None:
    home.remove(home.scene.character, HOLDS_LH, node)
    home.remove(home.scene.character, HOLDS_RH, node)


def _join(home: Household, a: int, b: int) -> None:
    home.add(a, CLOSE, b)
    home.add(b, CLOSE, a)


RULES: Final[dict[str, Rule]] = {
    "GRAB": Rule(check_grab, grab),
    "PUTBACK": Rule(check_put_on, put),
    "PUTIN": Rule(check_put_in, put),
    "PUTOBJBACK": Rule(check_put_object_back, put),
    "DROP": Rule(check_drop, drop),
    "RELEASE": Rule(check_drop, drop),
    "POUR": Rule(check_pour, pour),
    "PUTON": Rule(check_dress, dress),
    "PUTOFF": Rule(check_undress, undress),
    "READ": Rule(check_read),
    "DRINK": Rule(check_drink),
}
