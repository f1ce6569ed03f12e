"""Collections of published or generated activities, of all types or of some."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from agentgym.checks import check_name
from agentgym.tasks import GENERATED, published
from agentgym.virtualhome.generated.activities import GeneratedActivities
from agentgym.virtualhome.official.dataset import OfficialActivities
from agentgym.virtualhome.official.files import KINDS, VARIABLE

#: Arguments of the generator, with their defaults.
ARGUMENTS: Final[Mapping[str, Any]] = {"house_seed": 0, "num_activities": None}


#: A collection of activities; `by_id` also accepts ids with a chore, see `agentgym.virtualhome.hindsight`.
Activities = GeneratedActivities | OfficialActivities


def narrowed(activities: Activities, kinds: Any) -> Activities:
    """Return the activities of a type, or of several; a ValueError for an unknown one."""
    given = tuple(kinds) if isinstance(kinds, Iterable) and not isinstance(kinds, str) else (kinds,)
    known = activities.task_types
    for kind in given:
        check_name(kind, known, "task type")
    if not given:
        raise ValueError("task_types is empty: name at least one task type, or pass None for all")
    return activities.of_types(tuple([kind for kind in known if kind in given]))


def find_activities(data: Any, goal: Any, generator: Mapping[str, Any]) -> Activities:
    """Return the published tasks of a folder (None: of $VIRTUALHOME_DATA if set), or generated ones."""
    check_name(goal, KINDS, "goal")
    folder = published(data, VARIABLE)
    if folder is None:
        return GeneratedActivities(**generator)
    useless = [f"{name}={value!r}" for name, value in generator.items() if value != ARGUMENTS[name]]
    if useless:
        raise ValueError(
            f"{' and '.join(useless)} cannot change the published activities of {str(folder)!r:.200}; "
            f"omit it, or pass data={GENERATED!r}"
        )
    return OfficialActivities(folder, goal)
