"""Evaluation: how a policy plays a fixed list of tasks, task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agentgym.rollout import Policy, collect
from agentgym.trajectory import StepTable


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Outcomes of n tasks, each played `repeats` times; rows keep the order of the tasks.

    Attributes:
        success: bool (n, repeats).
        returns: float64 (n, repeats), undiscounted sums of rewards.
        lengths: int64 (n, repeats), steps.
        invalid: int64 (n, repeats), steps whose action the environment did not accept.
    """

    success: NDArray[np.bool_]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    invalid: NDArray[np.int64]

    @classmethod
    def from_table(cls, table: StepTable) -> Evaluation:
        """Read the outcomes off a table whose groups all have the same number of trajectories.

        Raises:
            ValueError: groups of different sizes, or no trajectories.
        """
        sizes = np.bincount(table.trajectory_group, minlength=table.n_groups)
        if not len(sizes) or sizes.min() != sizes.max():
            raise ValueError(f"expected groups of one size, got sizes {sorted(set(sizes.tolist()))}")
        order = np.argsort(table.trajectory_group, kind="stable")
        shape = (table.n_groups, int(sizes[0]))
        invalid = np.bincount(table.trajectory, weights=~table.valid, minlength=table.n_trajectories)
        return cls(
            success=table.trajectory_won[order].reshape(shape),
            returns=table.trajectory_return[order].reshape(shape),
            lengths=np.diff(table.offsets)[order].reshape(shape),
            invalid=invalid.astype(np.int64)[order].reshape(shape),
        )

    @property
    def success_rate(self) -> float:
        """Share of episodes that succeeded."""
        return float(self.success.mean())

    def summary(self) -> dict[str, float]:
        """Return success, mean_return, episode_length and invalid_rate (per step), as a trainer logs them."""
        return {
            "success": self.success_rate,
            "mean_return": float(self.returns.mean()),
            "episode_length": float(self.lengths.mean()),
            "invalid_rate": float(self.invalid.sum() / self.lengths.sum()),
        }


def evaluate(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    policy: Policy,
    tasks: Sequence[Mapping[str, Any]],
    *,
    seed: int,
    temperature: float | None = None,
    repeats: int = 1,
) -> Evaluation:
    """Play every task and return the outcomes per task.

    Args:
        envs: as `agentgym.rollout.collect` takes them: autoreset DISABLED, wrapped for the policy.
        policy: who plays.
        tasks: reset options, one mapping per task.
        seed: of the episodes and the draws.
        temperature: overrides the policy's own, 0 = greedy; needs a policy with `with_settings`.
        repeats: episodes per task.

    Raises:
        TypeError: a temperature was given and the policy has none.
    """
    return Evaluation.from_table(
        collect(envs, at_temperature(policy, temperature), tasks=tasks, group_size=repeats, seed=seed)
    )


def at_temperature(policy: Policy, temperature: float | None) -> Policy:
    """Return the policy under another temperature, weights shared; unchanged for None."""
    if temperature is None:
        return policy
    change = getattr(policy, "with_settings", None)
    if change is None:
        raise TypeError(f"{type(policy).__name__} has no temperature to override; leave temperature=None")
    changed: Policy = change(temperature=temperature)
    return changed
