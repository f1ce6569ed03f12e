"""`study league` and `study ranking`: credit methods compared with the true advantage of steps; nothing is trained.

The episodes of a task are cut into groups of 2, 4, 8, .., smaller ones inside larger ones, so that all group sizes
credit the same rows. A part is one player in one environment. `ranking` is the league in Sokoban: more levels, every
measure at every group size, and the truth itself as a credit.
"""

import dataclasses
import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from agentgym.trajectory import Floats, StepTable
from baselines.play.values import Played, state_continuations
from baselines.scorers.exact_gain import ExactGain
from benchmarks.console import option
from benchmarks.processes import Progress
from benchmarks.statistics import Interval, bootstrap_weights
from benchmarks.study import Found, Study
from benchmarks.truth import credits as sets
from benchmarks.truth import episodes as playing
from benchmarks.truth.graphs import Diagnosis, diagnose
from benchmarks.truth.measures import intervals, samples
from benchmarks.truth.pages import page
from benchmarks.truth.truths import Truth, agreement, ceiling, truths_of
from wrappers.credit.group import choices_of, split_groups, states_of
from wrappers.credit.method import TOTAL, Credit
from wrappers.credit.turn_credit import by_gains
from wrappers.credit.vine import vine
from wrappers.distance import Distances, kinds_of_steps

#: What `ranking` plays, the environment with the least informative rewards.
SOKOBAN = "sokoban"
RANKED = dataclasses.replace(playing.FULL, tasks=256, branches=0)
RANKED_QUICK = dataclasses.replace(RANKED, tasks=32)


@dataclass(frozen=True)
class Score:
    """One credit in groups of one size: 95 % intervals of all measures, and of these minus `BASELINE`'s."""

    credit: str
    part: str
    method: str
    size: int
    measures: dict[str, Interval | None]
    differences: dict[str, Interval | None]


@dataclass(frozen=True)
class Held:
    """All credits compared with one truth of one player's steps; lists have an entry per group size.

    `known`: share of steps whose truth is known; `error`: mean standard error of a truth, 0: exact; `spread`: standard
    deviation of the finite truth; `signs`: share of changes to which both halves of the continuations give the same
    sign, None as of `ceilings`: exact; `comparable`: share of steps in a state where actions differ in truth.
    """

    truth: str
    known: float
    error: float
    spread: float
    ceilings: list[Interval | None]
    signs: list[Interval | None]
    comparable: list[float]
    scores: list[Score]
    steps: dict[str, float] | None = None

    def score(self, credit: str, size: int) -> Score | None:
        """Return one score, None where this player's episodes lack what the credit needs."""
        return next((score for score in self.scores if (score.credit, score.size) == (credit, size)), None)

    def measure(self, credit: str, measure: str, size: int) -> Interval | None:
        score = self.score(credit, size)
        return None if score is None else score.measures[measure]


@dataclass(frozen=True)
class Standing:
    """One player in one environment: `worth` is the mean return, costs are steps of continuations per step.

    `choices` counts the actions of all states of tasks; `held` has the environment's main truth first.
    """

    env: str
    player: str
    success: float
    worth: float
    steps: int
    states: int
    choices: int
    truth_cost: float
    vine_cost: float
    diagnoses: list[Diagnosis]
    held: list[Held]
    seconds: float

    @property
    def main(self) -> Held:
        """The main truth: the exact distance if the environment knows it."""
        return self.held[0]

    @property
    def counts(self) -> bool:
        """Whether means include the player: methods that use outcomes need some won episodes."""
        return self.success >= playing.LEAST


@dataclass(frozen=True)
class League(Found):
    """The whole file."""

    config: playing.TruthConfig
    standings: list[Standing]

    @property
    def credits(self) -> dict[str, Score]:
        """An example of every credit, by name, in the order in which they were measured."""
        scores = [score for standing in self.standings for score in standing.main.scores]
        names = dict.fromkeys(score.credit for score in scores)
        return {name: next(score for score in scores if score.credit == name) for name in names}

    def mean(self, env: str, credit: str, measure: str, size: int) -> float | None:
        """Return a measure's mean over the players of an environment that count; None: nothing could be measured."""
        return _mean(each.main.measure(credit, measure, size) for each in self._counting(env))

    def ceiling(self, env: str, size: int) -> float | None:
        """Return the mean of the ceilings in the same way; None where the truth is exact."""
        place = self.config.sizes.index(size)
        return _mean(each.main.ceilings[place] for each in self._counting(env))

    def _counting(self, env: str) -> list[Standing]:
        return [standing for standing in self.standings if standing.env == env and standing.counts]


def _mean(intervals: Iterable[Interval | None]) -> float | None:
    found = [interval.mean for interval in intervals if interval is not None]
    return sum(found) / len(found) if found else None


def measure(
    config: playing.TruthConfig, env: str, name: str, progress: Progress = lambda done, total, words: None
) -> Standing:
    """Let one player play one environment, give every credit in groups of every size, and measure them."""
    begin = time.perf_counter()
    played = playing.play(config, env, name, progress)
    table = played.table
    truths, truth_steps = truths_of(config, env, played, progress)
    credits, vine_steps = credits_of(config, env, name, played)
    parts = {size: split_groups(table, size) for size in config.sizes}
    given = {}
    for i, (size, part) in enumerate(parts.items()):
        progress(i, len(parts), f"sizes of groups, {len(credits)} credits")
        given[size] = [(credit, credit.give(part)) for credit in credits]
    noise = np.random.default_rng(config.seed).standard_normal(len(table))
    weights = bootstrap_weights(table.n_groups, config.resamples, config.seed)
    held = []
    for truth in truths:
        beside = [
            (Credit(reference, sets.REFERENCE, "", lambda table: noise), values)
            for reference, values in ((sets.TRUE, truth.values), (sets.RANDOM, noise))
            if reference in config.credits
        ]
        held.append(hold(truth, table, {size: [*each, *beside] for size, each in given.items()}, weights))
    if isinstance(played.envs, Distances):
        held[0] = dataclasses.replace(held[0], steps=kinds_of_steps(table, played.envs.found))
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
        held=held,
        seconds=time.perf_counter() - begin,
    )


def credits_of(config: playing.TruthConfig, env: str, name: str, played: Played) -> tuple[list[Credit], int]:
    """Return the credits of a player's steps, `vine` the last one, and the steps of its continuations."""
    credits = sets.credits_called(config.credits, name in config.models[env])
    if isinstance(played.envs, Distances) and sets.SOLVER in config.credits:
        solver = functools.partial(by_gains, gains=ExactGain(played.envs.found).scores(played.table))
        credits.append(Credit("turn_credit", TOTAL, "solver", solver))
    if not config.branches:
        return credits, 0
    # The credit by continuations does not depend on groups.
    found = state_continuations(played, config.branches, config.seed)
    outcome = playing.scripted_of(env).outcome
    scores = vine(played.table, continuations=found, outcome=outcome, gamma=config.gamma)
    return [*credits, Credit(sets.BRANCHED, sets.BRANCHES, "", lambda table: scores)], len(found)


def hold(truth: Truth, table: StepTable, given: Mapping[int, Sequence[tuple[Credit, Floats]]], weights: Floats) -> Held:
    """Compare credits with one truth; `given` are, per group size, credits with what they give, float64 (N,)."""
    parts = samples(table, truth.values, given)
    scores = []
    for size, (_, sample) in parts.items():
        sums = {credit: sample.sums(values) for credit, values in given[size]}
        base = next(each for credit, each in sums.items() if credit.name == sets.BASELINE)
        scores += [
            Score(credit.name, credit.part, credit.method, size, intervals(own, weights), intervals(own, weights, base))
            for credit, own in sums.items()
        ]  # fmt: skip
    known, finite = ~np.isnan(truth.values), truth.values[np.isfinite(truth.values)]
    agreed = [agreement(truth, part, table, weights) for part, _ in parts.values()]
    return Held(
        truth=truth.name,
        known=float(known.mean()),
        error=float(truth.errors.mean()),
        spread=float(finite.std()) if len(finite) else 0.0,
        ceilings=[ceiling(each.get("within")) for each in agreed],
        signs=[each.get("sign_all") for each in agreed],
        comparable=[float(sample.own.comparable.mean()) if known.any() else 0.0 for _, sample in parts.values()],
        scores=scores,
    )


def configure_league(
    quick: Annotated[bool, option("4 tasks of each environment, one player: a smoke test.", "--quick")] = False,
    env: playing.Envs = None,
    groups: playing.Sizes = None,
    player: playing.Players = None,
    policy: playing.Policies = None,
    tasks: playing.Tasks = None,
    credits: Annotated[str, option(f"Set of credits: {', '.join(sets.SETS)}.")] = "methods",
    split: playing.Split = playing.VALIDATION,
    continuations: playing.Continuations = None,
    branches: playing.Branches = None,
    check: Annotated[bool, option("Also estimate values that are known exactly by Monte-Carlo.", "--check")] = False,
    gamma: playing.Gamma = 0.95,
    seed: playing.Seed = 0,
) -> playing.TruthConfig:
    """Compare every credit method with the true advantage of steps, in every environment.

    Nothing is trained. The true advantage is the exact change of distance to success if the environment knows it, else
    Q - V of the player, estimated from continuations.
    """
    learned = [credit.name for credit in sets.WITH_PROBABILITIES] if policy else []
    return playing.make_config(
        playing.QUICK if quick else playing.FULL, envs=env, groups=groups, players=player, models=policy, check=check,
        gamma=gamma, tasks=tasks, continuations=continuations, branches=branches, seed=seed, split=split,
        credits=[*sets.names_of(credits), *learned],
    )  # fmt: skip


def configure_ranking(
    quick: Annotated[bool, option("32 levels instead of 256, a few seconds.", "--quick")] = False,
    groups: playing.Levels = None,
    policy: playing.Policies = None,
    player: playing.Players = None,
    credits: Annotated[
        str, option("Set of credits: published (before 2026), 2026 (and four older ones), all, combinations.")
    ] = "published",
    seed: playing.Seed = 0,
) -> playing.TruthConfig:
    """Measure how well each method's step credit ranks actions, in groups of 2, 4, 8 and 16 Sokoban episodes.

    The league in Sokoban, with more levels, every measure, and the truth itself as a credit that ranks without error.
    """
    return playing.make_config(
        RANKED_QUICK if quick else RANKED, envs=[SOKOBAN], players=player, models=policy, tasks=groups, seed=seed,
        credits=[*sets.names_of(credits), sets.TRUE],
    )  # fmt: skip


def _study(name: str, version: int, configure: Any) -> Study[playing.TruthConfig, Standing, League]:
    return Study(
        name=name, file=f"{name}.json", version=version, part="player", record=Standing, results=League,
        configure=configure, page=page,
        parts=lambda config: [
            f"{env}, {name}" for env in config.players for name in (*config.players[env], *config.models[env])
        ],
        run=lambda config, part, context, progress: measure(config, *part.partition(", ")[::2], progress),
    )  # fmt: skip


LEAGUE = _study("league", 1, configure_league)
#: Version 1 had one environment's players alone, in a form of its own.
RANKING = _study("ranking", 2, configure_ranking)
