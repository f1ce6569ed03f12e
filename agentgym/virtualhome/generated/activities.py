"""Generated activities as a collection of tasks."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from agentgym.checks import whole
from agentgym.tasks import Draws, OfTypes
from agentgym.virtualhome.activity import Activity
from agentgym.virtualhome.expert import plan
from agentgym.virtualhome.generated.families import FAMILIES, HELD_OUT, Choice
from agentgym.virtualhome.generated.houses import SPLITS, house
from agentgym.virtualhome.hindsight import Chore, split_id, with_chore

#: Default number of activities that `reset` draws from.
NUM_ACTIVITIES: Final[dict[str, int]] = {"train": 4080, "valid_seen": 204, "valid_unseen": 204}
#: Maximum length of a plan; activities with longer ones are discarded.
MOST_COMMANDS: Final = 30
#: Step to the next house when a house has no activity of a family, and number of ideas tried per house.
_NEXT_HOUSE: Final = 1_000_000
_IDEAS: Final = 3
_ID: Final = re.compile(rf"({'|'.join(SPLITS)})/({'|'.join(FAMILIES)})/(0|[1-9][0-9]{{0,99}})")


class GeneratedActivities(OfTypes):
    """The generated activities; task_id "<split>/<family>/<number>".

    Families alternate: consecutive activities are one of each family, in houses of the same number if possible.
    "valid_unseen" has other pairs of family and main class (`families.HELD_OUT`) than "train" and "valid_seen"; no two
    splits share a house. task_ids beyond `num_activities` are valid too.
    """

    first = "train"
    task_types = FAMILIES

    def __init__(self, *, house_seed: int = 0, num_activities: int | None = None) -> None:
        self._seed = whole("house_seed", house_seed, 0)
        self._number = None if num_activities is None else whole("num_activities", num_activities, 1)
        self._kinds = FAMILIES
        self.splits = tuple(SPLITS)
        self.name = f"the generated activities (num_activities={num_activities})"

    def count(self, split: str) -> int:
        return _turns(split, self._number, self._kinds)[1]

    def by_index(self, split: str, index: int) -> Activity:
        families, count = _turns(split, self._number, self._kinds)
        if index >= count:
            raise IndexError(index)
        turn, position = divmod(index, len(families))
        return _activity(self._seed, split, families[position], turn)

    def by_id(self, task_id: str, split: str | None) -> Activity:
        task_id, chore = split_id(task_id)
        if chore:
            return with_chore(self.by_id(task_id, split), chore)
        found = _ID.fullmatch(task_id)
        if not found or (found[1] == "valid_unseen" and not HELD_OUT[found[2]]):
            raise ValueError(
                f"unknown task_id {task_id!r:.200}: expected '<split>/<family>/<number>', such as 'train/place/0'; "
                f"splits: {', '.join(SPLITS)}; families: {', '.join(FAMILIES)}"
            )
        if split is not None and split != found[1]:
            raise ValueError(f"the activity {task_id!r:.200} belongs to split {found[1]!r}, not to {split!r}")
        return _activity(self._seed, found[1], found[2], int(found[3]))

    def ids(self, split: str) -> Iterator[str]:
        families, count = _turns(split, self._number, self._kinds)
        turns = ((family, turn) for turn in itertools.count() for family in families)
        return (f"{split}/{family}/{turn}" for family, turn in itertools.islice(turns, count))

    def same_split(self, activity: Activity, chore: Chore) -> bool:
        names, held_out = activity.scene.names, HELD_OUT[chore.family]
        unseen = activity.task_id.startswith("valid_unseen/")
        return all((names[thing] in held_out) == unseen for thing in chore.things)


@lru_cache(maxsize=64)
def _turns(split: str, number: int | None, kinds: tuple[str, ...]) -> tuple[list[str], int]:
    """Return the families that take turns in a split, and how many activities it has."""
    known = [family for family in FAMILIES if split != "valid_unseen" or HELD_OUT[family]]
    turns, rest = divmod(NUM_ACTIVITIES[split] if number is None else number, len(known))
    families = [family for family in known if family in kinds]
    return families, turns * len(families) + sum(family in kinds for family in known[:rest])


@lru_cache(maxsize=4096)
def _activity(seed: int, split: str, family: str, number: int) -> Activity:
    draws = Draws.seeded(seed, list(SPLITS).index(split), FAMILIES.index(family), number, 1)
    task_id = f"{split}/{family}/{number}"
    for home_number in itertools.count(number, _NEXT_HOUSE):
        home = house(split, home_number, seed)
        choice = Choice(home, draws, family, split == "valid_unseen")
        for _ in range(_IDEAS):
            idea = choice.idea()
            if idea is None:
                break
            activity = Activity(task_id, family, idea.sentence, idea.sentence, home.lexicon, idea.goal, ())
            commands = None if activity.tests.at_start else plan(activity, activity.world())
            if commands and len(commands) <= MOST_COMMANDS:
                found = replace(activity, program=commands)
                vars(found)["tests"] = activity.tests  # the goal is the same
                return found
    raise AssertionError("there is always another house")
