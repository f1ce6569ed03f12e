"""`privileged`: what an informed teacher's numbers say of steps, before any training.

A cloned policy plays held-out tasks. It is asked again of every reply token with a context, or a control, in front of
the prompt. Three numbers are held against the exact gains of steps: the mean gap of each turn, its contrast with the
wrong twins, and AgentOPSD's belief, centred over the episode. The same policy then plays with the right context before
it: a teacher that plays no better has nothing to teach. A part of the study is one context under one control.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import numpy as np
import typer

from agentgym.checks import suggest
from agentgym.rollout import collect
from agentgym.trajectory import Floats, Reply, StepTable
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY
from baselines.evaluation import at_temperature
from baselines.runs.config import make_config as make_learning_config
from baselines.runs.stack import make_envs
from baselines.scorers.privileged import PrivilegedConfig, PrivilegedScorer
from benchmarks.json_files import ResultsError
from benchmarks.processes import Progress
from benchmarks.report.page import Cell, Page, Table
from benchmarks.statistics import Interval
from benchmarks.study import Found, Study, Tell
from benchmarks.training.learning import cloned
from benchmarks.training.run import learned_config
from benchmarks.truth.episodes import tasks_of
from benchmarks.truth.measures import bootstrap_weights, intervals, number, samples
from wrappers.credit.scores import written_tokens
from wrappers.distance import Distances, distance_gains
from wrappers.privileged import FRAME, Context, Control, Privileged, expert_texts

#: What is made of the gaps of a turn.
NUMBERS = ("gap", "contrast", "belief")
MEASURES = ("within", "overall")


@dataclass(frozen=True)
class PrivilegedStudyConfig:
    """The options of the command; `policy` is "" where a clone is learned first, in the folder of the results."""

    env: str
    policy: str
    contexts: list[str]
    tasks: int
    episodes: int
    resamples: int
    seed: int
    quick: bool


@dataclass(frozen=True)
class Asked:
    """One context under one control.

    Attributes:
        share: of steps that have it.
        gap: mean gap of a token.
        success: of the policy that reads the context while it plays; None: it is not known before the step.
        ranks: by number and measure, rank correlation with the exact gains.
    """

    context: str
    control: str
    share: float
    gap: float
    success: float | None
    ranks: dict[str, dict[str, Interval | None]]


@dataclass(frozen=True)
class PrivilegedResults(Found):
    """The whole file; `success` is that of the policy without contexts."""

    config: PrivilegedStudyConfig
    success: float
    steps: int
    asked: list[Asked]


@dataclass(frozen=True, eq=False)
class Stage:
    """What all parts share: the policy, its environments and its episodes, with the exact gain of every step."""

    policy: Any
    notes: Privileged
    table: StepTable
    truth: Floats
    chosen: Sequence[Mapping[str, Any]]


def beliefs(gaps: Floats, start: float = 0.5) -> Floats:
    """Return AgentOPSD's belief in success before the first turn and after each, float64 (turns + 1,).

    V_k = sigmoid(logit(V_0) + sum of the gaps of turns 1 to k), cut at 1e-6. Its gaps have the mean -KL per token, so
    that V runs to 0 whatever was done: centre them over the episode first.
    """
    logits = np.log(start / (1 - start)) + np.concatenate(([0.0], np.cumsum(gaps)))
    found: Floats = np.clip(1 / (1 + np.exp(-np.clip(logits, -700, 700))), 1e-6, 1 - 1e-6)
    return found


def turn_gaps(table: StepTable, scores: Floats) -> Floats:
    """Return the mean over the tokens of each reply, float64 (N,); nan: not scored."""
    kept = written_tokens(table) & ~np.isnan(scores)
    count = kept.sum(axis=1)
    return np.where(count > 0, np.where(kept, scores, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)


def belief_gains(table: StepTable, gaps: Floats) -> Floats:
    """Return by how much each turn raised the belief, gaps centred over the episode, float64 (N,)."""
    found = np.full(len(table), np.nan)
    for i in range(table.n_trajectories):
        rows = table.order[table.offsets[i] : table.offsets[i + 1]]
        known = rows[~np.isnan(gaps[rows])]
        if len(known):
            found[known] = np.diff(beliefs(gaps[known] - gaps[known].mean()))
    return found


def ask(config: PrivilegedStudyConfig, part: str, stage: Stage, progress: Progress) -> Asked:
    """Ask the policy with one context under one control."""
    context, _, control = part.partition(", ")
    settings: Any = {"context": context, "control": control}
    numbers = [PrivilegedConfig(**settings), PrivilegedConfig(**settings, contrast=True)]
    gaps, contrasts = (
        turn_gaps(stage.table, PrivilegedScorer(stage.policy, each, stage.notes).scores(stage.table))
        for each in numbers
    )
    given = dict(zip(NUMBERS, (gaps, contrasts, belief_gains(stage.table, gaps)), strict=True))
    known = ~np.isnan(gaps)
    ranks: dict[str, dict[str, Interval | None]] = {}
    for done, (name, values) in enumerate(given.items()):
        progress(done, len(NUMBERS), name)
        truth = np.where(np.isnan(values), np.nan, stage.truth)
        [(_, sample)] = samples(stage.table, truth, [config.episodes]).values()
        weights = bootstrap_weights(stage.table.n_groups, config.resamples, config.seed)
        measured = intervals(sample.sums(np.nan_to_num(values)), weights)
        ranks[name] = {measure: measured[measure] for measure in MEASURES}
    success = None
    if context == "expert" and control in ("right", "wrong"):
        success = informed_success(config, stage, cast(Control, control))
    return Asked(
        context, control, float(known.mean()), float(gaps[known].mean()) if known.any() else 0.0, success, ranks
    )


class Informed:
    """Plays with the expert's command, or a wrong one, before every prompt: the teacher itself.

    Args:
        stage: whose policy and notes.
        control: "right" or "wrong".
    """

    def __init__(self, stage: Stage, control: Control) -> None:
        self._stage, self._control = stage, control

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        """Return the policy's replies to the prompts with their blocks."""
        told = []
        for place, messages in enumerate(observations):
            key = infos["canonical_key"][place] if "canonical_key" in infos else infos["state_key"][place]
            right, wrong = expert_texts(str(infos["task_id"][place]), str(key), self._stage.notes)
            text = right if self._control == "right" else next(iter(wrong), None)
            block = () if text is None else ({"role": "system", "content": FRAME.format(text)},)
            told.append((*block, *messages))
        replies: list[Reply] = self._stage.policy.act(told, infos, rng)
        return replies


@contextlib.contextmanager
def prepare(config: PrivilegedStudyConfig, folder: Path, tell: Tell) -> Iterator[Stage]:
    """Clone a policy where none is given, and play the held-out tasks."""
    import transformers

    from policies.huggingface import HuggingFacePolicy

    transformers.utils.logging.disable_progress_bar()
    row = settings_of(config.env)
    job = Path(config.policy)
    if not config.policy:
        learning = make_learning_config(
            row, methods=["grpo"], seeds=[config.seed], model=TINY, history=None,
            sizes=row.quick if config.quick else row.full,
        )  # fmt: skip
        job = cloned(learning, folder / "learning", config.seed, tell)
    learned = learned_config(job)
    policy = at_temperature(HuggingFacePolicy.from_pretrained(job / "model", device="cpu"), learned.temperature)
    distances = Distances(make_envs(learned, config.tasks * config.episodes))
    notes = Privileged(distances, demonstrations="demonstration" in config.contexts)
    chosen = tasks_of(config.env, config.tasks)
    tell(f"playing {config.tasks} x {config.episodes} held-out episodes")
    table = collect(notes, policy, tasks=chosen, group_size=config.episodes, seed=config.seed)
    yield Stage(policy, notes, table, distance_gains(table, distances.found), chosen)


def informed_success(config: PrivilegedStudyConfig, stage: Stage, control: Control) -> float:
    """Return the share of episodes won by the policy that reads a context before every step."""
    player = Informed(stage, control)
    table = collect(stage.notes, player, tasks=stage.chosen, group_size=config.episodes, seed=config.seed)
    return float(table.trajectory_won.mean())


def configure(
    quick: Annotated[bool, typer.Option("--quick", help="A small clone and 4 tasks: every part, no result.")] = False,
    env: Annotated[str, typer.Option(help="Environment with a distance and an expert, such as corridor.")] = "corridor",
    policy: Annotated[Path | None, typer.Option(help="Job folder of a learning benchmark; default: a clone.")] = None,
    context: Annotated[list[str] | None, typer.Option(help="May be given several times. Default: all.")] = None,
    tasks: Annotated[int | None, typer.Option(min=2, help="Held-out tasks. Default: 64; quick: 4.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of cloning, episodes and intervals.")] = 0,
) -> PrivilegedStudyConfig:
    """Hold what a policy says of its steps, once it reads a context, against the exact gains of the steps.

    Every context is asked right, wrong, of another task, unrelated, shuffled and empty. Nothing is trained beside the
    clone. Prints one table and writes privileged.json.
    """
    for name in context or ():
        if name not in get_args(Context):
            raise ResultsError(f"unknown context {name!r}; {suggest(name, get_args(Context))}")
    count = tasks or (4 if quick else 64)
    job = "" if policy is None else str(policy.parent if policy.name == "model" else policy)
    named = settings_of(env).name
    return PrivilegedStudyConfig(named, job, list(context or get_args(Context)), count, 8, 1000, seed, quick)


def parts_of(config: PrivilegedStudyConfig) -> list[str]:
    """Return "context, control" for all that are asked."""
    return [f"{context}, {control}" for context in config.contexts for control in get_args(Control)]


def _summary(config: PrivilegedStudyConfig, asked: list[Asked], stage: Stage) -> Mapping[str, Any]:
    return {"success": float(stage.table.trajectory_won.mean()), "steps": len(stage.table), "asked": asked}


def page(found: PrivilegedResults) -> Page:
    """One line per context and control."""
    heads = ("context", "control", "steps", "mean gap", "success", *(f"{name} rank" for name in NUMBERS), "belief all")
    rows: list[Sequence[Cell] | None] = []
    for each in found.asked:
        ranks = (number(each.ranks[name]["within"], "within") for name in NUMBERS)
        success = "-" if each.success is None else f"{100 * each.success:.0f} %"
        rows.append([
            each.context, each.control, f"{100 * each.share:.0f} %", f"{each.gap:.3f}", success, *ranks,
            number(each.ranks["belief"]["overall"], "overall"),
        ])  # fmt: skip
    explained = {
        "steps": "share of steps that have the context.",
        "success": "of the policy that reads the context before every step.",
        "gap rank": "rank correlation within states of the turn's mean gap with the exact gain of the step.",
        "contrast rank": "the same of the contrast with the wrong twins.",
        "belief rank": "the same of AgentOPSD's belief, gaps centred over the episode.",
        "belief all": "rank correlation over all steps of a group.",
    }
    caption = f"{found.steps} steps; without a context {100 * found.success:.0f} % of the episodes are won."
    return Page(
        "Does an informed policy know which steps were good?",
        "Log-probabilities of the policy's own replies with a context in front, against the exact gains of the steps.",
        [Table(f"Informed teachers in {found.config.env}", heads, rows, caption, explained)],
        chips=[("policy", found.config.policy or "a clone"), ("seed", str(found.config.seed))],
        about=[("intervals", f"{found.config.resamples:,} resamples of the tasks")],
    )


STUDY = Study(
    name="privileged", file="privileged.json", version=1, part="context", record=Asked, results=PrivilegedResults,
    configure=configure, parts=parts_of, run=ask, summary=_summary, page=page, prepare=prepare,
)  # fmt: skip
