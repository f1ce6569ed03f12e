"""Tables written as text: one episode per line, so that a test shows its whole rollout."""

import numpy as np

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
