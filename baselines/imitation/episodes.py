"""Episodes to learn from: the expert's, the policy's own, and those that are won in hindsight.

All replies are in the policy's own tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentgym.rollout import Policy, collect
from agentgym.rollout.hindsight import relabel_goals
from agentgym.trajectory import Bools, Reply, StepTable, Trajectory
from baselines.evaluation import at_temperature
from baselines.imitation.cloning import Demonstrator
from baselines.imitation.method import Round


def own_episodes(
    part: Round, *, samples: int, temperature: float, tasks: Sequence[Mapping[str, Any]] | None = None
) -> StepTable:
    """Return episodes that the policy plays as it is now.

    Args:
        part: the round.
        samples: episodes per task.
        temperature: of sampling.
        tasks: reset options; None: the tasks of the setting.
    """
    chosen = part.setting.tasks if tasks is None else tasks
    total = len(chosen) * samples
    return collect(
        part.setting.envs, sampler(part.policy, temperature), tasks=chosen, group_size=samples, seed=part.seed,
        progress=lambda done: part.progress(done, total, "own episodes"),
    )  # fmt: skip


def sampler(policy: Any, temperature: float) -> Policy:
    """Return the policy at a temperature, without what it remembers of other weights."""
    player = at_temperature(policy, temperature)
    getattr(player, "forget", lambda: None)()
    return player


def expert_episodes(part: Round) -> StepTable:
    """Return the episodes of the setting's tasks that the expert wins.

    Raises:
        KeyError: the environments were not made with `expert=True`.
        ValueError: it wins none.
    """
    table = collect(part.setting.envs, Demonstrator(part.policy), tasks=part.setting.tasks, seed=part.setting.seed)
    if not table.trajectory_won.any():
        raise ValueError(f"the expert won none of the {len(part.setting.tasks)} tasks: are they solvable?")
    return table.keep(table.trajectory_won)


def relabelled(part: Round, table: StepTable) -> StepTable:
    """Return the failed episodes of a table as won ones of the hardest task that they did, without detours.

    Raises:
        TypeError: the environment has no exact hindsight, see `agentgym.rollout.hindsight.relabel_goals`.
    """
    return relabel_goals(table, part.setting.envs, cut_loops=True, demonstrate=part.policy.demonstrate, seed=part.seed)


def distinct_wins(table: StepTable) -> StepTable:
    """Return the won episodes of a table, of those of one task with the same actions only the first; maybe none."""
    kept: Bools = np.zeros(table.n_trajectories, np.bool_)
    seen: set[tuple[Any, ...]] = set()
    for i in np.flatnonzero(table.trajectory_won).tolist():
        key = (int(table.trajectory_group[i]), *table.action[table.chain(i)].tolist())
        kept[i] = key not in seen
        seen.add(key)
    return table.keep(kept) if kept.any() else StepTable.from_trajectories([])


def task_options(table: StepTable) -> list[dict[str, Any]]:
    """Return reset options of the tasks that the groups of a table are named after."""
    return [{"task_id": str(group)} for group in table.groups]


def written_replies(trajectory: Trajectory, begin: int = 0) -> tuple[Reply, ...]:
    """Return the replies of an episode from step `begin` on, where something was written."""
    replies = (step.reply for step in trajectory.steps[begin:])
    return tuple(reply for reply in replies if reply is not None and reply.token_ids)
