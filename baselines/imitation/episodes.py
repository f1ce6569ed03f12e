"""Episodes to learn from: the expert's, the policy's own, and those that are won in hindsight.

All replies are in the policy's own tokens.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.outside.text import DataError, read_json_lines
from agentgym.rollout import Policy, collect
from agentgym.rollout.hindsight import relabel_goals
from agentgym.trajectory import Bools, Reply, StepTable, Trajectory
from baselines.evaluation import at_temperature
from baselines.imitation.cloning import Demonstrator
from baselines.imitation.method import Round


def own_episodes(
    part: Round, *, samples: int, temperature: float, tasks: Sequence[Mapping[str, Any]] | None = None
) -> StepTable:
    """Return episodes that the policy plays with its current weights.

    Args:
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


def read_episodes(path: Path, policy: Any) -> list[Reply]:
    """Read demonstrations from a file, as replies in the policy's own tokens, for `imitate` of `cloning`.

    A line is {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}, ...]}, of which
    every message of the assistant is learned, or {"prompt": text or messages, "reply": text}. Where a reply lacks the
    policy's prefix and suffix, it is put between them.

    Raises:
        DataError: a line is neither, there is none, or the policy cannot write a reply; names file and line.
    """
    found: list[Reply] = []
    before, after = policy.settings.prefix, policy.settings.suffix
    for number, line in read_json_lines(path):
        try:
            if "messages" in line:
                messages = line["messages"]
                steps = [(messages[:i], one["content"]) for i, one in enumerate(messages) if one["role"] == "assistant"]
            else:
                steps = [(line["prompt"], line["reply"])]
            for prompt, text in steps:
                framed = text if text.startswith(before) and text.endswith(after) else f"{before}{text}{after}"
                found.append(policy.demonstrate(prompt, framed))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DataError(
                f'{path}, line {number}: expected {{"messages": [...]}} or {{"prompt": ..., "reply": ...}} ({error})'
            ) from None
    if not found:
        raise DataError(f"{path} holds no reply to learn: expected JSON lines with messages of the assistant")
    return found
