"""The actions of the household: a check (it raises `Refused` with the original's words) and an effect each."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from agentgym.virtualhome.household import Household, OriginalError, Refused, Rule
from agentgym.virtualhome.scene import CLOSE, FACING, HOLDS_LH, HOLDS_RH, INSIDE, IS, ON, SOURCES, WIDTH, positions

#: Maximum number of things on a seat to sit, or lie, on it; 1 for all others.
SEATS: Final = {"couch": 4, "bed": 4, "chair": 1, "loveseat": 2, "sofa": 4, "toilet": 1, "pianobench": 2, "bench": 2}
BEDS: Final = {"couch": 2, "bathtub": 2, "bed": 3, "loveseat": 2, "sofa": 2, "bench": 1}
#: Classes that an action accepts without the required property.
TAKEN_ALSO: Final = ("water", "child")
POURED_INTO_ALSO: Final = ("hands_both", "sponge", "face")
OPENED_ALSO: Final = ("desk", "window")
MOVED_ALSO: Final = ("chair", "curtain", "button")
SQUEEZED_ALSO: Final = (
    "cleaning_solution", "tooth_paste", "shampoo", "food_peanut_butter", "dish_soap", "soap", "towel", "rag", "paper",
    "sponge", "food_lemon", "check",
)  # fmt: skip

#: A walk: its last room and its first room.
Walk = tuple[int, int]
#: The place where a thing was grabbed: the node and the relation to it.
Place = tuple[int, int]
Check = Callable[..., Any]


class Unchanged:
    """The result of a check for an action that succeeds without a change."""


# Walking, finding and turning.


def _check_walk(home: Household, node: int) -> Walk:
    shown, me = home.scene.shown, home.scene.character
    room = home.room(node)
    if home.seated():
        raise Refused(f"{home.me} is sitting")
    start = home.room(me)
    if start is None:
        raise OriginalError("AttributeError" if home.v1 else "AssertionError")
    if home.exact_order:
        home.room(node)  # the original asks for both rooms twice
    straight = home.open_way(start, room) or (home.scene.doors >> node & 1 and home.passable_door(node, start))
    if home.v1 and not straight:
        doors = home.closed_doors(start, room)
        if doors is None:
            raise Refused(f"No path between between {shown[start]} and {shown[room or 0]}")
        if doors and doors[-1] != node:
            names = ", ".join(shown[door] for door in doors)
            raise Refused(f"Door(s) {names} between {shown[start]} and {shown[room or 0]} is (are) closed")
    if room is None:
        raise Refused
    if home.exact_order:
        home.room(me)
    return room, start


def _walk(home: Household, way: Walk, node: int) -> None:
    if home.exact_order or home.holds(home.scene.character):
        _walk_in_order(home, way, node)
    else:
        _walk_at_once(home, way, node)


def _walk_in_order(home: Household, way: Walk, node: int) -> None:
    """Change one edge after the other, as the original does."""
    scene, me = home.scene, home.scene.character
    room, start = way
    held = home.held()
    for relation in (INSIDE, CLOSE, FACING):
        home.remove_all(me, relation)
    if home.v1:
        _approach(home, node)
        home.add(me, INSIDE, room)
        _join(home, me, node)
    else:
        home.add(me, INSIDE, room)
        if room != node:
            _approach(home, node)
            _join(home, me, node)
    for thing in held:
        for relation in (INSIDE, CLOSE, FACING):
            home.remove_all(thing, relation)
    for thing in held:
        _join(home, me, thing)
        home.add(thing, INSIDE, room if home.carry_room else start)
    if home.v1:
        if scene.having["SURFACES"] >> node & 1:
            _join_all(home, home.on(node))
    else:
        if scene.having["CAN_OPEN"] >> node & 1:
            home.asked_all(INSIDE)
            _join_all(home, home.sources(node, INSIDE))
        for surface in home.in_order(node, ON):
            _join(home, me, surface)


def _walk_at_once(home: Household, way: Walk, node: int) -> None:
    """Change whole sets of edges, with the same result: the final CLOSE relations are collected first."""
    scene, me, cells = home.scene, home.scene.character, home.cells
    room, start = way
    held, own = home.in_hands(), me * WIDTH
    if cells[own + SOURCES + INSIDE]:
        home.remove_all(me, INSIDE)
    if cells[own + INSIDE] != 1 << room:
        home.relate_to(me, INSIDE, room)
    if cells[own + FACING] or cells[own + SOURCES + FACING]:
        home.remove_all(me, FACING)
    close = 0
    if home.v1 or room != node:
        close = cells[node * WIDTH + INSIDE] & ~scene.rooms | scene.having["BODY_PART"] | 1 << node
    if held:
        for thing in positions(held):
            for relation in (INSIDE, CLOSE, FACING):
                home.remove_all(thing, relation)
        for thing in positions(held):
            home.add(thing, INSIDE, room if home.carry_room else start)
    if home.v1:
        if scene.having["SURFACES"] >> node & 1:
            close |= cells[node * WIDTH + SOURCES + ON]
    else:
        if scene.having["CAN_OPEN"] >> node & 1:
            close |= cells[node * WIDTH + SOURCES + INSIDE]
        close |= cells[node * WIDTH + ON]
    home.come_close(me, close | held)


def _approach(home: Household, node: int) -> None:
    for box in home.in_order(node, INSIDE):
        if not home.scene.rooms >> box & 1:
            _join(home, home.scene.character, box)
    _join_all(home, home.scene.having["BODY_PART"])


def _join(home: Household, a: int, b: int) -> None:
    home.add(a, CLOSE, b)
    home.add(b, CLOSE, a)


def _join_all(home: Household, nodes: int) -> None:
    for node in home.listed(nodes):
        _join(home, home.scene.character, node)


def _check_find(home: Household, node: int) -> Walk | None:
    scene = home.scene
    home.asked(node, ON)
    here = home.related(node, ON) >> scene.character & 1 or scene.having["BODY_PART"] >> node & 1
    if not (here or home.near(node) or home.seated()):
        if not home.find_walks:
            raise OriginalError("TypeError")
        try:
            return _check_walk(home, node)
        except Refused as refused:
            home.messages += refused.args
    home.need_near(node)
    return None


def _find(home: Household, way: Walk | None, node: int) -> None:
    if way is None:
        _look_away(home)
        _join(home, home.scene.character, node)
    else:
        _walk(home, way, node)


def _look_away(home: Household) -> None:
    if not home.related(home.scene.character, FACING) and not home.exact_order:
        return
    for node in home.in_order(home.scene.character, FACING):
        home.remove(home.scene.character, FACING, node)


def _turn_to(home: Household, _: object, node: int) -> None:
    _look_away(home)
    home.add(home.scene.character, FACING, node)


# Sitting and lying.


def _check_settle(state: int, posture: str, wanted: str, limits: Mapping[str, int], home: Household, node: int) -> None:
    home.need_near(node)
    if home.posture() & state:
        raise Refused(f"{home.me} is {posture}")
    home.need(wanted, node, f"is not {wanted.lower()}")
    if home.crowded(node, limits.get(home.scene.names[node], 1)):
        raise Refused(f"Too many things on {home.scene.shown[node]}")


def _settle(state: int, home: Household, _: object, node: int) -> None:
    me = home.scene.character
    home.add(me, ON, node)
    for each in home.in_order(node, FACING) if state == IS.SITTING else ():
        home.add(me, FACING, each)
    home.set_states(me, home.posture() & ~(IS.SITTING | IS.LYING) | state)


def _check_seated(otherwise: str, home: Household) -> None:
    if not home.seated():
        raise Refused(f"{home.me} is not {otherwise}")


def _stand_up(home: Household, _: object) -> None:
    """Stand up; the original leaves the character on its seat."""
    me = home.scene.character
    if home.leave_seat:
        for seat in home.in_order(me, ON):
            home.remove(me, ON, seat)
    home.set_states(me, home.posture() & ~(IS.SITTING | IS.LYING))


# Taking, putting, pouring and wearing.


def _check_grab(home: Household, node: int) -> tuple[int, int, Place | None]:
    home.need("GRABBABLE", node, "is not grabbable", TAKEN_ALSO)
    if not home.v1 and node in home.places:
        raise Refused(f"{home.scene.shown[node]} already grabbed")
    home.need_near(node)
    home.need_not_shut(node)
    hand = home.need_hand()
    room = _my_room(home)
    return hand, room, _place(home, node)


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


def _grab(home: Household, how: tuple[int, int, Place | None], node: int) -> None:
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


def _check_put(relation: int, home: Household, node: int, target: int) -> Place:
    home.need_held(node)
    home.need_near(target)
    if relation == INSIDE and not home.takes_in(target):
        raise Refused(f"{home.scene.shown[target]} is not open or is not openable")
    return target, relation


def _check_put_object_back(home: Household, node: int) -> Place | type[Unchanged]:
    """Require a held thing that was grabbed from a place, and require that the place is near."""
    place = home.places.get(node)
    if place is None:
        raise Refused(f"{home.scene.shown[node]} not grabbed")
    try:
        return _check_put(place[1], home, node, place[0])
    except Refused as refused:
        if home.put_back:
            raise
        home.messages += refused.args
        return Unchanged


def _put(home: Household, place: Place, node: int, *_: int) -> None:
    target, relation = place
    _let_go(home, node)
    _join(home, home.scene.character, target)
    _join(home, node, target)
    home.add(node, relation, target)
    home.note(home.places, node, None)


def _let_go(home: Household, node: int) -> None:
    home.remove(home.scene.character, HOLDS_LH, node)
    home.remove(home.scene.character, HOLDS_RH, node)


def _check_drop(home: Household, node: int) -> int:
    home.need_held(node)
    return _my_room(home)


def _drop(home: Household, room: int, node: int) -> None:
    _let_go(home, node)
    home.add(node, INSIDE, room)
    home.note(home.places, node, None)


def _check_pour(home: Household, node: int, target: int) -> None:
    scene = home.scene
    if not (scene.having["POURABLE"] | scene.having["DRINKABLE"]) >> node & 1:
        raise Refused(f"{scene.shown[node]} is not pourable or drinkable")
    home.need("RECIPIENT", target, "is not recipient", POURED_INTO_ALSO)
    home.need_held(node)
    home.need_near(target)


def _pour(home: Household, _: object, node: int, target: int) -> None:
    """Pour; only water leaves the hand."""
    home.add(node, INSIDE, target)
    if home.scene.names[node] == "water":
        _let_go(home, node)


def _dress(home: Household, _: object, node: int) -> None:
    home.add(node, ON, home.scene.character)
    _let_go(home, node)


def _check_undress(home: Household, node: int) -> None:
    if not home.take_off:
        raise OriginalError("TypeError")
    home.asked(node, ON)
    if not home.related(node, ON) >> home.scene.character & 1:
        raise Refused(f"{home.scene.shown[node]} is not on {home.me}")
    home.need("CLOTHES", node, "is not clothes")


def _undress(home: Household, _: object, node: int) -> None:
    """Take off a worn node, which is not held afterwards."""
    home.remove(node, ON, home.scene.character)


def _check_drink(home: Household, node: int) -> None:
    scene = home.scene
    if not (scene.having["DRINKABLE"] | scene.having["RECIPIENT"]) >> node & 1:
        raise Refused(f"{scene.shown[node]} is not drinkable or not recipient")
    home.need_held(node)


# Using a thing at its place: checks composed of parts, in the original's order.


def _each(*parts: Check) -> Check:
    def check(home: Household, node: int) -> None:
        for part in parts:
            part(home, node)

    return check


def _is(wanted: str, otherwise: str, also: Collection[str] = ()) -> Check:
    return lambda home, node: home.need(wanted, node, otherwise, also)


def _in_state(state: int, name: str, wanted: bool = True) -> Check:
    def check(home: Household, node: int) -> None:
        if bool(home.states(node) & state) != wanted:
            raise Refused(f"{home.scene.shown[node]} is {'not ' if wanted else ''}{name}")

    return check


def _free_hand(home: Household, _: int) -> None:
    home.need_hand()


def _complain_if_on(home: Household, node: int) -> None:
    """Add the message that a node is on; it is unplugged nevertheless."""
    if home.states(node) & IS.ON:
        home.messages.append(f"{home.scene.shown[node]} is still on")


def _anything_held(home: Household, _: int) -> None:
    if not home.held():
        raise Refused(f"{home.me} does not hold anything in hands")


def _knife_held(home: Household, _: int) -> None:
    if not any("knife" in home.scene.names[each] for each in home.held()):
        raise Refused(f"{home.me} is not holding a knife")


def _faced(home: Household, node: int) -> None:
    if not home.faces(node):
        raise Refused(f"{home.me} does not face {home.scene.shown[node]}")


def _check_watch(home: Household, node: int) -> None:
    """Require a visible thing in this room; one inside a closed thing gets a message and is watched nevertheless."""
    scene, me = home.scene, home.scene.character
    thing = scene.shown[node]
    my_room, room = home.room(me), home.room(node)
    home.need("LOOKABLE", node, "not lookable")
    if my_room is None or room is None:
        raise OriginalError("AttributeError")
    if my_room != room:
        raise Refused(f"char room {scene.shown[my_room]} is not node room {scene.shown[room]}")
    _faced(home, node)
    if scene.names[node] != "computer" and home.seated() and not home.related(me, FACING) >> node & 1:
        raise Refused(f"{home.me} is not facing {thing} while sitting")
    if home.shut(node):
        home.messages.append(f"{thing} is inside other closed thing")


def _check_eat(home: Household, node: int) -> None:
    home.need_near(node)
    eatable, thing = home.scene.having["EATABLE"], home.scene.shown[node]
    if not eatable >> node & 1:
        on_it = home.on(node)
        if not on_it:
            raise Refused(f"{thing} is not eatable")
        if not on_it & eatable:
            raise Refused(f"none of object on {thing} is eatable")


def _exchange(gone: int, come: int, home: Household, _: object, node: int) -> None:
    home.set_states(node, home.states(node) & ~gone | come)


_NEAR, _HELD, _NOT_SHUT = Household.need_near, Household.need_held, Household.need_not_shut
_OPENS = _is("CAN_OPEN", "can not be opened", OPENED_ALSO)
_SWITCH, _PLUG = _is("HAS_SWITCH", "does not have a switch"), _is("HAS_PLUG", "does not have a plug")
_CLOTHES = _is("CLOTHES", "is not clothes")
_WASH: Final = Rule(_NEAR, partial(_exchange, IS.DIRTY, IS.CLEAN))
_MOVE: Final = Rule(_each(_is("MOVABLE", "is not movable", MOVED_ALSO), _NEAR, _NOT_SHUT, _free_hand))

RULES: Final[dict[str, Rule]] = {
    "WALK": Rule(_check_walk, _walk),
    "RUN": Rule(_check_walk, _walk),
    "FIND": Rule(_check_find, _find),
    "TURNTO": Rule(_each(), _turn_to),
    "SIT": Rule(partial(_check_settle, IS.SITTING, "sitting", "SITTABLE", SEATS), partial(_settle, IS.SITTING)),
    "LIE": Rule(partial(_check_settle, IS.LYING, "lying", "LIEABLE", BEDS), partial(_settle, IS.LYING)),
    "STANDUP": Rule(partial(_check_seated, "sitting"), _stand_up),
    "SLEEP": Rule(partial(_check_seated, "lying or sitting")),
    "WAKEUP": Rule(partial(_check_seated, "lying or sitting")),
    "GRAB": Rule(_check_grab, _grab),
    "PUTBACK": Rule(partial(_check_put, ON), _put),
    "PUTIN": Rule(partial(_check_put, INSIDE), _put),
    "PUTOBJBACK": Rule(_check_put_object_back, _put),
    "DROP": Rule(_check_drop, _drop),
    "RELEASE": Rule(_check_drop, _drop),
    "POUR": Rule(_check_pour, _pour),
    "PUTON": Rule(_each(_HELD, _CLOTHES), _dress),
    "PUTOFF": Rule(_check_undress, _undress),
    "READ": Rule(_each(_is("READABLE", "is not readable"), _HELD)),
    "DRINK": Rule(_check_drink),
    "OPEN": Rule(
        _each(_OPENS, _NEAR, _free_hand, _in_state(IS.CLOSED, "closed"), _in_state(IS.ON, "still on", False)),
        partial(_exchange, IS.CLOSED, IS.OPEN),
    ),
    "CLOSE": Rule(_each(_OPENS, _NEAR, _in_state(IS.OPEN, "open")), partial(_exchange, IS.OPEN, IS.CLOSED)),
    "SWITCHON": Rule(
        _each(_SWITCH, _NEAR, _in_state(IS.OFF, "off"), _in_state(IS.PLUGGED_OUT, "unplugged", False)),
        partial(_exchange, IS.OFF, IS.ON),
    ),
    "SWITCHOFF": Rule(_each(_SWITCH, _NEAR, _in_state(IS.ON, "on")), partial(_exchange, IS.ON, IS.OFF)),
    "PLUGIN": Rule(
        _each(_PLUG, _NEAR, _free_hand, _in_state(IS.PLUGGED_OUT, "plugged_out")),
        partial(_exchange, IS.PLUGGED_OUT, IS.PLUGGED_IN),
    ),
    "PLUGOUT": Rule(
        _each(_PLUG, _NEAR, _free_hand, _in_state(IS.PLUGGED_IN, "plugged_in"), _complain_if_on),
        partial(_exchange, IS.PLUGGED_IN, IS.PLUGGED_OUT),
    ),
    "WASH": _WASH,
    "RINSE": _WASH,
    "SCRUB": _WASH,
    "WIPE": Rule(_each(_NEAR, _anything_held), _WASH.effect),
    "LOOKAT": Rule(_faced),
    "POINTAT": Rule(_faced),
    "WATCH": Rule(_check_watch),
    "TOUCH": Rule(_each(_NEAR, _NOT_SHUT)),
    "TYPE": Rule(_each(_NEAR, _is("HAS_SWITCH", "does not have switch", ("keyboard",)))),
    "MOVE": _MOVE,
    "PULL": _MOVE,
    "PUSH": Rule(_each(_NEAR, _NOT_SHUT, _free_hand)),  # the original lets everything be pushed
    "SQUEEZE": Rule(_each(_free_hand, _NEAR, _is("CLOTHES", "is not clothes", SQUEEZED_ALSO))),
    "CUT": Rule(
        _each(_free_hand, _NEAR, _is("EATABLE", "is not eatable"), _is("CUTTABLE", "is not cuttable"), _knife_held)
    ),
    "EAT": Rule(_check_eat),
    "GREET": Rule(_is("PERSON", "is not person")),
}
