"""Finite decision processes whose player is known: values, advantages and policy gradients without error.

The player is a softmax over the admissible actions of each state. An episode is worth 1 where it is won. With a limit
of H steps, and V_H = 0,

    Q_t(s, a) = sum over s' of p(s' | s, a) (1 if s' is success else V_t+1(s'))
    A_t(s, a) = Q_t(s, a) - V_t(s)        V_t(s) = sum over a of pi(a | s) Q_t(s, a)
    dJ / d theta(s, a) = pi(a | s) sum over t of P(s_t = s) A_t(s, a)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from agentgym.sokoban.generated import LevelSpec, generate
from agentgym.sokoban.rules import DIRECTIONS, successor
from agentgym.trajectory import Floats, Ints, StepTable
from wrappers.distance import gained

WON, LOST = "[success]", "[failure]"
#: Of a state: by action, next states with their probabilities.
Outcomes = Callable[[Any], dict[str, list[tuple[float, Any]]]]
#: Discount of the values that the player's preferences are made of.
_GAMMA = 0.95


@dataclass(frozen=True, eq=False)
class Process:
    """A decision process with its player: S states, the first one is the start, and A actions, at most `horizon` steps.

    `moves` are float64 (S, A, S + 2), probabilities of next states, the last two success and failure; `policy` is
    float64 (S, A), 0 where an action is not admissible.
    """

    moves: Floats
    policy: Floats
    horizon: int
    states: tuple[Hashable, ...]
    actions: tuple[str, ...]

    @classmethod
    def of(cls, start: Hashable, outcomes: Outcomes, horizon: int, sharpness: float = 0.0) -> Process:
        """Explore a process; its player is a softmax of the best discounted values, times `sharpness` (0: uniform)."""
        found: dict[Hashable, dict[str, list[tuple[float, Any]]]] = {}
        ahead: list[Any] = [start]
        while ahead:
            state = ahead.pop(0)
            if state not in found:
                found[state] = outcomes(state)
                reached = [after for branches in found[state].values() for _, after in branches]
                ahead += [after for after in reached if after not in (WON, LOST)]
        actions = tuple(dict.fromkeys(action for branches in found.values() for action in branches))
        number = {state: i for i, state in enumerate((*found, WON, LOST))}
        moves = np.zeros((len(found), len(actions), len(number)))
        for state, branches in found.items():
            for action, after in branches.items():
                for p, reached_state in after:
                    moves[number[state], actions.index(action), number[reached_state]] += p
        admissible = moves.sum(2) > 0
        best = np.zeros(len(found))
        for _ in range(horizon):
            quality = moves[:, :, -2] + _GAMMA * moves[:, :, :-2] @ best
            best = np.where(admissible, quality, -np.inf).max(1)
        weights = np.where(admissible, np.exp(sharpness * (quality - best[:, None])), 0.0)
        return cls(moves, weights / weights.sum(1, keepdims=True), horizon, tuple(found), actions)

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """Q, float64 (H, S, A), and V, float64 (H, S), by backward induction."""
        quality = np.empty((self.horizon, *self.policy.shape))
        value = np.zeros((self.horizon + 1, len(self.policy)))
        for t in reversed(range(self.horizon)):
            quality[t] = self.moves[:, :, -2] + self.moves[:, :, :-2] @ value[t + 1]
            value[t] = (self.policy * quality[t]).sum(1)
        return quality, value[:-1]

    @cached_property
    def advantages(self) -> Floats:
        """Q - V, float64 (H, S, A); rounding of equal values is removed."""
        quality, value = self.values
        found = quality - value[:, :, None]
        return np.where(np.abs(found) < 1e-12, 0.0, found)

    @cached_property
    def visits(self) -> Floats:
        """Probability that the episode is in a state after t steps, float64 (H, S)."""
        found = np.zeros((self.horizon, len(self.policy)))
        found[0, 0] = 1.0
        step = np.einsum("sa,sax->sx", self.policy, self.moves[:, :, :-2])
        for t in range(1, self.horizon):
            found[t] = found[t - 1] @ step
        return found

    @cached_property
    def gradient(self) -> Floats:
        """Derivatives of the probability of success by the preferences of the softmax, float64 (S, A)."""
        return np.asarray(self.policy * np.einsum("ts,tsa->sa", self.visits, self.advantages), np.float64)

    @cached_property
    def distances(self) -> Floats:
        """Fewest steps to success if chance is kind, float64 (S + 2,); inf where there is no way."""
        found = np.full(len(self.policy) + 2, np.inf)
        found[-2] = 0.0
        reached = self.moves.max(1) > 0
        for _ in range(len(self.policy)):
            found[:-2] = np.minimum(found[:-2], 1 + np.where(reached, found, np.inf).min(1))
        return found

    def play(self, episodes: int, rng: np.random.Generator) -> StepTable:
        """Return episodes of one group; ids of states and actions are their numbers."""
        state, running = np.zeros(episodes, np.int64), np.arange(episodes)
        won, rows = np.zeros(episodes, np.bool_), list[tuple[Ints, ...]]()
        chosen, moved = self.policy.cumsum(1), self.moves.cumsum(2)
        for t in range(self.horizon):
            at = state[running]
            action = _drawn(chosen[at], rng)
            after = _drawn(moved[at, action], rng)
            rows.append((running, np.full(len(running), t), at, action, after))
            state[running] = after
            won[running[after == len(self.policy)]] = True
            running = running[after < len(self.policy)]
        columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        episode, step, before, action, after = (column[order] for column in columns)
        success = after == len(self.policy)
        return StepTable.from_arrays(
            group=np.zeros(len(episode), np.int64), trajectory=episode, t=step, state=before, action=action,
            next_state=after, reward=success.astype(np.float64), won=won[episode],
            truncated=(step == self.horizon - 1) & (after < len(self.policy)),
        )  # fmt: skip

    def rows(self, table: StepTable) -> tuple[Ints, Ints, Ints, Ints]:
        """Return t, state, action and next state of each row of `play`, int64 (N,)."""
        states, actions = np.array(table.states), np.array(table.actions)
        return table.t, states[table.state], actions[table.action], states[table.next_state]

    def truth(self, table: StepTable) -> Floats:
        t, state, action, _ = self.rows(table)
        return np.asarray(self.advantages[t, state, action], np.float64)

    def distance_gain(self, table: StepTable) -> Floats:
        """Return by how much each row came nearer to success, float64 (N,); into a dead end is the worst there is."""
        _, state, _, after = self.rows(table)
        found = gained(self.distances[state], self.distances[after])
        return np.maximum(found, -float(self.distances[np.isfinite(self.distances)].max()))

    def sampling_error(self, count: int) -> float:
        """Return the root mean squared error of Q - V over steps, each by `count` independent continuations.

        A return is 0 or 1: the variance of a mean is p (1 - p) / count.
        """
        quality, value = self.values
        variance = (quality * (1 - quality) + (value * (1 - value))[:, :, None]) / count
        weight = self.visits[:, :, None] * self.policy
        return float(np.sqrt((weight * variance).sum() / weight.sum()))


def _drawn(cumulated: Floats, rng: np.random.Generator) -> Ints:
    """Draw one number per row of cumulated probabilities."""
    u = rng.random(len(cumulated)) * cumulated[:, -1]
    return np.asarray((cumulated <= u[:, None]).sum(1), np.int64)


def delayed(state: Any) -> dict[str, list[tuple[float, Any]]]:
    """A key is taken or left; four steps without effect follow; a door opens with probability .9, or .2 without it."""
    if state == "start":
        return {"take": [(1.0, ("key", 0))], "leave": [(1.0, ("none", 0))]}
    held, step = state
    chance = 0.9 if held == "key" else 0.2
    after = [(1.0, (held, step + 1))] if step < 4 else [(chance, WON), (1 - chance, LOST)]
    return {"left": after, "right": after}


def recovery(state: Any) -> dict[str, list[tuple[float, Any]]]:
    """Three rooms; a wrong move falls into the room's ditch, out of which a climb succeeds one time in two."""
    room, fallen = state
    if fallen:
        return {"climb": [(0.5, (room, False)), (0.5, state)], "wait": [(1.0, state)]}
    return {"on": [(1.0, (room + 1, False) if room < 2 else WON)], "off": [(1.0, (room, True))]}


def varying(state: Any) -> dict[str, list[tuple[float, Any]]]:
    """A short way is won with probability .5 after one step; a long one surely after five, if it is not given up."""
    if state == 0:
        return {"short": [(0.5, WON), (0.5, LOST)], "long": [(1.0, 1)]}
    return {"go on": [(1.0, state + 1 if state < 4 else WON)], "give up": [(1.0, LOST)]}


def frozen_lake() -> Process:
    """Return Gymnasium's `FrozenLake-v1`, 4x4 and slippery: a move goes where it should one time in three."""
    import gymnasium as gym

    lake: Any = gym.make("FrozenLake-v1", is_slippery=True).unwrapped

    def outcomes(tile: Any) -> dict[str, list[tuple[float, Any]]]:
        return {
            move: [(p, WON if reward else LOST if ended else after) for p, after, reward, ended in lake.P[tile][i]]
            for i, move in enumerate(("left", "down", "right", "up"))
        }

    return Process.of(0, outcomes, 100, 60.0)


def sokoban(index: int) -> Process:
    """Return a generated validation level of 6x6 cells with one box; admissible moves change the board."""
    [level] = generate(1, LevelSpec(boxes=(1,)), "validation", index)

    def outcomes(state: Any) -> dict[str, list[tuple[float, Any]]]:
        player, boxes = state
        found = {move: successor(level, player, boxes, i) for i, move in enumerate(DIRECTIONS)}
        return {move: [(1.0, WON if after[1] == level.targets else after)] for move, after in found.items() if after}

    return Process.of((level.player, level.boxes), outcomes, 20, 10.0)


PROCESSES: dict[str, Callable[[], Process]] = {
    "delayed effect": lambda: Process.of("start", delayed, 6),
    "recovery": lambda: Process.of((0, False), recovery, 8),
    "varying length": lambda: Process.of(0, varying, 5),
    "frozen lake": frozen_lake,
    "sokoban 0": lambda: sokoban(0),
    "sokoban 1": lambda: sokoban(1),
}
