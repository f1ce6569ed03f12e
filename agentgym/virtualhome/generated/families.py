"""Families of activities: goals (no conjunct is true at the start), their sentences, and held-out main classes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from agentgym.outside.text import tables_beside
from agentgym.tasks import Draws
from agentgym.virtualhome.generated.catalogue import KINDS, VIEWS
from agentgym.virtualhome.generated.houses import House
from agentgym.virtualhome.goals import Deed, Goal

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
        return _MAKERS[self.family](self)

    def main(self, classes: Iterable[str]) -> list[int]:
        """Return the possible main objects of those classes, in the order of their ids."""
        held_out = HELD_OUT[self.family]
        return self.all(name for name in classes if (name in held_out) == self._held_out)

    def all(self, classes: Iterable[str]) -> list[int]:
        return [node for name in classes for node in self.house.of_class.get(name, ())]

    def some(self, nodes: Sequence[int], most: int) -> list[int]:
        return self.draws.sample(nodes, min(len(nodes), 1 + self.draws.below(most))) if nodes else []

    def has(self, node: int, state: str) -> bool:
        return state in self.house.states[node]

    def to(self, goal: Goal, /, *, pattern: str = "", **nodes: int | Sequence[int]) -> Idea:
        """Return an idea: the goal, and the family's (or another) sentence with the names of nodes."""
        called = {key: self._called(node) for key, node in nodes.items()}
        return Idea(goal, (pattern or SENTENCES[self.family]).format(**called))

    def _called(self, node: int | Sequence[int]) -> str:
        position = self.house.scene.index
        return self._names.together([position[each] for each in ([node] if isinstance(node, int) else node)])


def _place(choice: Choice) -> Idea | None:
    things = choice.some(choice.main(name for name in KINDS if _carried(name)), 2)
    targets = [node for node in choice.all(_SURFACES) if all(_lies(choice, x) != ("ON", node) for x in things)]
    if not things or not targets:
        return None
    target = choice.draws.pick(targets)
    return choice.to(_related(things, "ON", target), things=things, target=target)


def _store(choice: Choice) -> Idea | None:
    boxes = [node for node in choice.all(KINDS) if _is_box(choice, node) and not choice.has(node, "ON")]
    things = choice.some(choice.main(name for name in KINDS if _carried(name)), 2)
    boxes = [node for node in boxes if all(_lies(choice, thing) != ("INSIDE", node) for thing in things)]
    if not things or not boxes:
        return None
    box = choice.draws.pick(boxes)
    return choice.to(_closed(choice, box, things), things=things, box=box)


def _fetch(choice: Choice) -> Idea | None:
    things = [
        node
        for node in choice.main(name for name in KINDS if _carried(name))
        if _lies(choice, node)[0] == "INSIDE" and _is_box(choice, _lies(choice, node)[1])
    ]
    targets = choice.all(_SURFACES)
    if not things or not targets:
        return None
    thing, target = choice.draws.pick(things), choice.draws.pick(targets)
    box = _lies(choice, thing)[1]
    taken = Goal(without=((thing, "INSIDE", box),))
    if choice.has(box, "OPEN"):
        goal = Goal(states=((box, "CLOSED"),), edges=((thing, "ON", target),))
    else:
        goal = Goal(edges=((thing, "ON", target),), deeds=(Deed(("CLOSE",), box, taken),))
    return choice.to(goal, thing=thing, box=box, target=target)


def _switch_on(choice: Choice) -> Idea | None:
    devices = choice.some([node for node in choice.main(_DEVICES) if choice.has(node, "OFF")], 2)
    if not devices:
        return None
    states = [pair for node in devices for pair in _running(choice, node)]
    return choice.to(Goal(states=tuple(states)), devices=devices)


def _switch_off(choice: Choice) -> Idea | None:
    devices = choice.some([node for node in choice.main(_DEVICES) if choice.has(node, "ON")], 2)
    if not devices:
        return None
    plugs = [node for node in devices if choice.has(node, "PLUGGED_IN")]
    states = [(node, "OFF") for node in devices] + [(node, "PLUGGED_OUT") for node in plugs]
    return choice.to(Goal(states=tuple(states)), pattern=UNPLUG if plugs else "", devices=devices, plugs=plugs)


def _wash(choice: Choice) -> Idea | None:
    dirty = choice.main(name for name, kind in KINDS.items() if kind.dirty is not None and _carried(name))
    things = choice.some([node for node in dirty if choice.has(node, "DIRTY")], 3)
    if not things:
        return None
    return choice.to(Goal(states=tuple([(x, "CLEAN") for x in things])), things=things)


def _wipe(choice: Choice) -> Idea | None:
    dirty = choice.main(name for name, kind in KINDS.items() if kind.dirty is not None and not _carried(name))
    targets = [node for node in dirty if choice.has(node, "DIRTY")]
    if not targets:
        return None
    target = choice.draws.pick(targets)
    # the simulator wipes with any held thing
    return choice.to(Goal(states=((target, "CLEAN"),), deeds=(Deed(("WIPE",), target),)), target=target)


def _set_table(choice: Choice) -> Idea | None:
    tables = choice.all(("dining_table", "coffee_table"))
    if not tables:
        return None
    table = choice.draws.pick(tables)
    things = []
    for kinds in (choice.main(("plate", "bowl")), choice.all(("mug", "glass")), choice.all(("fork", "spoon"))):
        away = [node for node in kinds if _lies(choice, node) != ("ON", table)]
        if not away:
            return None
        things.append(choice.draws.pick(away))
    return choice.to(_related(things, "ON", table), table=table, things=things)


def _watch(choice: Choice) -> Idea | None:
    seats = [(seat, tv) for seat, tv in _facing(choice, choice.main(VIEWS), "television") if choice.has(tv, "OFF")]
    if not seats:
        return None
    seat, tv = choice.draws.pick(seats)
    states, given = (*_running(choice, tv), (choice.who, "SITTING")), ((choice.who, "SITTING"), (tv, "ON"))
    return choice.to(_settled(choice, seat, states, "WATCH", tv, given), device=tv, seat=seat)


def _dress(choice: Choice) -> Idea | None:
    clothes = choice.some(choice.main(_CLOTHES), 2)
    if not clothes:
        return None
    return choice.to(_related(clothes, "ON", choice.who), clothes=clothes)


def _read(choice: Choice) -> Idea | None:
    books, seats = choice.main(_BOOKS), choice.all(("sofa", "armchair", "chair", "bench"))
    if not books or not seats:
        return None
    book, seat = choice.draws.pick(books), choice.draws.pick(seats)
    return choice.to(_settled(choice, seat, ((choice.who, "SITTING"),), "READ", book), seat=seat, book=book)


def _drink(choice: Choice) -> Idea | None:
    drinks, cups = choice.main(("milk", "juice", "tea")), choice.all(("mug", "glass"))
    if not drinks or not cups:
        return None
    drink, cup = choice.draws.pick(drinks), choice.draws.pick(cups)
    poured = ((drink, "INSIDE", cup),)
    return choice.to(Goal(edges=poured, deeds=(Deed(("DRINK",), cup, Goal(edges=poured)),)), drink=drink, cup=cup)


def _machine(choice: Choice) -> Idea | None:
    classes, most, machines = _MACHINES[choice.family]
    things = choice.some(choice.main(classes), most)
    ready = [node for node in choice.all(machines) if choice.has(node, "OFF")]
    ready = [node for node in ready if all(_lies(choice, thing) != ("INSIDE", node) for thing in things)]
    if not things or not ready:
        return None
    machine = choice.draws.pick(ready)
    goal = _closed(choice, machine, things)
    goal = replace(goal, states=(*goal.states, *_running(choice, machine)))
    return choice.to(goal, things=things, machine=machine)


#: Family -> classes of main objects, their maximum number, classes of machines.
_MACHINES: Final = {
    "cook": (_FOOD, 1, ("microwave", "oven")),
    "laundry": ((*_CLOTHES, "towel"), 2, ("washing_machine", "dryer")),
    "wash_dishes": (_DISHES, 3, ("dishwasher",)),
}


def _work(choice: Choice) -> Idea | None:
    seats = [pair for pair in _facing(choice, choice.main(("chair",)), "computer") if choice.has(pair[1], "OFF")]
    keyboards = choice.all(("keyboard",))
    if not seats or not keyboards:
        return None
    (seat, computer), keyboard = choice.draws.pick(seats), keyboards[0]
    working = ((computer, "ON"), (choice.who, "SITTING"))
    return choice.to(_settled(choice, seat, working, "TYPE", keyboard), device=computer, seat=seat, keyboard=keyboard)


def _rest(choice: Choice) -> Idea | None:
    beds = choice.main(("bed", "sofa"))
    if not beds:
        return None
    bed = choice.draws.pick(beds)
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


def _lies(choice: Choice, thing: int) -> tuple[str, int]:
    return choice.house.places[thing]


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


_MAKERS: Final[dict[str, Callable[[Choice], Idea | None]]] = {
    "place": _place, "store": _store, "fetch": _fetch, "switch_on": _switch_on, "switch_off": _switch_off,
    "wash": _wash, "wipe": _wipe, "set_table": _set_table, "watch": _watch, "dress": _dress, "read": _read,
    "drink": _drink, "cook": _machine, "laundry": _machine, "wash_dishes": _machine, "work": _work, "rest": _rest,
}  # fmt: skip
