"""`league`: every credit method in every environment, held against the true advantage of every step.

Every player plays the same tasks of an environment, `episodes` times each. The episodes of a task are cut into groups
of 2, 4, 8, ... as `benchmarks.ranking` does. What a method says of a row in a group is held against what the step was
really worth: exact distances where the environment knows them, else values of the player itself by Monte-Carlo.

The folder then holds

    config.json          what was asked; another configuration needs another folder
    <env>-<player>.json  finished players: the same command continues
    league.json          everything that was found, see `benchmarks.league.results`
    league.png, report.html
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.checks import suggest
from agentgym.trajectory import Floats, StepTable
from baselines.environments.registry import settings_of
from benchmarks.json_files import ResultsError, claimed, created, load_or_make
from benchmarks.league.continuations import Values, monte_carlo, state_continuations
from benchmarks.league.diagnostics import diagnose
from benchmarks.league.distances import Distances, distance_gains
from benchmarks.league.episodes import TEST, VALIDATION, Played, choices_of, play_learned, play_scripted, states_of
from benchmarks.league.players import ENVIRONMENTS
from benchmarks.league.registry import LEAGUE, WITH_PROBABILITIES
from benchmarks.league.results import VERSION, Held, League, LeagueConfig, Standing, save
from benchmarks.machine import describe_machine
from benchmarks.panels.players import weights_of
from benchmarks.ranking.credit import BASELINE, REFERENCE
from benchmarks.ranking.measures import Comparisons, Sample, bootstrap_weights, intervals
from benchmarks.ranking.results import Score, file_stem, job_of
from benchmarks.ranking.rollouts import comparisons, split_groups
from benchmarks.statistics import Interval
from benchmarks.training.stack import learned_config
from wrappers.credit.method import Credit
from wrappers.credit.vine import vine

RESULTS = "league.json"
DISTANCE, VALUE, UNDISCOUNTED = "distance", "value", "undiscounted value"
BRANCHES, VINE = "branches", "vine"
_KNOWN = {credit.name: credit for credit in (*LEAGUE, *WITH_PROBABILITIES)}

#: Called with environment, player and a few words about what is done.
Progress = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Size:
    """How much is played; tasks: of every environment, 0 for its own number."""

    tasks: int
    episodes: int
    sizes: tuple[int, ...]
    continuations: int
    branches: int
    players: tuple[str, ...]


FULL = Size(0, 16, (2, 4, 8, 16), 8, 4, ())
#: For CI: every part of it, no result.
QUICK = Size(4, 4, (2, 4), 4, 2, ("expert 50",))


def make_config(
    size: Size = FULL,
    *,
    envs: Sequence[str] = (),
    groups: Sequence[int] = (),
    players: Sequence[str] = (),
    models: Sequence[Path] = (),
    check: bool = False,
    gamma: float = 0.95,
    tasks: int = 0,
    continuations: int = 0,
    branches: int | None = None,
    seed: int = 0,
    split: str = VALIDATION,
    credits: Sequence[Credit] | None = None,
) -> LeagueConfig:
    """Put a configuration together.

    Args:
        size: how much.
        envs: names; none: all.
        groups: group sizes, each dividing the next; none: those of `size`.
        players: names of scripted players; none: those of `size`, or all.
        models: job folders of learning benchmarks, or the model folders in them; they play in their environments.
        check: find out Monte-Carlo truth too where distances are known.
        gamma: discount of Monte-Carlo values.
        tasks: of each environment; 0: those of `size`.
        continuations: for truth by Monte-Carlo; 0: those of `size`.
        branches: continuations of each state that `vine` is given, 0: it does not take part; None: those of `size`.
        seed: of everything random.
        split: of the tasks, "validation" or "test".
        credits: what is measured, besides `vine` and random numbers; None: `LEAGUE`.

    Raises:
        ResultsError: an unknown name, group sizes that do not divide one another, or a folder that holds no job of a
            learning benchmark of such an environment.
    """
    if split not in (VALIDATION, TEST):
        raise ResultsError(f"unknown split {split!r}; {suggest(split, (VALIDATION, TEST))}")
    for name in envs:
        if name not in ENVIRONMENTS:
            raise ResultsError(f"unknown environment {name!r}; {suggest(name, ENVIRONMENTS)}")
    chosen = [name for name in ENVIRONMENTS if not envs or name in envs]
    everybody = dict.fromkeys(name for env in ENVIRONMENTS.values() for name in env.optimal)
    for name in players:
        if name not in everybody:
            raise ResultsError(f"unknown player {name!r}; {suggest(name, everybody)}")
    wanted = tuple(players) or size.players or tuple(everybody)
    sizes = sorted(set(groups)) or list(size.sizes)
    if sizes[0] < 2 or any(large % small for small, large in itertools.pairwise(sizes)):
        raise ResultsError(f"group sizes must be at least 2, and each a multiple of the smaller ones, got {sizes}")
    if continuations % 2:
        raise ResultsError(f"continuations are compared by halves: expected an even number, got {continuations}")
    branches = size.branches if branches is None else branches
    found = _models(models, chosen)
    measured = LEAGUE if credits is None else credits
    given = [credit.name for credit in (*measured, *(WITH_PROBABILITIES if any(found.values()) else ()))]
    return LeagueConfig(
        players={
            env: {name: share for name, share in ENVIRONMENTS[env].optimal.items() if name in wanted} for env in chosen
        },
        models=found,
        tasks={env: tasks or size.tasks or ENVIRONMENTS[env].tasks for env in chosen},
        episodes=max(size.episodes, sizes[-1]) // sizes[-1] * sizes[-1],
        sizes=sizes,
        continuations=continuations or size.continuations,
        check=check,
        branches=branches,
        gamma=gamma,
        credits=[*given, *([VINE] if branches else []), "random"],
        resamples=1000,
        seed=seed,
        split=split,
        weights=weights_of(job for jobs in found.values() for job in jobs.values()),
    )


def _models(folders: Sequence[Path], envs: Sequence[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {env: {} for env in envs}
    for folder in folders:
        env = settings_of(learned_config(folder.parent if folder.name == "model" else folder).env).name
        if env not in found:
            raise ResultsError(f"{folder}: a policy for {env}; this league plays {', '.join(envs)}")
        job = job_of(folder, (*found[env], *ENVIRONMENTS[env].optimal))
        found[env][job.name] = str(job)
    return found


def run_league(config: LeagueConfig, folder: Path, progress: Progress = lambda env, player, words: None) -> League:
    """Measure the players that are not finished yet, and write `league.json`.

    Args:
        config: what to run.
        folder: where; created when missing.
        progress: called with what is done.

    Raises:
        agentgym.outside.files.LockedError: another process works in the folder.
        benchmarks.json_files.OtherConfigurationError: the folder holds another configuration.
        ResultsError: a finished player's file is damaged.
        KeyboardInterrupt: Ctrl-C; call again to continue.
    """
    with claimed(folder, config):
        standings = []
        for env in config.players:
            for name in (*config.players[env], *config.models[env]):
                path = folder / f"{env}-{file_stem(name)}.json"
                tell = functools.partial(progress, env, name)
                make = functools.partial(measure, config, env, name, tell)
                standings.append(load_or_make(Standing, path, make, tell))
        league = League(VERSION, created(), config, describe_machine(), standings)
        save(league, folder / RESULTS)
    return league


def measure(config: LeagueConfig, env: str, name: str, tell: Callable[[str], None] = lambda words: None) -> Standing:
    """Let one player play one environment, give every credit in groups of every size, and measure them."""
    begin = time.perf_counter()
    played = play(config, env, name, tell)
    table = played.table
    truths, truth_steps = truths_of(config, played, tell)
    without = {credit.name for credit in WITH_PROBABILITIES} if name in config.players[env] else set[str]()
    credits = [_KNOWN[credit] for credit in config.credits if credit in _KNOWN and credit not in without]
    vine_steps = 0
    if config.branches:
        tell("continuations for vine")
        branched, vine_steps = vine_credit(config, played)
        credits.append(branched)
    noise = np.random.default_rng(config.seed).standard_normal(len(table))
    credits.append(Credit("random", REFERENCE, "", lambda table: noise))
    parts = {size: split_groups(table, size) for size in config.sizes}
    given: dict[tuple[str, int], Floats] = {}
    for size, part in parts.items():
        tell(f"{len(credits)} credits in groups of {size}")
        given |= {(credit.name, size): credit.give(part) for credit in credits}
    weights = bootstrap_weights(table.n_groups, config.resamples, config.seed)
    return Standing(
        env=env,
        player=name,
        success=float(table.trajectory_won.mean()),
        worth=float(table.episode_return.mean()),
        steps=len(table),
        states=states_of(table)[1],
        choices=choices_of(table)[1],
        truth_cost=truth_steps / len(table),
        vine_cost=vine_steps / len(table),
        diagnoses=[diagnose(part, size) for size, part in parts.items()],
        held=[_held(truth, table, parts, credits, given, weights) for truth in truths],
        seconds=time.perf_counter() - begin,
    )


def play(config: LeagueConfig, env: str, name: str, tell: Callable[[str], None] = lambda words: None) -> Played:
    """Let one player play one environment."""
    count, episodes = config.tasks[env], config.episodes
    tell(f"playing {count} x {episodes} episodes")
    if name in config.players[env]:
        return play_scripted(env, config.players[env][name], count, episodes, config.seed, config.split)
    return play_learned(env, Path(config.models[env][name]), count, episodes, config.seed, config.split)


@dataclass(frozen=True, eq=False)
class Truth:
    """What every step was worth.

    Attributes:
        name: see `benchmarks.league.results.Held`.
        values: float64 (N,), -inf allowed; nan: not known.
        halves: the same by either half of the continuations; None: it is exact.
        errors: float64 (N,), standard errors.
    """

    name: str
    values: Floats
    halves: tuple[Floats, Floats] | None
    errors: Floats


def truths_of(config: LeagueConfig, played: Played, tell: Callable[[str], None]) -> tuple[list[Truth], int]:
    """Return all truths of a player's steps, and how many steps of continuations they took."""
    env, table = ENVIRONMENTS[played.env], played.table
    found: list[Truth] = []
    if isinstance(played.envs, Distances):
        found.append(Truth(DISTANCE, distance_gains(table, played.envs.found), None, np.zeros(len(table))))
        if not config.check:
            return found, 0
    discounts = {VALUE: config.gamma, UNDISCOUNTED: 1.0}
    values = monte_carlo(played, config.continuations, tuple(discounts.values()), env.outcome, config.seed, tell)
    return [*found, *(_monte_carlo_truth(name, values, i) for i, name in enumerate(discounts))], values.steps


def _monte_carlo_truth(name: str, values: Values, discount: int) -> Truth:
    halves = values.advantages(discount, slice(0, None, 2)), values.advantages(discount, slice(1, None, 2))
    return Truth(name, values.advantages(discount), halves, values.errors(discount))


def vine_credit(config: LeagueConfig, played: Played) -> tuple[Credit, int]:
    """Return the credit by continuations, which does not depend on groups, and the steps that they took."""
    found = state_continuations(played, config.branches, config.seed)
    scores = vine(
        played.table, continuations=found, outcome=ENVIRONMENTS[played.env].outcome, gamma=config.gamma
    )  # fmt: skip
    return Credit(VINE, BRANCHES, "", lambda table: scores), len(found)


def _held(
    truth: Truth,
    table: StepTable,
    parts: dict[int, StepTable],
    credits: Sequence[Credit],
    given: dict[tuple[str, int], Floats],
    weights: Floats,
) -> Held:
    """Hold all credits against one truth, on the steps where it is known."""
    rows = np.flatnonzero(~np.isnan(truth.values))
    compared = {size: known_rows(comparisons(part, table.group, truth.values), rows) for size, part in parts.items()}
    scores: list[Score] = []
    for size in parts:
        sample = Sample(compared[size], compared[min(parts)])
        sums = {credit.name: sample.sums(given[credit.name, size][rows]) for credit in credits}
        base = sums[BASELINE]
        scores += [
            Score(
                credit.name, credit.part, credit.method, size,
                intervals(sums[credit.name], weights), intervals(sums[credit.name], weights, base),
            )
            for credit in credits
        ]  # fmt: skip
    finite = truth.values[np.isfinite(truth.values)]
    agreed = [agreement(truth, part, table, weights) for part in parts.values()]
    return Held(
        truth=truth.name,
        known=len(rows) / len(table),
        error=float(truth.errors.mean()),
        spread=float(finite.std()) if len(finite) else 0.0,
        ceilings=[ceiling(each.get("within")) for each in agreed],
        signs=[each.get("sign_all") for each in agreed],
        comparable=[float(each.comparable.mean()) if len(rows) else 0.0 for each in compared.values()],
        scores=scores,
    )


def known_rows(compared: Comparisons, rows: Any) -> Comparisons:
    """Return the comparisons of some rows alone."""
    return Comparisons(
        compared.truth[rows], compared.task[rows], compared.sets[rows], compared.n_tasks, compared.n_sets
    )  # fmt: skip


def agreement(truth: Truth, part: StepTable, table: StepTable, weights: Floats) -> dict[str, Interval | None]:
    """Return the measures of one half of the continuations as a credit against the other half; {} of an exact truth."""
    if truth.halves is None:
        return {}
    sums = []
    for one, other in (truth.halves, truth.halves[::-1]):
        compared = comparisons(part, table.group, one)
        sums.append(Sample(compared, compared).sums(other))
    return intervals(np.mean(sums, axis=0), weights)


def ceiling(halves: Interval | None) -> Interval | None:
    """Return the rank correlation within states that a perfect credit would have with an estimated truth.

    The correlation r of two halves of the continuations gives the reliability of all of them, 2 r / (1 + r) (Spearman
    and Brown), and its square root is the highest correlation that anything can have with their mean. That holds for
    many values; among the few steps of a state it is some hundredths too high.

    Args:
        halves: r, of `agreement`.
    """
    return None if halves is None else Interval(*map(_attenuated, (halves.mean, halves.low, halves.high)))


def _attenuated(halves: float) -> float:
    """Ceiling that the correlation of two halves allows.

    >>> _attenuated(1.0), round(_attenuated(0.5), 3), _attenuated(-0.1)
    (1.0, 0.816, 0.0)
    """
    r = max(halves, 0.0)
    return float(np.sqrt(2 * r / (1 + r)))
