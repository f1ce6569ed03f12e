"""The part of the papers' studies that trains nothing: credits and state keys held against the true worth of steps.

Players, truth and measures are the league's; options, state keys and group sizes vary, on the same episodes. A study is
a row of `AGAINST`, a part of it is one environment. `benchmarks.training.studies` trains the rest of these studies.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from baselines.environments.registry import settings_of
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine
from benchmarks.processes import Progress
from benchmarks.report.page import Page, Table
from benchmarks.report.panels import Panel
from benchmarks.statistics import Interval
from benchmarks.study import Found, Study
from benchmarks.training.run import learned_config
from benchmarks.truth import episodes as playing
from benchmarks.truth.credits import bellman, graph_steps
from benchmarks.truth.graphs import GRAPHS, aliased, graph_sums
from benchmarks.truth.labels import Labels, noise_of, shown_again, with_states
from benchmarks.truth.measures import EXPLAINED, bootstrap_weights, estimate, explained, interval_of, intervals, samples
from benchmarks.truth.truths import truths_of
from wrappers.credit.gigpo import gigpo, step_level
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.grpo import grpo
from wrappers.credit.hgpo import hgpo
from wrappers.credit.method import STEP, Credit
from wrappers.credit.rewardflow import rewardflow

#: Who plays where no policy is given.
PLAYER = "expert 50"
#: Coordinates of what is measured, see `Cell`, and how they are called in heads.
ENV, CREDIT, VARIANT, KEY, NOISE, SIZE = "env", "credit", "variant", "key", "noise", "size"
_HEADS = {ENV: "environment", CREDIT: CREDIT, VARIANT: VARIANT, KEY: "states by", NOISE: "adverts", SIZE: "groups of"}
#: The share of steps in a state that stands for different ones of the environment's own.
ALIASED = "aliased"
_GRAPHS = {**GRAPHS, ALIASED: "share of steps in a state that stands for different ones of the environment's own"}
_SHARES = ("shared", "singletons", "ties", "reached", "mixed", ALIASED)


@dataclass(frozen=True)
class Against:
    """What is held against the true worth of steps: credits in groups of all sizes, under every labelling of states.

    Of the measures `shown` the first one is drawn, over the coordinate `along`, called `label`. `base` replaces a
    cell's coordinates by those that it is compared with. Where not `everywhere`, environments whose settings name the
    study are played.
    """

    credits: tuple[Credit, ...] = ()
    sizes: tuple[int, ...] = (8,)
    shown: tuple[str, ...] = ("within",)
    panel: str = ENV
    line: str = CREDIT
    along: str = SIZE
    label: str = "episodes of a group"
    base: Mapping[str, str | int] = field(default_factory=dict)
    labels: tuple[Labels, ...] = (Labels(),)
    graphs: tuple[str, ...] = ()
    everywhere: bool = False


_rewardflow = functools.partial(rewardflow, alpha_trajectory=0.0)
#: The step level alone: an episode's outcome ranks no two actions of a state better than chance would.
_STEPS = (
    Credit("gigpo", STEP, "", step_level),
    Credit("rewardflow", STEP, "", _rewardflow),
    Credit("graphgpo", STEP, "", graph_steps),
)
_BY_OUTCOME = (Credit("grpo", STEP, "", grpo), _STEPS[0], Credit("hgpo", STEP, "", hgpo), *_STEPS[1:])
_SIZES = (2, 4, 8, 16)
_TEXTS = ("states", "shared", ALIASED)

AGAINST: dict[str, Against] = {
    "rollout-budget": Against(
        _BY_OUTCOME, (*_SIZES, 32), ("same",), label="episodes of a task", base={SIZE: 2}
    ),
    "group-size": Against(_BY_OUTCOME, _SIZES, everywhere=True),
    "distance": Against(
        (
            Credit("nearest success", STEP, "", _rewardflow),
            Credit("mean over successes", STEP, "", functools.partial(_rewardflow, aggregate="mean")),
            # The other mean: not over successes, but over the ways that the group took on from a state.
            Credit("mean over ways on", STEP, "", bellman),
        ),
        _SIZES, base={CREDIT: "nearest success"}, graphs=("goals",),
    ),
    "normalisation": Against(
        tuple(
            Credit(give.__name__, STEP, std, functools.partial(give, std=std))
            for give in (gigpo, rewardflow, graphgpo) for std in ("group", "batch", "none")
        ),
        shown=("overall", "within", "sign_all"), along=VARIANT, label="divided by the deviation of",
        base={VARIANT: "group"},
    ),
    "cosine-threshold": Against(
        _STEPS, along=KEY, label="what counts as one state", base={KEY: "own"}, graphs=_TEXTS,
        labels=(
            Labels(), Labels("text"), *(Labels(f"cosine {least:g}", least) for least in (0.99, 0.95, 0.9, 0.8, 0.7))
        ),
    ),
    "adverts": Against(
        _STEPS, panel=CREDIT, line=KEY, along=NOISE, label="pages with adverts", base={NOISE: "0 %"}, graphs=_TEXTS,
        # The environment's own key knows nothing of adverts.
        labels=(
            Labels(),
            *(
                Labels(key, threshold, adverts)
                for key, threshold in (("text", None), ("cosine 0.95", 0.95), ("cosine 0.9", 0.9))
                for adverts in (0.0, 0.25, 0.5, 1.0)
            ),
        ),
    ),
    "graph-statistics": Against(
        sizes=_SIZES, everywhere=True,
        graphs=("states", "edges", "branching", "shared", "singletons", "ties", "reached", "mixed"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class AgainstConfig:
    """What was asked: who plays what, under which labellings; `league.credits` are names of credits."""

    study: str
    league: playing.TruthConfig
    keys: list[str]


@dataclass(frozen=True)
class GraphCell:
    """Ratios of `GRAPHS` under one labelling, in groups of one size, with 95 % intervals over tasks."""

    env: str
    key: str
    noise: str
    size: int
    measures: dict[str, Interval | None]


@dataclass(frozen=True)
class Cell(GraphCell):
    """One credit under one labelling: its measures, and these less those of the cell of the base, paired."""

    credit: str
    variant: str
    less_base: dict[str, Interval | None]


@dataclass(frozen=True)
class Episodes:
    """Who played an environment, and of the steps of known truth the shares that belie an episode's outcome."""

    env: str
    player: str
    tasks: int
    episodes: int
    success: float
    steps: float
    truth: str
    known: float
    gained_in_lost: Interval | None
    idle_in_won: Interval | None
    seconds: float


@dataclass(frozen=True)
class Measured:
    """One environment."""

    episodes: Episodes
    cells: list[Cell]
    graphs: list[GraphCell]


@dataclass(frozen=True)
class AgainstFound:
    """All environments."""

    config: AgainstConfig
    machine: Machine
    measured: list[Measured]


@dataclass(frozen=True)
class AgainstResults(Found):
    """The file of a study's part without training."""

    config: AgainstConfig
    measured: list[Measured]

    @property
    def against(self) -> AgainstFound:
        return AgainstFound(self.config, self.machine, self.measured)


def environments(name: str) -> list[str]:
    """Return the environments of a study, those of `--quick` first."""
    everywhere = AGAINST[name].everywhere
    return [env for env in playing.ENVIRONMENTS if everywhere or name in playing.scripted_of(env).studies]


def make_against(
    name: str, *, quick: bool = False, models: Mapping[str, Path] | None = None, tasks: int = 0, seed: int = 0
) -> AgainstConfig:
    """Put a configuration together; `models`, job folders by environment, play these alone, else `PLAYER` plays all."""
    against, envs, models = AGAINST[name], environments(name), models or {}
    envs = [env for env in envs if env in models] if models else envs[:1] if quick else envs
    if not envs:
        raise ResultsError(f"the policies play {', '.join(models)}; {name} is about {', '.join(environments(name))}")
    sizes = sorted({min(size, playing.QUICK.episodes) for size in against.sizes}) if quick else against.sizes
    league = playing.make_config(
        playing.QUICK if quick else playing.FULL, envs=envs, groups=sizes, players=(PLAYER,), tasks=tasks, branches=0,
        seed=seed, models=[models[env] for env in envs if env in models],
    )  # fmt: skip
    # A model plays in the scripted player's place.
    players = {env: {} if env in models else scripted for env, scripted in league.players.items()}
    names = list(dict.fromkeys(f"{each.method} {each.variant}".strip() for each in against.credits))
    keys = [f"{each.key} {each.noise}" for each in against.labels]
    return AgainstConfig(name, dataclasses.replace(league, players=players, credits=names), keys)


def measure(
    config: AgainstConfig, against: Against, env: str, progress: Progress = lambda done, total, words: None
) -> Measured:
    """Let the player play one environment, and measure every credit under every labelling."""
    begin, league = time.perf_counter(), config.league
    (player,) = (*league.players[env], *league.models[env])
    played = playing.play(league, env, player, progress)
    table = played.table
    truth = truths_of(league, played, progress)[0][0]
    weights = bootstrap_weights(table.n_groups, league.resamples, league.seed)
    shown = _shown(config, against.labels, played, player, progress)
    sums: list[tuple[dict[str, Any], Floats]] = []
    graphs: list[GraphCell] = []
    for size, (part, sample) in samples(table, truth.values, league.sizes).items():
        for i, labels in enumerate(against.labels):
            progress(i, len(against.labels), f"state keys, groups of {size}")
            labelled = with_states(part, shown.get(labels.adverts), labels)
            place: dict[str, Any] = {ENV: env, KEY: labels.key, NOISE: labels.noise, SIZE: size}
            if against.graphs:
                graphs.append(GraphCell(**place, measures=_graphs(labelled, part, table, weights)))
            for each in against.credits:
                at = {**place, CREDIT: each.method, VARIANT: each.variant}
                sums.append((at, sample.sums(each.give(labelled))))
    known, won = ~np.isnan(truth.values), table.won
    episodes = Episodes(
        env=env,
        player=player,
        tasks=table.n_groups,
        episodes=table.n_trajectories,
        success=float(table.trajectory_won.mean()),
        steps=len(table) / table.n_trajectories,
        truth=truth.name,
        known=float(known.mean()),
        gained_in_lost=_share(truth.values > 0, known & ~won, table, weights),
        idle_in_won=_share(truth.values <= 0, known & won, table, weights),
        seconds=time.perf_counter() - begin,
    )
    return Measured(episodes, _cells(sums, against.base, weights), graphs)


def _shown(
    config: AgainstConfig, labels: Sequence[Labels], played: playing.Played, player: str, progress: Progress
) -> dict[float, StepTable]:
    """The episodes with texts as states, for every share of adverts that some labelling has texts with."""
    env, league = played.env, config.league
    row, models = settings_of(env), league.models[env]
    setup = learned_config(Path(models[player])).setup if player in models else row.setup
    shares = list(dict.fromkeys(each.adverts for each in labels if each.key != Labels().key))
    found = {}
    for i, share in enumerate(shares):
        progress(i, len(shares), "shares of pages with adverts, played again")
        found[share] = shown_again(
            played.table, row.id, {**setup.options, **setup.plenty, **noise_of(share)},
            playing.tasks_of(env, league.tasks[env], league.split), league.seed,
        )  # fmt: skip
    return found


def _cells(sums: Sequence[tuple[dict[str, Any], Floats]], base: Mapping[str, Any], weights: Floats) -> list[Cell]:
    cells = []
    for place, own in sums:
        other = {**place, **base}
        less = {}
        if base and other != place:
            less = intervals(own, weights, next(each for at, each in sums if at == other))
        cells.append(Cell(**place, measures=intervals(own, weights), less_base=less))
    return cells


def _graphs(labelled: StepTable, part: StepTable, table: StepTable, weights: Floats) -> dict[str, Interval | None]:
    task = np.zeros(part.n_groups, np.int64)
    task[part.group] = table.group
    found = {
        name: _ratio(_per_task(groups, task, table.n_groups), weights) for name, groups in graph_sums(labelled).items()
    }
    mixed = np.stack([aliased(labelled, part).astype(np.float64), np.ones(len(part))], axis=1)
    return {**found, ALIASED: _ratio(_per_task(mixed, table.group, table.n_groups), weights)}


def _share(of: Bools, among: Bools, table: StepTable, weights: Floats) -> Interval | None:
    rows = np.stack([of & among, among], axis=1).astype(np.float64)
    return _ratio(_per_task(rows, table.group, table.n_groups), weights)


def _per_task(values: Floats, task: Ints, n_tasks: int) -> Floats:
    return np.stack([np.bincount(task, weights=column, minlength=n_tasks) for column in values.T], axis=1)


def _ratio(sums: Floats, weights: Floats) -> Interval | None:
    """Ratio of the two columns' sums over tasks, float64 (n_tasks, 2), with its bootstrap interval."""
    drawn = weights @ sums
    with np.errstate(invalid="ignore", divide="ignore"):
        part, whole = sums.sum(axis=0)
        return interval_of(float(part / whole), drawn[:, 0] / drawn[:, 1])


def tables(found: AgainstFound) -> list[Table]:
    """Return the tables of a study: credits, graphs, and what steps were worth where no credit is measured."""
    against = AGAINST[found.config.study]
    shown = [_credits(against, found)] if against.credits else []
    shown += [_graph_table(against, found)] if against.graphs else []
    return shown if against.credits else [*shown, _steps(found)]


def _credits(against: Against, found: AgainstFound) -> Table:
    cells = [cell for measured in found.measured for cell in measured.cells]
    sizes, first = found.config.league.sizes, against.shown[0]
    varying = _varying(cells, (ENV, CREDIT, VARIANT, KEY, NOISE))
    columns = [(measure, size) for measure in against.shown for size in sizes]
    several = len(sizes) > 1
    heads = [_HEADS[name] for name in varying]
    heads += [
        f"{EXPLAINED[measure][0]}, groups of {size}" if several else EXPLAINED[measure][0] for measure, size in columns
    ]
    if against.base:
        # One column of differences, that of the largest groups.
        of = f", groups of {sizes[-1]}," if several else ""
        words = {SIZE: "groups of {}", KEY: "states by {}", NOISE: "adverts on {}"}
        base = ", ".join(words.get(name, "{}").format(value) for name, value in against.base.items())
        heads.append(f"{EXPLAINED[first][0]}{of} less that of {base}")
    rows: dict[tuple[str, ...], dict[int, Cell]] = {}
    for cell in cells:
        rows.setdefault(tuple(getattr(cell, name) for name in varying), {})[cell.size] = cell
    lines = []
    for names, row in rows.items():
        line = [*names, *(estimate(row[size].measures[measure], measure) for measure, size in columns)]
        lines.append([*line, *([estimate(row[sizes[-1]].less_base.get(first), sign="+")] if against.base else [])])
    size = f"Groups of {sizes[-1]}. " if not several else ""
    defined = explained(against.shown)
    return Table("Credit against the truth", heads, lines, f"{size}{_who(found)}", defined)


def _varying(cells: Sequence[GraphCell], names: Sequence[str]) -> list[str]:
    return [name for name in names if len({getattr(cell, name) for cell in cells}) > 1]


def _graph_table(against: Against, found: AgainstFound) -> Table:
    cells = [cell for measured in found.measured for cell in measured.graphs]
    varying = _varying(cells, (ENV, KEY, NOISE, SIZE))
    # A share in percent, any other ratio with two decimals.
    units = {name: "sign" if name in _SHARES else "within" for name in against.graphs}
    lines = [
        [*(str(getattr(cell, name)) for name in varying), *(estimate(cell.measures[of], units[of]) for of in units)]
        for cell in cells
    ]
    percents = "Shares in percent. " if set(against.graphs) & set(_SHARES) else ""
    caption = f"{percents}{'' if against.credits else _who(found)}"
    heads = [*(_HEADS[name] for name in varying), *against.graphs]
    return Table("Graphs of groups", heads, lines, caption, {name: f"{_GRAPHS[name]}." for name in against.graphs})


def _steps(found: AgainstFound) -> Table:
    heads = ["environment", "player", "won %", "steps", "truth", "known %", "gained in lost %", "idle in won %"]
    lines = [
        [
            each.env, each.player, f"{100 * each.success:.0f}", f"{each.steps:.1f}", each.truth,
            f"{100 * each.known:.0f}", estimate(each.gained_in_lost, "sign"), estimate(each.idle_in_won, "sign"),
        ]
        for each in (measured.episodes for measured in found.measured)
    ]  # fmt: skip
    caption = (
        "What steps were truly worth: the share of the steps of lost episodes that were worth something, and of those "
        "of won episodes that were worth nothing or less. Truth: the exact change of distance to success where the "
        "environment knows it, else Q - V of the player by continuations, whose error makes zeros rare."
    )
    return Table("Steps of won and lost episodes", heads, lines, caption)


def _who(found: AgainstFound) -> str:
    plays = [
        f"{each.env} {each.tasks} x {each.episodes // each.tasks} episodes of {each.player} "
        f"({100 * each.success:.0f} % won)"
        for each in (measured.episodes for measured in found.measured)
    ]
    return f"95 % intervals, bootstrap over tasks. Played: {', '.join(plays)}."


def panels(found: AgainstFound) -> Iterator[Panel]:
    """Return what the picture of a study shows."""
    against, sizes = AGAINST[found.config.study], found.config.league.sizes
    cells: list[tuple[GraphCell, str, str, Interval | None]] = []
    for measured in found.measured:
        for cell in measured.cells:
            if against.along == SIZE or cell.size == sizes[-1]:
                line = str(getattr(cell, against.line))
                cells.append((cell, str(getattr(cell, against.panel)), line, cell.measures[against.shown[0]]))
        if not against.credits:
            for graph in measured.graphs:
                cells += [(graph, name, graph.env, graph.measures[name]) for name in against.graphs]
    named: dict[str, dict[str, dict[str, Interval]]] = {}
    for place, panel, line, interval in cells:
        if interval is not None:
            named.setdefault(panel, {}).setdefault(line, {})[str(getattr(place, against.along))] = interval
    for name, lines in named.items():
        yield Panel(name, against.label, EXPLAINED[against.shown[0]][0] if against.credits else "", lines)


STUDY = Study(
    name="against", file="against.json", version=1, part="environment", record=Measured, results=AgainstResults,
    configure=make_against, parts=lambda config: list(config.league.players),
    page=lambda found: Page(found.config.study, "", tables(found.against)),
    run=lambda config, env, context, progress: measure(config, AGAINST[config.study], env, progress),
)  # fmt: skip
