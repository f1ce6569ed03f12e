"""How a dialogue went for one side, and what that is worth."""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

from agentgym.checks import check_name
from agentgym.sotopia.dialogue import DIMENSIONS, Failure, Verdict

#: What a reward may be: the goal score in 0..1, whether it is high enough, or the mean of all dimensions.
REWARDS = ("goal", "success", "overall")


class Result(NamedTuple):
    """A judge's verdict, seen from one side.

    Attributes:
        dimensions: own scores, in the order of `dialogue.DIMENSIONS`.
        partner_goal: goal score of the other.
        failure: why there is no verdict, all scores are then 0 and mean nothing; "" when there is one.
    """

    dimensions: tuple[float, ...] = (0.0,) * len(DIMENSIONS)
    partner_goal: float = 0.0
    failure: str = ""

    @property
    def goal(self) -> float:
        """Own goal score, 0..10."""
        return self.dimensions[-1]

    def won(self, threshold: float) -> bool:
        """Say whether the own goal score is above a threshold."""
        return self.goal > threshold

    def reward(self, form: str, threshold: float) -> float:
        """Return the reward in a form of `REWARDS`; 0 without a verdict.

        >>> Result((9.0, 2.0, 3.0, 0.0, 0.0, 1.0, 6.0)).reward("overall", 6)
        3.0
        """
        if self.failure:
            return 0.0
        if form == "goal":
            return self.goal / 10
        if form == "success":
            return float(self.won(threshold))
        return sum(self.dimensions) / len(self.dimensions)


def result_of(given: object, role: int) -> Result:
    """Return what a judge's answer means for a role: a verdict, a `Failure`, or anything else, which is one too."""
    if isinstance(given, Failure):
        return failed("judge", given)
    if not isinstance(given, Verdict):
        return failed("judge", Failure(f"its answer, a {type(given).__name__}, is no verdict"))
    try:
        mine, theirs = (tuple([float(score) for score in given.ratings[each]]) for each in (role, 1 - role))
    except (TypeError, ValueError, OverflowError):
        mine = theirs = (math.nan,)
    if not all(map(math.isfinite, mine + theirs)):
        return failed("judge", Failure("a score of its verdict is no finite number"))
    for scores in (mine, theirs):
        if len(scores) != len(DIMENSIONS):
            return failed("judge", Failure(f"its verdict has {len(scores)} scores a side, expected {len(DIMENSIONS)}"))
        for (name, (lowest, highest)), score in zip(DIMENSIONS.items(), scores, strict=True):
            if not lowest <= score <= highest:
                return failed("judge", Failure(f"its score of {name}, {score:g}, is not in {lowest} to {highest}"))
    return Result(mine, theirs[-1])


def failed(who: str, failure: Failure) -> Result:
    """Return the result of a dialogue whose partner or judge failed.

    >>> failed("judge", Failure("no answer in 30 s", 3)).failure
    'judge: no answer in 30 s (tried 3 times)'
    """
    tried = f" (tried {failure.attempts} times)" if failure.attempts > 1 else ""
    return Result(failure=f"{who}: {failure.reason}{tried}")


def check_reward(form: object) -> str:
    """Return the name of a form of reward, or raise a ValueError that lists those there are."""
    return check_name(form, REWARDS, "reward")


def check_threshold(threshold: Any) -> float:
    """Return the goal score to be exceeded, or raise a ValueError when it cannot be."""
    number = isinstance(threshold, numbers.Real) and not isinstance(threshold, bool)
    value = float(threshold) if number else -1.0
    if not 0 <= value < 10:
        raise ValueError(f"success_threshold must be a number from 0 to below 10, got {threshold!r}")
    return value
