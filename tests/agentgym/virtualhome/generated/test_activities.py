import pytest

from agentgym.virtualhome.generated.activities import MOST_COMMANDS, NUM_ACTIVITIES, GeneratedActivities
from agentgym.virtualhome.generated.families import FAMILIES, HELD_OUT
from agentgym.virtualhome.generated.houses import SPLITS
from tests.agentgym.virtualhome.small_houses import replay
from tests.refusals import refuses

ALL = GeneratedActivities()


@pytest.mark.parametrize("split", SPLITS)
def test_programs_achieve_their_goals_and_not_before_the_last_command(split: str) -> None:
    for index in range(34):
        activity = ALL.by_index(split, index)
        assert 1 < len(activity.program) <= MOST_COMMANDS
        scores = replay(activity, activity.program)
        assert scores[-1] == 1.0
        assert max(scores[:-1]) < 1.0


def test_families_take_turns_types_narrow_and_counts() -> None:
    kinds = [ALL.by_index("train", index).task_type for index in range(34)]
    assert kinds == [*FAMILIES] * 2
    unseen = [family for family in FAMILIES if HELD_OUT[family]]
    assert [ALL.by_index("valid_unseen", index).task_type for index in range(len(unseen))] == unseen
    few = GeneratedActivities(num_activities=40).of_types(("read", "place"))
    # 40 of 17 families: two whole turns and one more of the first six; "place" is the first, "read" the eleventh
    assert few.count("train") == 5
    ids = ["train/place/0", "train/read/0", "train/place/1", "train/read/1", "train/place/2"]
    assert list(few.ids("train")) == ids
    assert [few.by_index("train", index).task_id for index in range(5)] == ids
    with pytest.raises(IndexError):
        few.by_index("train", 5)
    assert few.by_id("train/wash/3", None) is ALL.by_id("train/wash/3", "train")
    assert {split: ALL.count(split) for split in SPLITS} == NUM_ACTIVITIES
    assert GeneratedActivities(num_activities=7).count("valid_seen") == 7
    assert ALL.of_types(("work",)).count("valid_unseen") == 0


@pytest.mark.parametrize(
    "task_id", ["", "train", "train/fly/0", "train/place/00", "train/place/-1", "test/place/0", "valid_unseen/work/0"]
)
def test_ids_that_are_none(task_id: str) -> None:
    refuses(ValueError, "'train/place/0'", ALL.by_id, task_id, None)


def test_ids_of_another_split_and_beyond_the_count() -> None:
    refuses(ValueError, "belongs to split 'train', not to 'valid_seen'", ALL.by_id, "train/place/0", "valid_seen")
    assert ALL.by_id("train/place/123456789012", None).task_id == "train/place/123456789012"
    first, other = ALL.by_index("train", 0), GeneratedActivities(house_seed=1).by_index("train", 0)
    assert first.scene.names != other.scene.names
    refuses(ValueError, "house_seed", GeneratedActivities, house_seed=-1)
