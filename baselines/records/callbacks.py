"""Callbacks of a run (see `baselines.trainer.Callback`): samples of replies, and experiment trackers."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from agentgym.outside.files import write_file
from agentgym.outside.packages import install_package
from agentgym.outside.text import clean, read_json_lines
from agentgym.trajectory import StepTable
from baselines.records.metrics import Row

if TYPE_CHECKING:
    from baselines.trainer import Trainer

SAMPLES_FILE = "samples.jsonl"
#: Maximum number of characters kept of a prompt's end, and of a reply or state.
_TAIL, _LONGEST = 400, 2000


class Samples:
    """Writes some steps of every iteration to `<folder>/samples.jsonl`: observation, reply and advantage.

    The iteration's number seeds their choice, so a resumed run writes the same lines, and none twice.
    """

    def __init__(self, folder: str | Path, rows: int = 8) -> None:
        self._path = Path(folder) / SAMPLES_FILE
        self._rows = rows
        self._begun = False

    def __call__(self, trainer: Trainer, table: StepTable | None, row: Row) -> None:
        """Write the iteration's lines."""
        if not self._begun:
            self._forget_from(int(row["iteration"]))
            self._begun = True
        if table is None or not len(table):
            return
        generator = np.random.default_rng(int(row["iteration"]))
        chosen = np.sort(generator.choice(len(table), min(self._rows, len(table)), replace=False))
        lines = "".join(
            json.dumps({"iteration": int(row["iteration"]), **self._line(trainer, table, int(i))}) + "\n"
            for i in chosen
        )
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(lines)

    def _line(self, trainer: Trainer, table: StepTable, i: int) -> dict[str, Any]:
        advantages = trainer.advantages
        reply = None if table.replies is None else table.replies[i]
        prompt = ""
        if reply is not None and reply.prompt_ids and hasattr(trainer.policy, "tokenizer"):
            prompt = trainer.policy.tokenizer.decode(list(reply.prompt_ids))[-_TAIL:]
        advantage = math.nan
        if advantages is not None:
            tokens = slice(None) if reply is None else slice(len(reply.token_ids))
            advantage = float(advantages[i] if advantages.ndim == 1 else np.mean(advantages[i, tokens]))
        return {
            "group": clean(str(table.groups[table.group[i]]), _LONGEST),
            "trajectory": clean(str(table.trajectories[table.trajectory[i]]), _LONGEST),
            "t": int(table.t[i]),
            "state": clean(str(table.states[table.state[i]]), _LONGEST),
            "prompt": clean(prompt, _TAIL),
            "reply": "" if reply is None else clean(reply.text, _LONGEST),
            "action": clean(str(table.actions[table.action[i]]), _LONGEST),
            "valid": bool(table.valid[i]),
            "reward": float(table.reward[i]),
            "won": bool(table.won[i]),
            "advantage": advantage if math.isfinite(advantage) else None,
        }

    def _forget_from(self, iteration: int) -> None:
        if not self._path.exists():
            return
        kept = []
        for _, line in read_json_lines(self._path):
            if isinstance(line, dict) and isinstance(line.get("iteration"), int) and line["iteration"] < iteration:
                kept.append(json.dumps(line) + "\n")
        write_file(self._path, "".join(kept).encode())


class Tracker:
    """Sends every row to Weights & Biases or trackio, whichever is installed and named; neither is a dependency.

        with Tracker("trackio", project="alfworld") as tracker:
            trainer.run(tracker)

    Args:
        package: "wandb" or "trackio".
        **options: further arguments of the package's `init`, such as name.

    Raises:
        ImportError: the package is not installed.
        ValueError: another package.
    """

    def __init__(self, package: Literal["wandb", "trackio"], project: str, **options: Any) -> None:
        if package not in ("wandb", "trackio"):
            raise ValueError(f"a tracker is 'wandb' or 'trackio', got {package!r}")
        try:
            self._package: Any = importlib.import_module(package)
        except ImportError as error:
            raise ImportError(f"the tracker {package} is not installed: {install_package(package)}") from error
        self._options = {"project": project, **options}
        self._begun = False

    def __call__(self, trainer: Trainer, table: StepTable | None, row: Row) -> None:
        """Send the finite numbers of a row, at the step of its iteration."""
        if not self._begun:
            self._package.init(config=dataclasses.asdict(trainer.config) | trainer.log.about, **self._options)
            self._begun = True
        numbers = {key: value for key, value in row.items() if key != "iteration" and math.isfinite(value)}
        self._package.log(numbers, step=int(row["iteration"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._begun:
            self._package.finish()
            self._begun = False
