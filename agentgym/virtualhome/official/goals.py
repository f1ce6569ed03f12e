"""Goals of the published tasks: of the difference between first and last graph, and those of EmbodiedAgentInterface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentgym.outside.text import DataError
from agentgym.virtualhome.goals import Deed, Goal
from agentgym.virtualhome.scene import RELATION_NAMES, STATE_NAMES, Edge, Scene
from agentgym.virtualhome.script import PARAMETERS

#: The kinds of goals: the whole difference; without CLOSE and FACING; also without what concerns the character; the
#: states, relations and actions of EmbodiedAgentInterface; and the last where it can be played, else "object".
KINDS: Final = ("strict", "loose", "object", "eai", "either")
DIFFERENCES: Final = KINDS[:3]
_NEAR: Final = ("CLOSE", "FACING")


def difference(
    kind: str, states: Mapping[int, Sequence[str]], add: Sequence[Edge], rem: Sequence[Edge], who: int
) -> Goal:
    """Return the goal of a difference.

    Args:
        kind: "strict", "loose" or "object".
        states: all states that a node has at the end, for each whose states changed.
        add: edges that came.
        rem: edges that went.
        who: id of the character.
    """

    def counts(edge: Edge) -> bool:
        source, relation, target = edge
        return (kind == "strict" or relation not in _NEAR) and (kind != "object" or who not in (source, target))

    return Goal(
        exact=tuple([(node, frozenset(names)) for node, names in states.items() if kind != "object" or node != who]),
        edges=tuple(filter(counts, add)),
        without=tuple(filter(counts, rem)),
    )


def read_eai(goal: Any, where: str) -> Goal:
    """Return a goal of EmbodiedAgentInterface.

    Args:
        goal: {"actions": ["GRAB", "WASH|RINSE"], "goal": [{"id", "class_name", "state"} or {"from_id", "relation_type",
            "to_id"}]}; the actions come in this order.
        where: file and task, for messages.

    Raises:
        DataError: when it is something else.
    """
    if not isinstance(goal, dict) or not all(isinstance(goal.get(field), list) for field in ("actions", "goal")):
        raise DataError(f"{where}: expected {{'actions': [...], 'goal': [...]}}, got {goal!r:.200}")
    deeds, states, edges = [], [], []
    for number, action in enumerate(goal["actions"]):
        if not isinstance(action, str) or not action:
            raise DataError(f"{where}, field 'actions', entry {number}: expected a text, got {action!r:.100}")
        names = tuple(action.upper().split("|"))
        for name in names:
            if name not in PARAMETERS:
                raise DataError(f"{where}, field 'actions', entry {number}: unknown action {name!r:.100}")
        deeds.append(Deed(names))
    for number, row in enumerate(goal["goal"]):
        place = f"{where}, field 'goal', entry {number}"
        if not isinstance(row, dict):
            raise DataError(f"{place}: expected an object, got {row!r:.100}")
        if "state" in row:
            states.append((whole(row, "id", place), one_of(row, "state", STATE_NAMES, place)))
        else:
            relation = one_of(row, "relation_type", RELATION_NAMES, place)
            edges.append((whole(row, "from_id", place), relation, whole(row, "to_id", place)))
    return Goal(states=tuple(states), edges=tuple(edges), deeds=tuple(deeds))


def flaw(goal: Goal, scene: Scene) -> str:
    """Return why a goal cannot be played: "empty" or "true at the start"; "" when it can.

    Raises:
        ValueError: when the goal names a node that the scene has not.
    """
    if not goal.size:
        return "empty"
    return "" if goal.tests(scene).missing(scene.cells, 0) else "true at the start"


def whole(row: Mapping[str, Any], field: str, where: str) -> int:
    """Return the id in a field, or raise a DataError that names it."""
    value = row.get(field)
    if type(value) is not int:
        raise DataError(f"{where}, field {field!r}: expected an id, got {value!r:.100}")
    return value


def one_of(row: Mapping[str, Any], field: str, known: Sequence[str], where: str) -> str:
    """Return the name in a field, or raise a DataError that names it."""
    value = row.get(field)
    if not isinstance(value, str) or value not in known:
        raise DataError(f"{where}, field {field!r}: expected one of {', '.join(known)}, got {value!r:.100}")
    return value
