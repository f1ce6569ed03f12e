"""Tables written as text: one episode per line, so that a test shows its whole rollout; and `close`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import StepTable


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
    trajectory, t, state, action, next_state, valid, won = zip(*rows, strict=True)
    table = StepTable.from_arrays(
        group=[0] * len(rows), trajectory=trajectory, t=t, state=state, action=action, next_state=next_state,
        valid=valid, won=won, reward=np.zeros(len(rows)), parent=parent,
    )  # fmt: skip
    table.reward[table.last[table.trajectory_won]] = reward
    return table


def groups_of(*returns: Sequence[float]) -> StepTable:
    """One group per list: an episode of one step for each return; those above 1/2 are won."""
    group = [i for i, values in enumerate(returns) for _ in values]
    reward = [value for values in returns for value in values]
    n = len(group)
    return StepTable.from_arrays(
        group=group, trajectory=range(n), t=[0] * n, state=["s"] * n, action=["a"] * n,
        next_state=["goal" if value > 0.5 else "pit" for value in reward], reward=reward, won=np.array(reward) > 0.5,
    )  # fmt: skip


def close(found: ArrayLike, expected: ArrayLike, atol: float = 1e-9) -> None:
    """Check that numbers are equal but for rounding, nan where nan is expected."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
