"""The dose of credit that a run trained on: how many steps had how much credit, and how many were decisions at all.

A callback keeps a line for each iteration in the folder of the run, so that a resumed run is counted whole. Keys of the
dose:

    samples    effective steps, sum over iterations of (sum |A|)^2 / sum A^2 (Kish); A of a reply: mean over tokens
    updates    steps of the optimiser
    credit     sum of |A| over all steps
    silent     share of steps with credit 0
    decisions  share of steps in states where one admissible action is optimal and another is not, of sampled play at
               the end; where the environment knows its optimal actions (if it names only one: at most this share)
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.outside.text import read_json_lines
from agentgym.rollout import Policy
from agentgym.rollout.groups import Stage, play_groups
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import Floats, StepTable
from baselines.records.metrics import Row
from baselines.runs.config import Config
from baselines.runs.stack import make_envs, validation_tasks

_FILE = "dose.jsonl"
#: Validation tasks that are played to count decisions.
_TASKS = 16


class Dose:
    """Callback of a trainer that writes down the dose of each iteration."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE

    def __call__(self, trainer: Any, table: StepTable | None, row: Row) -> None:
        if table is not None:
            line = {"iteration": row["iteration"], "updates": row.get("updates", 0.0), **dose_of(trainer.advantages)}
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def sums(self, iterations: int) -> dict[str, float]:
        """Return the dose of so many iterations; where one was played twice, the later one counts."""
        lines = {line["iteration"]: line for _, line in read_json_lines(self._path)}
        found = {
            name: sum(line[name] for number, line in lines.items() if number <= iterations)
            for name in ("samples", "updates", "credit", "silent", "steps")
        }
        steps = found.pop("steps")
        return {**found, "silent": found["silent"] / max(steps, 1)}


def dose_of(advantages: Floats) -> dict[str, float]:
    """Return effective steps, sum of |A|, steps without credit and steps, of advantages (N,) or (N, K); nan is none.

    >>> dose_of(np.array([1.0, -1.0, 2.0, 0.0, np.nan]))  # 4^2 / 6
    {'samples': 2.6666666666666665, 'credit': 4.0, 'silent': 2.0, 'steps': 5.0}
    """
    size = np.abs(advantages)
    if size.ndim == 2:
        size = np.nan_to_num(size).sum(1) / np.maximum((~np.isnan(size)).sum(1), 1)
    size = np.nan_to_num(size)
    total, squares = float(size.sum()), float((size**2).sum())
    samples = total**2 / squares if squares else 0.0
    return {"samples": samples, "credit": total, "silent": float((size == 0).sum()), "steps": float(len(size))}


def decisions(config: Config, policy: Policy, seed: int) -> float | None:
    """Return the share of a policy's steps that are decisions; None where the environment does not know."""
    tasks = validation_tasks(config)[:_TASKS]
    envs: Any = make_envs(config, len(tasks))
    inside = getattr(envs.unwrapped, "envs", [None])
    if not hasattr(inside[0], "optimal_actions"):
        return None
    found: list[bool] = []

    def note(stage: Stage) -> None:
        for i in np.flatnonzero(stage.active).tolist():
            best = set(inside[i].optimal_actions())
            found.append(bool(best) and not best >= set(stage.infos["admissible_actions"][i]))

    builder = TableBuilder(envs.num_envs, envs.metadata["autoreset_mode"])
    play_groups(envs, policy, builder, tasks=tasks, group_size=1, seed=seed, before_step=note)
    return float(np.mean(found))
