"""What steps are worth to the player who took them: values of states and choices by Monte-Carlo.

    A(s, a) = Q(s, a) - V(s)

Q is the mean return of continuations in which the first step is a, V of those in which the player chooses it too; both
begin in the same saved environment, the earliest visit of s in the task, which has the most time left. The k-th
continuations of all states and actions of a task meet the same random numbers step by step, so that differences are
not those of luck: where the player chooses a by itself, both continuations are the same to the bit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from agentgym.outside.text import DataError
from agentgym.rollout import Policy
from agentgym.rollout.groups import play_groups, warn_of_unscored
from agentgym.rollout.tree import Continuation, SavedSteps, continued
from agentgym.trajectory import Floats, Ints, Reply, StepTable
from wrappers.credit.forks import at_end, first_rows
from wrappers.credit.group import choices_of, states_of
from wrappers.credit.returns import discounted_returns

#: First names of random numbers: those of values, and those of the continuations that `vine` may use.
VALUE, METHOD = 3, 4
#: Continuations that are played, recorded and forgotten together.
_AT_ONCE = 8192
#: Decimals of a value; smaller differences are rounding.
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Played:
    """Episodes of one player; a group of the table is a task.

    `saved` is the environment before each step, as `envs.snapshot` returned it, by trajectory and t.
    """

    envs: Any
    policy: Policy
    table: StepTable
    saved: dict[tuple[Any, int], Any]

    def snapshot(self, row: int) -> Any:
        return self.saved[self.table.trajectories[self.table.trajectory[row]], int(self.table.t[row])]


def play_saved(envs: Any, policy: Policy, tasks: Sequence[Mapping[str, Any]], group_size: int, seed: int) -> Played:
    """Play as `agentgym.rollout.collect` does, and keep the environment before each step."""
    kept = SavedSteps(envs)
    play_groups(envs, policy, kept.builder, tasks=tasks, group_size=group_size, seed=seed, before_step=kept.save)
    warn_of_unscored(kept.builder.unscored, kept.builder.started)
    return Played(envs, policy, kept.builder.table(), kept.saved)


@dataclass(frozen=True, eq=False)
class Values:
    """Returns of K continuations from each state and choice, float64 (states or choices, K, discounts).

    `choice` is that of every row (N,), `state_of` the state of each choice, `steps` what was played for them.
    """

    choice: Ints
    of_states: Floats
    of_choices: Floats
    state_of: Ints
    steps: int

    def advantages(self, discount: int, part: slice = slice(None)) -> Floats:
        """Return Q(s, a) - V(s) of every row, float64 (N,), by some of the continuations and one of the discounts."""
        gains = self._gains(discount)[:, part].mean(axis=1).round(_DIGITS)
        return np.asarray(gains[self.choice], np.float64)

    def errors(self, discount: int) -> Floats:
        gains = self._gains(discount)
        error = gains.std(axis=1, ddof=1) / np.sqrt(gains.shape[1])
        return np.asarray(error[self.choice], np.float64)

    def _gains(self, discount: int) -> Floats:
        return np.asarray(self.of_choices[:, :, discount] - self.of_states[self.state_of, :, discount], np.float64)


def monte_carlo(
    played: Played,
    count: int,
    discounts: tuple[float, ...],
    outcome: Literal["return", "won"],
    seed: int,
    progress: Callable[[int, int, str], None] = lambda done, total, words: None,
) -> Values:
    """Play on from every state and choice, `count` (at least 2) times; `outcome` is what an episode is worth."""
    table = played.table
    (state, n_states), (choice, _) = states_of(table), choices_of(table)
    visit, taken = earliest(state, table.t), earliest(choice, table.t)
    begins = np.concatenate((visit, visit[state[taken]]))
    replies: list[Reply | None] = [None] * n_states + [_reply(table, row) for row in taken.tolist()]
    returns = np.empty((len(begins), count, len(discounts)))
    size, steps = max(1, _AT_ONCE // count), 0
    for start in range(0, len(begins), size):
        progress(start, len(begins), "states and choices")
        chunk = range(start, min(start + size, len(begins)))
        found = _continued(played, [(int(begins[i]), replies[i]) for i in chunk], count, VALUE, seed)
        returns[chunk.start : chunk.stop] = outcomes(found, discounts, outcome).reshape(len(chunk), count, -1)
        steps += len(found)
    return Values(choice, returns[:n_states], returns[n_states:], state[taken], steps)


def state_continuations(played: Played, count: int, seed: int) -> StepTable:
    """Play on from the earliest visit of every state, `count` times each, with other numbers than the truth's."""
    state, _ = states_of(played.table)
    visits: list[tuple[int, Reply | None]] = [(row, None) for row in earliest(state, played.table.t).tolist()]
    return _continued(played, visits, count, METHOD, seed)


def outcomes(table: StepTable, discounts: tuple[float, ...], outcome: Literal["return", "won"]) -> Floats:
    """Return what each trajectory was worth at its beginning, float64 (M, discounts).

    >>> table = StepTable.from_arrays(group=["g"] * 2, trajectory=["a"] * 2, t=[0, 1], state=["s", "u"],
    ...     action=["go", "win"], next_state=["u", "goal"], reward=[-1, 4], won=[1, 1])
    >>> outcomes(table, (0.5, 1.0), "return"), outcomes(table, (0.5, 1.0), "won")
    (array([[1., 3.]]), array([[0.5, 1. ]]))
    """
    reward = at_end(table, table.trajectory_won) if outcome == "won" else table.reward
    first = first_rows(table)
    return np.stack([discounted_returns(table, gamma, reward)[first] for gamma in discounts], axis=1)


def _reply(table: StepTable, row: int) -> Reply:
    reply: Any = None if table.replies is None else table.replies[row]
    return Reply(str(table.actions[table.action[row]])) if reply is None else reply


def _continued(played: Played, begins: list[tuple[int, Reply | None]], count: int, name: int, seed: int) -> StepTable:
    """Play `count` continuations from before each of some rows; a reply is the first step's."""
    table = played.table
    plan = [
        Continuation(
            played.snapshot(row), table.groups[table.group[row]], None,
            *((name, int(table.group[row]), k),) * 2, reply,
        )
        for row, reply in begins
        for k in range(count)
    ]  # fmt: skip
    found = continued(played.envs, played.policy, plan, seed=seed)
    if found.n_trajectories < len(plan):
        raise DataError(f"{len(plan) - found.n_trajectories} of {len(plan)} continuations could not be scored")
    return found


def earliest(numbers: Ints, t: Ints) -> Ints:
    """Return the row of the smallest t of each number 0..n-1, the first one of several.

    >>> earliest(np.array([0, 1, 0, 1]), np.array([3, 2, 1, 2]))
    array([2, 1])
    """
    order = np.argsort(t, kind="stable")
    return np.asarray(order[np.unique(numbers[order], return_index=True)[1]], np.int64)
