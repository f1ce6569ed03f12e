"""Progress and score of a run, the same for the default benchmark, `train`, the head to head and the studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.rollout import Policy
from agentgym.trajectory import StepTable
from baselines.evaluation import Evaluation, evaluate
from baselines.runs.config import Config
from baselines.runs.stack import EXPERT, GREEDY, RANDOM, SAMPLED, held_out_tasks, holds_model, learned_policy, make_envs
from benchmarks.json_files import CONFIG, ResultsError, load
from benchmarks.processes import Progress

if TYPE_CHECKING:
    from baselines.environments.settings import OwnEnv
    from baselines.records.metrics import Row
    from baselines.trainer import Callback, Trainer
    from policies.huggingface import HuggingFacePolicy

#: Stages of an iteration.
STAGES = ("environment", "generation", "credit", "update")
_EVALUATION_SEED = 10_000


@dataclass(frozen=True)
class Score:
    """One policy ("random", "expert", "clone" or a method) on all held-out tasks, "greedy" or "sampled".

    `success` has one character per task, "1" solved; `mean_return` and `mean_length` are means of episodes;
    `invalid_rate` is the share of steps not accepted; `seconds` are wall seconds of training, warm start included.
    """

    policy: str
    seed: int
    mode: str
    success: str
    mean_return: float
    mean_length: float
    invalid_rate: float
    seconds: float

    @property
    def share(self) -> str:
        return f"{100 * self.success.count('1') / len(self.success):.1f} %"


@dataclass(frozen=True)
class KindScore:
    """One policy on the tasks of one split: how many were won and played, by kind."""

    policy: str
    seed: int
    mode: str
    split: str
    won: dict[str, int]
    played: dict[str, int]


def reporting(progress: Progress, total: int, *, tokens: bool = False) -> Callback:
    """Return a callback that shows iterations, or reply tokens, of so many, with success and shares of time."""
    validated = ""

    def report(trainer: Trainer, table: StepTable | None, row: Row) -> None:
        nonlocal validated
        if "validation_greedy_success" in row:
            validated = f", validation {100 * row['validation_greedy_success']:.0f} %"
        words = f"rollouts {100 * row['success']:.0f} %" if "success" in row else "start"
        shares = [f"{stage} {row[f'share_{stage}']:.0f} %" for stage in STAGES if f"share_{stage}" in row]
        done = min(trainer.tokens, total) if tokens else int(row["iteration"])
        progress(done, total, f"{words}{validated}{'; ' * bool(shares)}{', '.join(shares)}")

    return report


def scores(
    config: Config, policy: Policy, name: str, seed: int, modes: Sequence[str] = (GREEDY, SAMPLED), *,
    seconds: float = 0.0, own: OwnEnv | None = None,
) -> tuple[list[Score], list[KindScore]]:  # fmt: skip
    """Play all test tasks once per mode, and where there are kinds of tasks those of the splits beside, by kind."""
    setup, found, kinds = config.setup, list[Score](), list[KindScore]()
    for mode in modes:
        splits = (setup.test, *(setup.beside if setup.kinds else ()))
        played = {split: _play(config, policy, name, seed, mode, split, own) for split in splits}
        for split, each in played.items() if setup.kinds else ():
            by_kind = each.success_by(setup.kinds)
            won = {label: int(success.sum()) for label, success in by_kind.items()}
            kinds.append(KindScore(name, seed, mode, split, won, {label: each.size for label, each in by_kind.items()}))
        summary = played[setup.test].summary()
        success = "".join("1" if won else "0" for won in played[setup.test].success[:, 0])
        means = summary["mean_return"], summary["episode_length"], summary["invalid_rate"]
        found.append(Score(name, seed, mode, success, *means, seconds))
    return found, kinds


def _play(
    config: Config, policy: Policy, name: str, seed: int, mode: str, split: str, own: OwnEnv | None
) -> Evaluation:
    temperature = None
    if name not in (RANDOM, EXPERT):
        temperature = 0.0 if mode == GREEDY else config.temperature
    kind = config.setup.kinds
    return evaluate(
        make_envs(config, config.eval_tasks, expert=name == EXPERT, own=own), policy, held_out_tasks(config, split),
        seed=_EVALUATION_SEED + seed, temperature=temperature, columns=(kind,) if kind else (),
    )  # fmt: skip


def learned(job: Path) -> tuple[Config, HuggingFacePolicy]:
    """Return the configuration of a job folder and its policy, which plays at the temperature of its training."""
    config = learned_config(job)
    return config, learned_policy(job / "model", config.model).with_settings(temperature=config.temperature)


def job_of(folder: Path | None) -> Path | None:
    """Return the job folder of a learning benchmark, for which that of its model may be given."""
    return folder.parent if folder is not None and folder.name == "model" else folder


def learned_config(job: Path) -> Config:
    """Configuration of the learning benchmark that a job folder belongs to."""
    if not holds_model(job / "model"):
        raise ResultsError(f"{job}: expected a job folder of a learning benchmark with a model, such as "
                           "runs/learning/clone-seed0")  # fmt: skip
    return load(Config, job.parent / CONFIG)
