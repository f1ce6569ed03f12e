"""Collections of published or generated activities, of all types or of some."""

from collections.abc import Mapping
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
