"""Chores that an episode may have done besides its own goal, for hindsight relabelling.

A chore makes another activity of the same house, `"<task_id>#<chore>"`: "train/cook/3#store:mug_1,mug_2:fridge_1". The
goals are those of seven families without deeds: watching, reading or sleeping leaves no distinct state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Final, NamedTuple

from agentgym.checks import suggest
from agentgym.virtualhome.activity import Activity
from agentgym.virtualhome.generated.families import SENTENCES
from agentgym.virtualhome.goals import Goal
from agentgym.virtualhome.scene import INSIDE, IS, ON, RELATION_NAMES, STATES, WIDTH, Scene, members, states_of


class _Family(NamedTuple):
    """Maximum number of things of a chore, as in the generator; placeholders of things and place in the sentence."""

    most: int
    things: str
    place: str = ""


#: Families, easier ones first.
_FAMILIES: Final = {
    "switch_off": _Family(2, "devices"), "switch_on": _Family(2, "devices"), "wash": _Family(3, "things"),
    "dress": _Family(2, "clothes"), "place": _Family(2, "things", "target"), "store": _Family(2, "things", "box"),
    "fetch": _Family(1, "thing", "target"),
}  # fmt: skip
#: Families that change a state: the property of things, their state at the start, and that of the goal.
_STATES: Final = {
    "switch_off": ("HAS_SWITCH", IS.ON, IS.OFF), "switch_on": ("HAS_SWITCH", IS.OFF, IS.ON),
    "wash": ("GRABBABLE", IS.DIRTY, IS.CLEAN),
}  # fmt: skip
_MARK: Final = "#"
_EXAMPLE: Final = "store:mug_1,mug_2:fridge_1"
#: Reserved characters of chore names.
_SIGNS: Final = frozenset("#:,")

#: A condition: (position, state) or (position, relation, position).
Part = tuple[int, int] | tuple[int, int, int]


class Chore(NamedTuple):
    """A family of `_FAMILIES`, things by position in the order of their names, and a place or -1."""

    family: str
    things: tuple[int, ...]
    place: int = -1


def chores_done(activity: Activity, cells: Sequence[int]) -> list[Chore]:
    """Return the other chores that are done now and were not done at the start; easier ones first."""
    scene, names = activity.scene, activity.lexicon.names
    together: dict[tuple[str, int], list[int]] = {}
    for node in names.in_order((1 << scene.size) - 1):
        if not _SIGNS & set(names.of[node]):
            for family, place in _places(scene, node, cells):
                if all(_holds(cells, part) for part in _parts(scene, family, node, place)):
                    together.setdefault((family, place), []).append(node)
    found = [
        Chore(family, things, place)
        for (family, place), nodes in together.items()
        if not _SIGNS & set(names.of[place] if place >= 0 else "")
        for number in range(1, _FAMILIES[family].most + 1)
        for things in combinations(nodes, number)
    ]
    order = list(_FAMILIES)
    found.sort(key=lambda chore: (len(chore.things), order.index(chore.family)))
    own = _asked_for(activity.goal)
    return [chore for chore in found if own is None or _asked_for(goal_of(scene, chore)) != own]


def goal_of(scene: Scene, chore: Chore) -> Goal:
    """Return the goal of a chore."""
    ids = scene.ids
    states: dict[tuple[int, str], None] = {}
    edges: dict[tuple[int, str, int], None] = {}
    for thing in chore.things:
        for part in _parts(scene, chore.family, thing, chore.place):
            if len(part) == 2:
                states[ids[part[0]], states_of(part[1])[0]] = None
            else:
                edges[ids[part[0]], RELATION_NAMES[part[1]], ids[part[2]]] = None
    return Goal(states=tuple(states), edges=tuple(edges))


def id_with(activity: Activity, chore: Chore) -> str:
    """Return the task_id of an activity's house with a chore."""
    return f"{split_id(activity.task_id)[0]}{_MARK}{_name(activity, chore)}"


def split_id(task_id: str) -> tuple[str, str]:
    """Return the activity's task_id and the chore's name, "" for the activity's own goal."""
    base, mark, name = task_id.rpartition(_MARK)
    return (base, name) if mark and name.partition(":")[0] in _FAMILIES else (task_id, "")


@lru_cache(maxsize=512)
def with_chore(activity: Activity, name: str) -> Activity:
    """Return the same house with a chore as its goal, without a program; a ValueError if impossible or done."""
    family, _, rest = name.partition(":")
    words, _, place = rest.partition(":")
    if family not in _FAMILIES or bool(place) != bool(_FAMILIES[family].place):
        raise ValueError(
            f"unknown chore {name!r:.200}: expected '<family>:<things>' or '<family>:<things>:<place>', such as "
            f"{_EXAMPLE!r}; {suggest(family[:200], _FAMILIES)}"
        )
    scene = activity.scene
    things = tuple([_position(activity, name, word) for word in words.split(",")])
    chore = Chore(family, things, _position(activity, name, place) if place else -1)
    most = _FAMILIES[family].most
    if len(things) > most or _name(activity, chore) != name or len(set(things)) < len(things):
        raise ValueError(  # one name per task: episodes are grouped by it
            f"chore {name!r:.200}: expected at most {most} things, each once, in alphabetical order"
        )
    for thing in things:
        if not _possible(scene, family, thing, chore.place):
            raise ValueError(
                f"chore {name!r:.200}: in {activity.task_id!r} it is done at the start, or impossible with "
                f"{activity.lexicon.names.of[thing]!r:.100}; choose another chore"
            )
    said, task_id, goal = _sentence(activity, chore), id_with(activity, chore), goal_of(scene, chore)
    return replace(activity, task_id=task_id, task_type=family, title=said, description=said, goal=goal, program=())


def _places(scene: Scene, node: int, cells: Sequence[int]) -> Iterator[tuple[str, int]]:
    for family, (_, _, placed) in _FAMILIES.items():
        relation = INSIDE if family == "store" else ON
        for place in members(cells[node * WIDTH + relation]) if placed else (-1,):
            if _possible(scene, family, node, place):
                yield family, place


def _possible(scene: Scene, family: str, thing: int, place: int) -> bool:
    having, cells, base = scene.having, scene.cells, thing * WIDTH
    if family in _STATES:
        able, before, after = _STATES[family]
        return bool(having[able] >> thing & 1 and cells[base + STATES] & (before | after) == before)
    if family == "dress":
        return bool(having["CLOTHES"] >> thing & 1 and not cells[base + ON] >> scene.character & 1)
    if not having["GRABBABLE"] >> thing & 1 or thing == place or having["GRABBABLE"] >> place & 1:
        return False
    if family == "store":
        return bool(_boxes(scene) >> place & 1 and not cells[base + INSIDE] >> place & 1)
    placed = bool(having["SURFACES"] >> place & 1 and not cells[base + ON] >> place & 1)
    return placed and (family == "place" or _box_of(scene, thing) >= 0)


def _parts(scene: Scene, family: str, thing: int, place: int) -> Sequence[Part]:
    if family in _STATES:
        unplugged = family == "switch_on" and scene.cells[thing * WIDTH + STATES] & IS.PLUGGED_OUT
        return [(thing, IS.PLUGGED_IN)] * bool(unplugged) + [(thing, _STATES[family][2])]
    if family == "store":
        return [(thing, INSIDE, place), (place, IS.CLOSED)]
    if family == "fetch":
        return [(thing, ON, place), (_box_of(scene, thing), IS.CLOSED)]
    return [(thing, ON, scene.character if family == "dress" else place)]


def _holds(cells: Sequence[int], part: Part) -> bool:
    if len(part) == 2:
        return bool(cells[part[0] * WIDTH + STATES] & part[1])
    return bool(cells[part[0] * WIDTH + part[1]] >> part[2] & 1)


def _boxes(scene: Scene) -> int:
    return scene.having["CAN_OPEN"] & scene.having["CONTAINERS"]


def _box_of(scene: Scene, thing: int) -> int:
    inside = scene.cells[thing * WIDTH + INSIDE] & _boxes(scene)
    return inside.bit_length() - 1 if not inside & (inside - 1) else -1


def _asked_for(goal: Goal) -> tuple[frozenset[object], frozenset[object]] | None:
    closed = [(deed.node, "CLOSED") for deed in goal.deeds if deed.actions == ("CLOSE",)]
    if goal.exact or goal.without or len(closed) < len(goal.deeds):
        return None
    return frozenset([*goal.states, *closed]), frozenset(goal.edges)


def _name(activity: Activity, chore: Chore) -> str:
    names = activity.lexicon.names
    things = names.in_order(sum({1 << thing for thing in chore.things}))
    words = [",".join([_word(names.of[thing]) for thing in things])]
    return ":".join([chore.family, *words, *([_word(names.of[chore.place])] if chore.place >= 0 else [])])


def _word(name: str) -> str:
    return name.replace(" ", "_")


def _position(activity: Activity, chore: str, word: str) -> int:
    name, known = word.replace("_", " "), activity.lexicon.names.position
    if name not in known or word != _word(name):
        raise ValueError(f"chore {chore!r:.200}: the house of {activity.task_id!r} has no {name!r:.100}")
    return known[name]


def _sentence(activity: Activity, chore: Chore) -> str:
    names = activity.lexicon.names
    _, things, place = _FAMILIES[chore.family]
    said = {things: names.together(chore.things)} | ({place: names.of[chore.place]} if place else {})
    if chore.family == "fetch":
        said["box"] = names.of[_box_of(activity.scene, chore.things[0])]
    return SENTENCES[chore.family].format(**said)
