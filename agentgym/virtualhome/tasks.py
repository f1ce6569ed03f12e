"""Collections of published or generated activities, of all types or of some."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from agentgym.checks import check_name, suggest
from agentgym.tasks import Tasks
from agentgym.virtualhome.activity import Activity
from agentgym.virtualhome.generated.activities import GeneratedActivities
from agentgym.virtualhome.hindsight import Chore
from agentgym.virtualhome.official.dataset import OfficialActivities
from agentgym.virtualhome.official.files import KINDS, VARIABLE

#: Value of `data` for generated activities, with or without the variable VIRTUALHOME_DATA.
GENERATED = "generated"
#: Arguments of the generator, with their defaults.
ARGUMENTS: Final[Mapping[str, Any]] = {"house_seed": 0, "num_activities": None}


class Activities(Tasks[Activity], Protocol):
    """A collection of activities; `by_id` also accepts ids with a chore, see `agentgym.virtualhome.hindsight`."""

    @property
    def first(self) -> str:
        """The default split."""
        ...

    @property
    def task_types(self) -> tuple[str, ...]: ...

    def of_types(self, kinds: tuple[str, ...]) -> Activities:
        """Return the activities of some types; task_ids of others stay valid."""
        ...

    def same_split(self, activity: Activity, chore: Chore) -> bool:
        """Say whether a chore in an activity's house belongs to no other split than the activity."""
        ...


def narrowed(activities: Activities, kinds: Any) -> Activities:
    """Return the activities of a type, or of several; a ValueError for an unknown one."""
    given = tuple(kinds) if isinstance(kinds, Iterable) and not isinstance(kinds, str) else (kinds,)
    known = activities.task_types
    for kind in given:
        if kind not in known:
            raise ValueError(f"unknown task type {kind!r}; {suggest(kind, known)}")
    if not given:
        raise ValueError("task_types is empty: name at least one task type, or pass None for all")
    return activities.of_types(tuple([kind for kind in known if kind in given]))


def find_activities(data: Any, goal: Any, generator: Mapping[str, Any]) -> Activities:
    """Return the published tasks of a folder (None: of $VIRTUALHOME_DATA if set), or generated ones."""
    check_name(goal, KINDS, "goal")
    if data is None:
        data = os.environ.get(VARIABLE) or GENERATED
    if isinstance(data, str) and data == GENERATED:
        return GeneratedActivities(**generator)
    if not isinstance(data, (str, os.PathLike)) or data == "":
        raise ValueError(f"data must be a folder, {GENERATED!r} or None, got {data!r}")
    useless = [f"{name}={value!r}" for name, value in generator.items() if value != ARGUMENTS[name]]
    if useless:
        raise ValueError(
            f"{' and '.join(useless)} would change generated activities, and those of {str(data)!r:.200} are published "
            f"ones; leave that out, or pass data={GENERATED!r}"
        )
    return OfficialActivities(data, goal)
