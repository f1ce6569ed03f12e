"""What `num_tasks` says is what `index` accepts, of any environment over any data."""

import re
from typing import Any

from tests.refusals import refuses


def refusal(env: Any, options: dict[str, Any]) -> str:
    """Reset, and return what is said against it."""
    return refuses(ValueError, r"\S", env.reset, seed=0, options=options)


def check_indices(env: Any, split: str) -> None:
    """Check the first and the last index of a split, and those just and far beyond."""
    count = env.num_tasks(split)
    assert count > 0
    for index in {0, count - 1}:
        assert env.reset(seed=0, options={"split": split, "index": index})[1]["task_id"]
    for index in (count, count + 1, 2**31, 2**63, 10**30):
        words = refusal(env, {"split": split, "index": index})
        assert re.search(rf"index {index} is out of range: split '{split}' of .* has {count} tasks, use 0 to", words)
