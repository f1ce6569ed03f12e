"""Families of activities: goals (no conjunct is true at the start), their sentences, and held-out main classes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from agentgym.outside.text import tables_beside
from agentgym.tasks import Draws
from agentgym.virtualhome.generated.catalogue import KINDS, VIEWS
from agentgym.virtualhome.generated.houses import House
from agentgym.virtualhome.goals import Deed, Goal

_T = TypeVar("_T")
_TABLES = tables_beside(__file__, "families.toml")
#: Main classes of a family in "valid_unseen"; "train" and "valid_seen" have all others.
HELD_OUT: Final = {name: frozenset(classes.split()) for name, classes in _TABLES["held_out"].items()}
FAMILIES: Final = tuple(HELD_OUT)
#: Task sentences, and one where devices also have to be unplugged.
SENTENCES: Final[dict[str, str]] = _TABLES["sentences"]
UNPLUG: Final[str] = _TABLES["unplug"]

_SURFACES: Final = ("counter", "dining_table", "coffee_table", "desk", "nightstand", "shelf", "bookcase", "bed", "sofa")
_DEVICES: Final = tuple(name for name, kind in KINDS.items() if "HAS_SWITCH" in kind.properties and name != "phone")
_CLOTHES: Final = tuple(name for name, kind in KINDS.items() if "CLOTHES" in kind.properties)
_BOOKS: Final = tuple(name for name, kind in KINDS.items() if "READABLE" in kind.properties)
_DISHES: Final = ("mug", "glass", "plate", "bowl", "fork", "spoon", "knife", "pan")
_FOOD: Final = ("bread", "fish", "tomato", "cheese", "sandwich", "apple")
_BOX: Final = frozenset(("CAN_OPEN", "CONTAINERS"))


#: (id, state) of nodes.
States = tuple[tuple[int, str], ...]


class Idea(NamedTuple):
    """A goal and its sentence; its plan may be too long or impossible."""

    goal: Goal
    sentence: str


class _NoneError(Exception):
    """The house lacks what the family needs."""


class Choice:
    """A house to find an activity of one family in; `held_out`: only held-out main classes, else only others."""

    def __init__(self, house: House, draws: Draws, family: str, held_out: bool) -> None:
        self.house = house
        self.draws = draws
        self.family = family
        self.who = house.scene.ids[house.scene.character]
        self._names = house.lexicon.names
        self._held_out = held_out

    def idea(self) -> Idea | None:
        """Return an idea of the family; None if the house lacks what it needs."""
        try:
            return _MAKERS[self.family](self)
        except _NoneError:
            return None

    def main(self, classes: Iterable[str]) -> list[int]:
        """Return the possible main objects of those classes, in the order of their ids."""
        held_out = HELD_OUT[self.family]
        return self.all(name for name in classes if (name in held_out) == self._held_out)

    def carried(self) -> list[int]:
        """Return the possible main objects that can be carried."""
        return self.main(name for name in KINDS if _carried(name))

    def all(self, classes: Iterable[str]) -> list[int]:
        return [node for name in classes for node in self.house.of_class.get(name, ())]

    def some(self, nodes: Sequence[int], most: int) -> list[int]:
        """Draw 1 to `most` nodes; `_NoneError` if there are none."""
        if not nodes:
            raise _NoneError
        return self.draws.sample(nodes, min(len(nodes), 1 + self.draws.below(most)))

    def pick(self, *choices: Sequence[_T]) -> list[_T]:
        """Draw one of each; `_NoneError`, before anything is drawn, if one is empty."""
        if not all(choices):
            raise _NoneError
        return [self.draws.pick(choice) for choice in choices]

    def has(self, node: int, state: str) -> bool:
        return state in self.house.states[node]

    def to(self, goal: Goal, /, *, pattern: str = "", **nodes: int | Sequence[int]) -> Idea:
        """Return an idea: the goal, and the family's (or another) sentence with the names of nodes."""
        called = {key: self._called(node) for key, node in nodes.items()}
        return Idea(goal, (pattern or SENTENCES[self.family]).format(**called))

    def _called(self, node: int | Sequence[int]) -> str:
        position = self.house.scene.index
        return self._names.together([position[each] for each in ([node] if isinstance(node, int) else node)])


def _place(choice: Choice) -> Idea:
    things = choice.some(choice.carried(), 2)
    (target,) = choice.pick(_without(choice, choice.all(_SURFACES), things, "ON"))
    return choice.to(_related(things, "ON", target), things=things, target=target)


def _store(choice: Choice) -> Idea:
    things = choice.some(choice.carried(), 2)
    boxes = [node for node in choice.all(KINDS) if _is_box(choice, node) and not choice.has(node, "ON")]
    (box,) = choice.pick(_without(choice, boxes, things, "INSIDE"))
    return choice.to(_closed(choice, box, things), things=things, box=box)


def _fetch(choice: Choice) -> Idea:
    places = choice.house.places
    things = [each for each in choice.carried() if places[each][0] == "INSIDE" and _is_box(choice, places[each][1])]
    thing, target = choice.pick(things, choice.all(_SURFACES))
    box = places[thing][1]
    taken = Goal(without=((thing, "INSIDE", box),))
    if choice.has(box, "OPEN"):
        goal = Goal(states=((box, "CLOSED"),), edges=((thing, "ON", target),))
    else:
        goal = Goal(edges=((thing, "ON", target),), deeds=(Deed(("CLOSE",), box, taken),))
    return choice.to(goal, thing=thing, box=box, target=target)


def _switch_on(choice: Choice) -> Idea:
    devices = choice.some([node for node in choice.main(_DEVICES) if choice.has(node, "OFF")], 2)
    states = [pair for node in devices for pair in _running(choice, node)]
    return choice.to(Goal(states=tuple(states)), devices=devices)


def _switch_off(choice: Choice) -> Idea:
    devices = choice.some([node for node in choice.main(_DEVICES) if choice.has(node, "ON")], 2)
    plugs = [node for node in devices if choice.has(node, "PLUGGED_IN")]
    states = [(node, "OFF") for node in devices] + [(node, "PLUGGED_OUT") for node in plugs]
    return choice.to(Goal(states=tuple(states)), pattern=UNPLUG if plugs else "", devices=devices, plugs=plugs)


def _dirty(choice: Choice, carried: bool) -> list[int]:
    soiled = choice.main(name for name, kind in KINDS.items() if kind.dirty is not None and _carried(name) == carried)
    return [node for node in soiled if choice.has(node, "DIRTY")]


def _wash(choice: Choice) -> Idea:
    things = choice.some(_dirty(choice, carried=True), 3)
    return choice.to(Goal(states=tuple([(x, "CLEAN") for x in things])), things=things)


def _wipe(choice: Choice) -> Idea:
    (target,) = choice.pick(_dirty(choice, carried=False))
    # the simulator wipes with any held thing
    return choice.to(Goal(states=((target, "CLEAN"),), deeds=(Deed(("WIPE",), target),)), target=target)


def _set_table(choice: Choice) -> Idea:
    (table,) = choice.pick(choice.all(("dining_table", "coffee_table")))
    things = []
    for kinds in (choice.main(("plate", "bowl")), choice.all(("mug", "glass")), choice.all(("fork", "spoon"))):
        things += choice.pick([node for node in kinds if choice.house.places[node] != ("ON", table)])
    return choice.to(_related(things, "ON", table), table=table, things=things)


def _watch(choice: Choice) -> Idea:
    seats = [(seat, tv) for seat, tv in _facing(choice, choice.main(VIEWS), "television") if choice.has(tv, "OFF")]
    ((seat, tv),) = choice.pick(seats)
    states, given = (*_running(choice, tv), (choice.who, "SITTING")), ((choice.who, "SITTING"), (tv, "ON"))
    return choice.to(_settled(choice, seat, states, "WATCH", tv, given), device=tv, seat=seat)


def _dress(choice: Choice) -> Idea:
    clothes = choice.some(choice.main(_CLOTHES), 2)
    return choice.to(_related(clothes, "ON", choice.who), clothes=clothes)


def _read(choice: Choice) -> Idea:
    book, seat = choice.pick(choice.main(_BOOKS), choice.all(("sofa", "armchair", "chair", "bench")))
    return choice.to(_settled(choice, seat, ((choice.who, "SITTING"),), "READ", book), seat=seat, book=book)


def _drink(choice: Choice) -> Idea:
    drink, cup = choice.pick(choice.main(("milk", "juice", "tea")), choice.all(("mug", "glass")))
    poured = ((drink, "INSIDE", cup),)
    return choice.to(Goal(edges=poured, deeds=(Deed(("DRINK",), cup, Goal(edges=poured)),)), drink=drink, cup=cup)


def _machine(choice: Choice) -> Idea:
    classes, most, machines = _MACHINES[choice.family]
    things = choice.some(choice.main(classes), most)
    ready = [node for node in choice.all(machines) if choice.has(node, "OFF")]
    (machine,) = choice.pick(_without(choice, ready, things, "INSIDE"))
    goal = _closed(choice, machine, things)
    goal = replace(goal, states=(*goal.states, *_running(choice, machine)))
    return choice.to(goal, things=things, machine=machine)


#: Family -> classes of main objects, their maximum number, classes of machines.
_MACHINES: Final = {
    "cook": (_FOOD, 1, ("microwave", "oven")),
    "laundry": ((*_CLOTHES, "towel"), 2, ("washing_machine", "dryer")),
    "wash_dishes": (_DISHES, 3, ("dishwasher",)),
}


def _work(choice: Choice) -> Idea:
    seats = [pair for pair in _facing(choice, choice.main(("chair",)), "computer") if choice.has(pair[1], "OFF")]
    keyboards = choice.all(("keyboard",))
    ((seat, computer),), keyboard = choice.pick(seats if keyboards else []), keyboards[0]
    working = ((computer, "ON"), (choice.who, "SITTING"))
    return choice.to(_settled(choice, seat, working, "TYPE", keyboard), device=computer, seat=seat, keyboard=keyboard)


def _rest(choice: Choice) -> Idea:
    (bed,) = choice.pick(choice.main(("bed", "sofa")))
    return choice.to(_settled(choice, bed, ((choice.who, "LYING"),), "SLEEP", None), bed=bed)


def _related(things: Sequence[int], relation: str, target: int) -> Goal:
    return Goal(edges=tuple([(thing, relation, target) for thing in things]))


def _settled(choice: Choice, seat: int, states: States, action: str, node: int | None, given: States = ()) -> Goal:
    deed = Deed((action,), node, Goal(given or states))
    return Goal(states, edges=((choice.who, "ON", seat),), deeds=(deed,))


def _closed(choice: Choice, box: int, things: Sequence[int]) -> Goal:
    inside = _related(things, "INSIDE", box)
    if choice.has(box, "OPEN"):
        return replace(inside, states=((box, "CLOSED"),))
    return replace(inside, deeds=(Deed(("CLOSE",), box, inside),))


def _carried(name: str) -> bool:
    return "GRABBABLE" in KINDS[name].properties


def _without(choice: Choice, targets: Iterable[int], things: Sequence[int], relation: str) -> list[int]:
    """Return the targets that none of the things is on, or in."""
    places = choice.house.places
    return [node for node in targets if all(places[thing] != (relation, node) for thing in things)]


def _is_box(choice: Choice, node: int) -> bool:
    scene = choice.house.scene
    return _BOX.issubset(scene.properties[scene.index[node]])


def _running(choice: Choice, device: int) -> list[tuple[int, str]]:
    states = [(device, "ON")]
    return [(device, "PLUGGED_IN"), *states] if choice.has(device, "PLUGGED_OUT") else states


def _facing(choice: Choice, seats: Sequence[int], kind: str) -> list[tuple[int, int]]:
    pairs, scene = [], choice.house.scene
    for seat in seats:
        views = VIEWS.get(scene.names[scene.index[seat]], ())
        view = next((name for name in views if _same_room(choice, seat, name)), None)
        if view == kind:
            pairs.append((seat, _same_room(choice, seat, kind)[-1]))
    return pairs


def _same_room(choice: Choice, node: int, kind: str) -> list[int]:
    rooms = choice.house.rooms
    return [other for other in choice.house.of_class.get(kind, ()) if rooms[other] == rooms[node]]


_MAKERS: Final[dict[str, Callable[[Choice], Idea]]] = {
    "place": _place, "store": _store, "fetch": _fetch, "switch_on": _switch_on, "switch_off": _switch_off,
    "wash": _wash, "wipe": _wipe, "set_table": _set_table, "watch": _watch, "dress": _dress, "read": _read,
    "drink": _drink, "cook": _machine, "laundry": _machine, "wash_dishes": _machine, "work": _work, "rest": _rest,
}  # fmt: skip
