"""Random rollouts for property tests: small graphs with loops, refused and looking actions, every kind of ending."""

import numpy as np

from agentgym.trajectory import StepTable
from tests.wrappers.credit.small_tables import of_rows

ACTIONS = ("a", "b", "c", "look around", "examine box 1")


def random_table(
    seed: int,
    *,
    groups: int = 4,
    size: int = 5,
    steps: int = 12,
    states: int = 8,
    win: float = 0.25,
    goals: int = 1,
    clean: bool = False,
) -> StepTable:
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


def random_turns(
    rng: np.random.Generator, n: int, width: int, gap: int, longest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[list[slice]]]:
    """Turns in sequences of tokens, with up to `gap - 1` masked tokens before each.

    Returns:
        rewards at the ends of turns (n, width), the mask and the ends of turns (n, width), and the turns of each row.
    """
    rewards, turns = np.zeros((n, width)), []
    mask, ends = np.zeros((n, width), bool), np.zeros((n, width), bool)
    for row in range(n):
        at, mine = 0, []
        for _ in range(rng.integers(0, 5)):
            at += int(rng.integers(0, gap))
            mine.append(slice(at, at + int(rng.integers(1, longest + 1))))
            at = mine[-1].stop
            mask[row, mine[-1]] = ends[row, at - 1] = True
            rewards[row, at - 1] = rng.choice([0.0, 1.0, -0.1])
        turns.append(mine)
    return rewards, mask, ends, turns
