"""Tables written as text: one episode per line, so that a test shows its whole rollout; tables of rows; and `close`."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import StepTable
from tests.playing import filled

#: A root that won with continuations from its first and second step, and a root that lost; see `episodes`.
TREE = (
    "s -a-> u -b-> v -c-> goal +", "0.0: u -d-> pit", "0.0: u -e-> goal +", "0.1: v -f-> pit", "s -g-> pit",
)  # fmt: skip


def of_rows(names: str, rows: Iterable[Sequence[Any]], **columns: Any) -> StepTable:
    """The table of rows whose entries have these names; where others are missing nothing is earned and nothing won."""
    return filled(**dict(zip(names.split(), zip(*rows, strict=True), strict=True)), **columns)


def episodes(*lines: str, reward: float = 1.0) -> StepTable:
    """One group; an episode reads `"s -right-> u -up!-> u -up-> goal +"`.

    `!` after an action: not valid; `+` at the end: won, and the last step is rewarded; `0.2:` before all: cut from
    episode 0 after its step t = 2.
    """
    rows, parent = [], {}
    for number, line in enumerate(lines):
        words, begin = line.split(), 0
        if words[0].endswith(":"):
            above, cut = map(int, words.pop(0).rstrip(":").split("."))
            parent[number], begin = (above, cut), cut + 1
        won = words[-1] == "+"
        words = words[: len(words) - won]
        for t in range(len(words) // 2):
            state, arrow, target = words[2 * t : 2 * t + 3]
            action = arrow.removeprefix("-").removesuffix("->")
            rows.append((number, begin + t, state, action.rstrip("!"), target, not action.endswith("!"), won))
    table = of_rows("trajectory t state action next_state valid won", rows, parent=parent)
    table.reward[table.last[table.trajectory_won]] = reward
    return table


def groups_of(*returns: Sequence[float]) -> StepTable:
    """One group per list: an episode of one step for each return; those above 1/2 are won."""
    group = [i for i, values in enumerate(returns) for _ in values]
    reward = [value for values in returns for value in values]
    won, n = np.array(reward) > 0.5, len(group)
    return filled(group=group, trajectory=range(n), t=[0] * n, next_state=np.where(won, 1, 2), reward=reward, won=won)


def close(found: ArrayLike, expected: ArrayLike, atol: float = 1e-9) -> None:
    """Check that numbers are equal but for rounding, nan where nan is expected."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
