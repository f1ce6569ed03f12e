"""Random rollouts with branches, and branches of branches, for property tests."""

import math
from collections import Counter

import numpy as np

from agentgym.trajectory import StepTable
from tests.wrappers.credit.random_tables import ACTIONS, random_table
from tests.wrappers.credit.small_tables import episodes, of_rows


def random_trees(seed: int, *, branches: int = 12, win: float = 0.25, **options) -> StepTable:
    """The rollouts of `random_table`, with trajectories cut after random steps, of roots and of branches.

    Args:
        seed: of the draws.
        branches: how many trajectories are cut.
        win: chance that an episode is won.
        **options: of `random_table`.
    """
    rng = np.random.default_rng(seed)
    rows = [
        (each.group, each.trajectory, s.t, s.state, s.action, s.next_state, s.reward, s.valid, each.won)
        for each in random_table(seed, win=win, **options).to_trajectories()
        for s in each.steps
    ]
    parent = {}
    for number in range(branches):
        lengths = Counter(row[1] for row in rows)
        long = [name for name, length in lengths.items() if length > 1]  # nothing goes on from the end of an episode
        if not long:
            break
        name = long[rng.integers(len(long))]
        own = [row for row in rows if row[1] == name]
        group, _, t, _, _, state, *_ = own[rng.integers(len(own) - 1)]
        branch, won, length = f"{name}/{number}", bool(rng.random() < win), int(rng.integers(1, 6))
        parent[branch] = (name, t)
        for step in range(length):
            over = step == length - 1
            after = "goal" if won and over else f"s{rng.integers(8)}"
            action, valid = ACTIONS[rng.integers(5)], bool(rng.random() > 0.2)
            rows.append((group, branch, t + 1 + step, state, action, after, float(won and over), valid, won))
            state = after
    return of_rows("group trajectory t state action next_state reward valid won", rows, parent=parent)


def rollouts(p):
    """Every root of two steps, a branch at its second one and another root; action 1 of step i has the chance p[i].

    Yields the probability, the actions, and the table.
    """
    for actions in np.ndindex(2, 2, 2, 2, 2):
        a0, a1, b1, c0, c1 = actions
        chances = [p[i] if action else 1 - p[i] for i, action in zip((0, 1, 1, 0, 1), actions, strict=True)]
        table = episodes(f"s -{a0}-> {a0} -{a1}-> end", f"0.0: {a0} -{b1}-> end", f"s -{c0}-> {c0} -{c1}-> end")
        yield math.prod(chances), actions, table
