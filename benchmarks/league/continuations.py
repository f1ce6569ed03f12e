"""The truth of a step where no distance is known: what it was worth to the player who took it, by Monte-Carlo.

    A(s, a) = Q(s, a) - V(s)

Q is the mean return of continuations in which the first step is a, V of those in which the player chooses it too; both
begin in the same saved environment, the earliest visit of s in the task, which has the most time left. The k-th
continuations of all states and actions of a task meet the same random numbers step by step, so that differences are
not those of luck: one whose player chooses a by itself is the one of Q, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from agentgym.rollout.tree import Continuation, continued
from agentgym.trajectory import Floats, Ints, Reply, StepTable
from benchmarks.json_files import ResultsError
from benchmarks.league.episodes import Played, choices_of, earliest, states_of
from wrappers.credit.group import first_rows
from wrappers.credit.returns import discounted_returns

#: First names of random numbers: those of the truth, and those of the continuations that `vine` may use.
TRUTH, METHOD = 3, 4
#: Continuations that are played, recorded and forgotten together.
_AT_ONCE = 8192
#: Decimals of a value: what is left of rounding is no difference.
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Values:
    """What the choices of a table were worth, by each continuation.

    Attributes:
        state, choice: int64 (N,), state and choice of every row, see `benchmarks.league.episodes`.
        of_states: float64 (states, K, discounts), returns of the continuations from each state.
        of_choices: float64 (choices, K, discounts), of those that begin with a choice.
        state_of: int64 (choices,), the state of each choice.
        steps: steps that were played for them.
    """

    state: Ints
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
        """Return the standard error of every row's advantage, float64 (N,)."""
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
    progress: Callable[[str], None] = lambda words: None,
) -> Values:
    """Play on from every state and every choice of the episodes, `count` times each.

    Args:
        played: the episodes.
        count: continuations of each, at least 2.
        discounts: of returns, one or several.
        outcome: what an episode is worth, see `benchmarks.league.players.LeagueEnv`.
        seed: of the continuations.
        progress: called with a few words.
    """
    table = played.table
    (state, n_states), (choice, _) = states_of(table), choices_of(table)
    visit, taken = earliest(state, table.t), earliest(choice, table.t)
    begins = np.concatenate((visit, visit[state[taken]]))
    replies: list[Reply | None] = [None] * n_states + [_reply(table, row) for row in taken.tolist()]
    returns = np.empty((len(begins), count, len(discounts)))
    size, steps = max(1, _AT_ONCE // count), 0
    for start in range(0, len(begins), size):
        progress(f"continuations of {start} of {len(begins)} states and choices")
        chunk = range(start, min(start + size, len(begins)))
        found = _continued(played, [(int(begins[i]), replies[i]) for i in chunk], count, TRUTH, seed)
        returns[chunk.start : chunk.stop] = outcomes(found, discounts, outcome).reshape(len(chunk), count, -1)
        steps += len(found)
    return Values(state, choice, returns[:n_states], returns[n_states:], state[taken], steps)


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
    reward = table.reward
    if outcome == "won":
        reward = np.zeros(len(table))
        reward[table.last] = table.trajectory_won
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
        raise ResultsError(f"{len(plan) - found.n_trajectories} of {len(plan)} continuations could not be scored")
    return found
