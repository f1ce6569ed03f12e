"""Tables for tests of credit: written as text, one episode per line, so that a test shows its whole rollout; and drawn.

Random rollouts are walks over small graphs with loops, refused and looking actions and every kind of ending, or have
branches, and branches of branches.
"""

import math
from collections import Counter
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


ACTIONS = ("a", "b", "c", "look around", "examine box 1")


def random_table(
    seed: int, *, groups: int = 4, size: int = 5, steps: int = 12, states: int = 8, win: float = 0.25, goals: int = 1,
    clean: bool = False,
) -> StepTable:  # fmt: skip
    """Groups of random walks over shared state names.

    Args:
        seed: of the draws.
        groups: number of groups; each has its own transitions over the same state names.
        size: episodes per group.
        steps: limit of an episode.
        states: number of states.
        win: chance that a step into the last state wins.
        goals: number of success states; the more, the less often two wins end alike.
        clean: only valid steps that change the state, each seen as it is.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for group in range(groups):
        to = rng.integers(0, states, (states, 3))
        if clean:
            to = (np.arange(states)[:, None] + rng.integers(1, states, (states, 3))) % states
        for episode in range(size):
            at, shown, won, mine = 0, "s0", False, []
            for t in range(int(rng.integers(1, steps + 1))):
                action = int(rng.integers(0, 3 if clean else 5))
                valid = clean or bool(rng.random() > 0.2)
                before = shown
                if not valid:
                    shown = "Nothing happens."
                elif action >= 3:
                    shown = f"{ACTIONS[action]} at s{at}"
                else:
                    at = int(to[at, action])
                    won = at == states - 1 and bool(rng.random() < win)
                    shown = f"s{at}"
                    if won:
                        shown = "goal" if goals == 1 else f"goal {rng.integers(goals)}"
                mine.append([f"g{group}", f"e{group}.{episode}", t, before, ACTIONS[action], shown, float(won), valid])
                if won:
                    break
            rows += [[*row, won] for row in mine]
    return of_rows("group trajectory t state action next_state reward valid won", rows)


def rebuild(table: StepTable, rows: np.ndarray, rename=str, relabel=str) -> StepTable:
    """The given rows of a table, in that order, with other state names, other labels of groups and trajectories.

    Rows of whole groups, or all, where trajectories are cut from others.
    """
    names, kept = [relabel(name) for name in table.trajectories], set(table.trajectory[rows].tolist())
    return StepTable.from_arrays(
        group=[relabel(table.groups[i]) for i in table.group[rows]],
        trajectory=[names[i] for i in table.trajectory[rows]],
        state=[rename(table.states[i]) for i in table.state[rows]],
        action=[table.actions[i] for i in table.action[rows]],
        next_state=[rename(table.states[i]) for i in table.next_state[rows]],
        **{name: getattr(table, name)[rows] for name in ("t", "reward", "valid", "won", "terminated", "truncated")},
        parent={
            names[i]: (names[table.trajectory[cut]], int(table.t[cut]))
            for i, cut in enumerate(table.parent)
            if cut >= 0 and i in kept
        },
    )


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
