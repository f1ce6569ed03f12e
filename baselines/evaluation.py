"""Evaluation: how a policy plays a fixed list of tasks, task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agentgym.rollout import Policy
from agentgym.rollout.groups import play_groups, playable, warn_of_unscored
from agentgym.rollout.lanes import collect_lanes
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import StepTable
from wrappers.credit.group import TOLERANCE


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Outcomes of n tasks, each played `repeats` times; rows keep the order of the tasks.

    Attributes:
        success: bool (n, repeats).
        returns, lengths: float64 and int64 (n, repeats), undiscounted sums of rewards, and steps.
        invalid: int64 (n, repeats), steps whose action the environment did not accept.
        columns: object arrays (n,), info entries of the tasks as they were after the reset, by name.
    """

    success: NDArray[np.bool_]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    invalid: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)

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

    def __repr__(self) -> str:
        shown = self.summary()
        return (
            f"Evaluation({self.success.shape[0]} tasks x {self.success.shape[1]}: {shown['success']:.1%} won, "
            f"{shown['invalid_rate']:.1%} of actions refused, return {shown['mean_return']:.3g}, "
            f"{shown['episode_length']:.1f} steps)"
        )

    @property
    def success_rate(self) -> float:
        return float(self.success.mean())

    @property
    def contrast(self) -> float:
        """Share of the groups whose episodes differ in success or in return."""
        spread = self.returns.max(1) - self.returns.min(1)
        differ = spread > TOLERANCE * np.abs(self.returns).max(1)
        return float((differ | (self.success.any(1) & ~self.success.all(1))).mean())

    def success_by(self, column: str) -> dict[Any, NDArray[np.bool_]]:
        """Return the outcomes of the tasks of each kind: value of the column -> bool (tasks of that kind, repeats).

        Args:
            column: one of the columns passed to `evaluate`, such as ALFWorld's "task_type".

        Raises:
            KeyError: it is not.

        >>> nothing = np.zeros((3, 1), np.int64)
        >>> kinds = {"kind": np.array(["cool", "heat", "cool"], dtype=object)}
        >>> played = Evaluation(np.array([[True], [True], [False]]), nothing.astype(float), nothing, nothing, kinds)
        >>> {kind: float(success.mean()) for kind, success in played.success_by("kind").items()}
        {'cool': 0.5, 'heat': 1.0}
        """
        if column not in self.columns:
            raise KeyError(f"no column {column!r}, only {sorted(self.columns)}: name it in evaluate(..., columns=...)")
        labels = self.columns[column]
        return {label: self.success[labels == label] for label in sorted(set(labels.tolist()))}

    def summary(self) -> dict[str, float]:
        return {
            "success": self.success_rate,
            "mean_return": float(self.returns.mean()),
            "episode_length": float(self.lengths.mean()),
            "invalid_rate": float(self.invalid.sum() / self.lengths.sum()),
        }


def evaluate(
    envs: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any] | Sequence[gym.vector.VectorEnv[Any, Any, Any]],
    policy: Policy, tasks: Sequence[Mapping[str, Any]], *, seed: int, temperature: float | None = None,
    repeats: int = 1, columns: Sequence[str] = (),
) -> Evaluation:  # fmt: skip
    """Play every task and return the outcomes per task.

    Args:
        envs: environments for `agentgym.rollout.collect`: autoreset DISABLED, wrapped for the policy. A sequence of
            them is played as lanes, see `agentgym.rollout.lanes.collect_lanes`.
        tasks: reset options, one mapping per task.
        temperature: overrides the policy's own, 0 = greedy; needs a policy with `with_settings`.
        columns: info entries to be kept for each task, see `Evaluation.success_by`.

    The first episode of a task uses the random numbers of the environment's seed; each further one uses its own.

    Raises:
        KeyError: the infos have no such entry.
        TypeError: a temperature was given and the policy has none.
        ValueError: columns were requested for lanes.
    """
    player = at_temperature(policy, temperature)
    if isinstance(envs, Sequence) and len(envs) != 1:
        if columns:
            raise ValueError(f"columns={tuple(columns)} are noted in one environment, and {len(envs)} lanes were given")
        table = collect_lanes(envs, player, tasks=tasks, group_size=repeats, seed=seed, likeness=False)
        return Evaluation.from_table(table)
    noted = _Noted(playable(envs[0] if isinstance(envs, Sequence) else envs), columns)
    builder = TableBuilder(noted.num_envs, noted.metadata["autoreset_mode"])
    # As `collect` does it, where a policy that always acts alike is a mistake.
    play_groups(noted, player, builder, tasks=tasks, group_size=repeats, seed=seed)
    warn_of_unscored(builder.unscored, builder.started)
    return replace(Evaluation.from_table(builder.table()), columns=noted.of_tasks(len(tasks), repeats))


def validate(
    envs: Any, players: Mapping[str, Policy], tasks: Sequence[Mapping[str, Any]], *, seed: int
) -> dict[str, float]:
    """Return `validation_<player>_<figure>` of some players on all tasks, see `evaluate`; {} without tasks.

    Players of one model share what they read: the tasks' prompts are read once.
    """
    row: dict[str, float] = {}
    if not len(tasks):
        return row
    for player in players.values():  # before all: figures do not depend on what was read before
        getattr(player, "forget", lambda: None)()
    for name, player in players.items():
        played = evaluate(envs, player, tasks, seed=seed)
        row |= {f"validation_{name}_{key}": value for key, value in played.summary().items()}
    return row


class _Noted(gym.vector.VectorWrapper[Any, Any, Any, Any, NDArray[Any]]):
    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], names: Sequence[str]) -> None:
        super().__init__(env)
        self._kept: dict[str, list[Any]] = {name: [] for name in names}

    def __repr__(self) -> str:
        return repr(self.env)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed, options=options)
        for name, kept in self._kept.items():
            if name not in infos:
                raise KeyError(f"infos have no {name!r}, only {sorted(infos)}")
            kept += list(infos[name])
        return observations, infos

    def of_tasks(self, count: int, repeats: int) -> dict[str, NDArray[np.object_]]:
        columns = {}
        for name, kept in self._kept.items():
            columns[name] = np.empty(count, np.object_)
            columns[name][:] = kept[: count * repeats : repeats]
        return columns


def at_temperature(policy: Policy, temperature: float | None) -> Policy:
    """Return the policy under another temperature, weights shared; unchanged for None."""
    if temperature is None:
        return policy
    change = getattr(policy, "with_settings", None)
    if change is None:
        raise TypeError(f"{type(policy).__name__} has no temperature to override; leave temperature=None")
    return change(temperature=temperature)
