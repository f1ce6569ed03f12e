"""`study privileged`: how well an informed teacher's log-probabilities rank steps, before any training.

Clones that have learned to read contexts play held-out tasks. They score every reply token again with a context, or a
control, before the prompt. Three numbers are compared with the exact gains of steps: the mean gap of each turn, its
contrast with the wrong twins, and AgentOPSD's belief, centred over the episode. The same policies then play with the
context: a teacher that plays no better cannot teach. A part of the study is one context of one clone.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np

from agentgym.rollout import collect
from agentgym.trajectory import Floats, StepTable
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY
from baselines.runs.stack import make_envs
from baselines.scorers.privileged import InformedPolicy, PrivilegedConfig, PrivilegedScorer, belief_gains, turn_gaps
from baselines.scorers.replies import sampled_logprobs
from benchmarks.console import NONE, arguments, option
from benchmarks.json_files import ResultsError, check_known
from benchmarks.options import check_model
from benchmarks.processes import Progress
from benchmarks.report.markdown import filled, markdown_table
from benchmarks.report.page import Page, Table
from benchmarks.statistics import Interval, bootstrap_weights, paired_t
from benchmarks.study import Found, Study, Tell
from benchmarks.training.informed import CONTEXTS
from benchmarks.training.learning import cloned_for
from benchmarks.training.run import job_of, learned
from benchmarks.truth.episodes import tasks_of
from benchmarks.truth.measures import decimals, estimate, intervals, samples
from wrappers.credit.rlcsd import contrasts_of
from wrappers.credit.scores import written_tokens
from wrappers.distance import Distances, distance_gains
from wrappers.privileged import Context, Contexts, Control, Privileged, expert_texts, places_of

#: What is made of the gaps of a turn.
NUMBERS = ("gap", "contrast", "belief")
#: Contexts that can be known before a step is taken, so that a policy can play with them.
BEFORE: tuple[Context, ...] = ("expert", "demonstration", "sibling")
PLAYED: tuple[Control, ...] = ("right", "wrong")


@dataclass(frozen=True)
class PrivilegedStudyConfig:
    """The options of the command; `policy` "": clones are learned first, by `cloned_for`."""

    env: str
    options: dict[str, Any]
    policy: str
    contexts: list[str]
    tasks: int
    episodes: int
    resamples: int
    seeds: list[int]
    quick: bool
    clone_contexts: dict[str, float]
    model: str = TINY
    short: int = 0

    @property
    def name(self) -> str:
        """Of the environment and its model, such as "corridor-n12" and "corridor-n6-smollm2"."""
        return settings_of(self.env, self.options).name + f"-{self.model}" * (self.model != TINY)


@dataclass(frozen=True)
class ContextRun:
    """One context of one clone, by control: success `gained` above `plain`, where it is known before a step.

    Also the share of steps that have it, the mean gap of a token, and by number the rank with the exact gains.
    """

    context: str
    seed: int
    plain: float
    gained: dict[str, Interval]
    shares: dict[str, float]
    gaps: dict[str, float]
    ranks: dict[str, dict[str, Interval | None]]


@dataclass(frozen=True)
class PrivilegedResults(Found):
    """The whole file; `steps` of all clones."""

    config: PrivilegedStudyConfig
    steps: int
    asked: list[ContextRun]


@dataclass(frozen=True, eq=False)
class Stage:
    """What all parts of a clone share: the policy, its environments, its episodes and the exact gain of every step."""

    policy: Any
    notes: Privileged
    table: StepTable
    truth: Floats
    chosen: Sequence[Mapping[str, Any]]


def ask(config: PrivilegedStudyConfig, part: str, stages: Callable[[int], Stage], progress: Progress) -> ContextRun:
    """Ask a clone with one context under every control."""
    context, _, number = part.partition(", clone ")
    seed = int(number)
    stage, settings = stages(seed), {"context": context}
    scorer = PrivilegedScorer(stage.policy, PrivilegedConfig(**settings), stage.notes)  # type: ignore[arg-type]
    table, found = stage.table, scorer.contexts(stage.table)
    own, wrong = sampled_logprobs(table, written_tokens(table)), scorer.wrong(table, found)
    controls = get_args(Control)
    weights = bootstrap_weights(table.n_groups, config.resamples, seed)
    shares, mean_gaps = dict[str, float](), dict[str, float]()
    ranks = dict[str, dict[str, Interval | None]]()
    for done, control in enumerate(controls):
        progress(done, len(controls), control)
        right = scorer.informed_likelihoods(table, scorer.prompts(table, found.under(control, table)))
        gaps = turn_gaps(table, right - own)
        contrasts = turn_gaps(table, contrasts_of(right, wrong)) if len(wrong) else np.full(len(table), np.nan)
        known = ~np.isnan(gaps)
        shares[control], mean_gaps[control] = float(known.mean()), float(gaps[known].mean()) if known.any() else 0.0
        ranks[control] = {}
        for name, values in zip(NUMBERS, (gaps, contrasts, belief_gains(table, gaps)), strict=True):
            truth = np.where(np.isnan(values), np.nan, stage.truth)
            [(_, sample)] = samples(table, truth, [config.episodes]).values()
            ranks[control][name] = intervals(sample.sums(np.nan_to_num(values)), weights)["within"]
    gained = {
        str(each): success_gained(config, stage, context, found, each, seed) for each in PLAYED if context in BEFORE
    }
    return ContextRun(context, seed, float(table.trajectory_won.mean()), gained, shares, mean_gaps, ranks)


def success_gained(
    config: PrivilegedStudyConfig, stage: Stage, context: str, found: Contexts, control: Control, seed: int
) -> Interval:
    """Return success with a context minus success without, with an interval over tasks; contexts are those of `found`.

    The expert's command is known in every state, a sibling or a demonstration in those that were reached.
    """
    held: dict[tuple[str, str], str | None] = {}
    for place, text in zip(places_of(stage.table), found.under(control, stage.table), strict=True):
        held[place] = held.get(place) or text

    def context_of(task: str, key: str) -> str | None:
        if context == "expert":
            right, wrong = expert_texts(task, key, stage.notes)
            return right if control == "right" else next(iter(wrong), None)
        return held.get((task, key))

    tables = [stage.table, collect(
        stage.notes, InformedPolicy(stage.policy, context_of), tasks=stage.chosen, group_size=config.episodes, seed=seed
    )]  # fmt: skip
    plain, with_it = (
        np.bincount(table.trajectory_group, table.trajectory_won, table.n_groups) / config.episodes for table in tables
    )
    return paired_t(with_it - plain)[0]


@contextlib.contextmanager
def prepare(config: PrivilegedStudyConfig, folder: Path, tell: Tell) -> Iterator[Callable[[int], Stage]]:
    """Yield what clones a policy where none is given, and plays the held-out tasks, once per seed."""
    row = settings_of(config.env, config.options)

    @functools.cache
    def stage(seed: int) -> Stage:
        job = Path(config.policy)
        if not config.policy:
            job = cloned_for(
                row, folder / "learning", seed, tell, quick=config.quick, model=config.model, seeds=config.seeds,
                contexts=config.clone_contexts, short=config.short,
            )  # fmt: skip
        shown, policy = learned(job)
        distances = Distances(make_envs(shown, config.tasks * config.episodes))
        notes = Privileged(distances, demonstrations="demonstration" in config.contexts)
        chosen = tasks_of(config.env, config.tasks)
        tell(f"playing {config.tasks} x {config.episodes} held-out episodes")
        table = collect(notes, policy, tasks=chosen, group_size=config.episodes, seed=seed)
        return Stage(policy, notes, table, distance_gains(table, distances.found), chosen)

    yield stage


def configure(
    quick: Annotated[bool, option("A small clone and 4 tasks: a smoke test.", "--quick")] = False,
    env: Annotated[str, option("Environment with a distance and an expert, such as corridor.")] = "corridor",
    option: Annotated[list[str] | None, option("Argument of the environment, such as length=12.")] = None,
    policy: Annotated[Path | None, option("Job folder of a learning benchmark; default: clones.")] = None,
    model: Annotated[str, option("Model of the clones: tiny, smollm2, or a folder.")] = TINY,
    context: Annotated[list[str] | None, option("Kind of context. May be given several times.")] = None,
    read: Annotated[list[str] | None, option("Contexts of the clones' training, such as expert=0.25.")] = None,
    tasks: Annotated[int | None, option("Held-out tasks. Default: 48; quick: 4.", min=2)] = None,
    seeds: Annotated[int, option("Clones, with the seeds 0, 1, ...", min=1)] = 1,
    short: Annotated[int, option("Clone N expert episodes once, with the tiny policy's prompts.", min=0)] = 0,
) -> PrivilegedStudyConfig:
    """Compare an informed policy's log-probabilities of its steps with the exact gains of the steps.

    Every context is given right, wrong, of another task, unrelated, in another order and empty. Only the clones are
    trained. Prints one table and writes privileged.json.
    """
    if not settings_of(env).is_known:
        raise ResultsError(f"{env!r}: this study clones an expert by the settings of one of the project's environments")
    check_known("context", context or (), get_args(Context))
    shares = {name: float(share) for name, share in arguments(read or ()).items()} or dict(CONTEXTS)
    return PrivilegedStudyConfig(
        settings_of(env).name, arguments(option or ()), str(job_of(policy) or ""), list(context or get_args(Context)),
        tasks or (4 if quick else 48), 8, 1000, list(range(seeds)), quick, shares,
        check_model(model, download=not policy), short,
    )  # fmt: skip


def _all(values: Sequence[Interval | None]) -> Interval | None:
    """The mean over clones, from the lowest to the highest end of their intervals."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Interval(
        float(np.mean([value.mean for value in known])), min(value.low for value in known),
        max(value.high for value in known),
    )  # fmt: skip


def _rank(value: Interval | None) -> str:
    return NONE if value is None else f"{decimals(value.mean)} [{decimals(value.low)}, {decimals(value.high)}]"


HEADS = ("context", "control", "steps", "mean gap", "success gained", *(f"{name} rank" for name in NUMBERS))


def rows_of(found: PrivilegedResults) -> list[list[str]]:
    """One line per context and control, over all clones."""
    rows = []
    for context in found.config.contexts:
        mine = [each for each in found.asked if each.context == context]
        for control in get_args(Control):
            gained = _all([each.gained[control] for each in mine if control in each.gained])
            share, gap = (np.mean([getattr(each, name)[control] for each in mine]) for name in ("shares", "gaps"))
            ranks = (_rank(_all([each.ranks[control][name] for each in mine])) for name in NUMBERS)
            more = estimate(gained, "sign", "+")
            rows.append([context, control, f"{100 * share:.0f} %", f"{gap:.2f}", more, *ranks])
    return rows


def _plain(found: PrivilegedResults) -> float:
    return 100 * float(np.mean([each.plain for each in found.asked]))


def _played(found: PrivilegedResults) -> str:
    clones, tasks = len(found.config.seeds), found.config.tasks
    words = f"{found.steps:,} steps of {clones} clone{'s' * (clones > 1)} on {tasks} tasks each"
    return f"{words}; without a context {_plain(found):.0f} % of the episodes are won"


_SUMMARY = (
    'Contexts without any rank are left out ("feedback" exists for failed steps only). Steps, clones x tasks, and '
    "success without a context"
)
CAPTION = (
    "Steps: share that has the context. Success gained: points, by the policy that reads the context before every "
    "step. Rank: Spearman's correlation, within states, of the number and the exact gain of the step. Means over "
    "clones; in brackets the lowest and the highest end of the clones' 95 % intervals over tasks."
)


def section(studies: Sequence[PrivilegedResults]) -> str:
    """Return a table in Markdown, one line per study and context, for a page between its marks."""
    lines = []
    for found in studies:
        cells = {(row[0], row[1]): dict(zip(HEADS, row, strict=True)) for row in rows_of(found)}
        for context in found.config.contexts:
            right, wrong = (cells[context, control] for control in PLAYED)
            ranks = [cells[context, control]["gap rank"] for control in get_args(Control)]
            if any(rank != NONE for rank in ranks):
                row = right["steps"], right["success gained"], wrong["success gained"], *ranks
                lines.append([found.config.name, context, *row, right["contrast rank"], right["belief rank"]])
    heads = (
        "environment", "context", "steps", "success gained", "by the wrong twin",
        *(f"gap rank, {control}" for control in get_args(Control)), "contrast rank", "belief rank",
    )  # fmt: skip
    played = "; ".join(
        f"{found.config.name} {found.steps:,}, {len(found.config.seeds)} x {found.config.tasks}, {_plain(found):.0f} %"
        for found in studies
    )
    return f"{markdown_table(heads, lines)}\n\n{filled(f'{_SUMMARY}: {played}. {CAPTION}')}\n"


def page(found: PrivilegedResults) -> Page:
    """The table of all contexts and controls."""
    return Page(
        "Does an informed policy know which steps were good?",
        "Log-probabilities of the policy's own replies, given a context, compared with the exact gains of the steps.",
        [Table(f"Informed teachers in {found.config.env}", HEADS, rows_of(found), f"{_played(found)}. {CAPTION}")],
        chips=[("policy", found.config.policy or "clones"), ("seeds", ", ".join(map(str, found.config.seeds)))],
        about=[("intervals", f"{found.config.resamples:,} resamples of the tasks")],
    )


STUDY = Study(
    name="privileged", file="privileged.json", version=2, part="context", record=ContextRun, results=PrivilegedResults,
    configure=configure, run=ask, page=page, prepare=prepare,
    parts=lambda config: [f"{context}, clone {seed}" for seed in config.seeds for context in config.contexts],
    summary=lambda config, records, stages: {
        "steps": sum(len(stages(seed).table) for seed in config.seeds), "asked": records
    },
)  # fmt: skip
