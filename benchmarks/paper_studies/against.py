"""The part of a study that trains nothing: credits and state keys held against the true worth of steps.

Who plays, what a step was truly worth and how a credit's ranking is measured is the league's, see `benchmarks.league`;
here options, state keys and group sizes vary, on the same episodes. The folder then holds

    config.json   what was asked; another configuration needs another folder
    <env>.json    finished environments: the same command continues
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from baselines.environments.registry import settings_of
from benchmarks.json_files import ResultsError, claimed, load_or_make
from benchmarks.league.diagnostics import graph_sums
from benchmarks.league.episodes import Played, tasks_of
from benchmarks.league.study import FULL, QUICK, known_rows, make_config, play, truths_of
from benchmarks.machine import describe_machine
from benchmarks.paper_studies.description import Against, Labels, Study
from benchmarks.paper_studies.labels import noise_of, shown_again, with_states
from benchmarks.paper_studies.results import AgainstConfig, AgainstFound, Cell, Episodes, GraphCell, Measured
from benchmarks.ranking.measures import Sample, bootstrap_weights, interval_of, intervals
from benchmarks.ranking.rollouts import comparisons, split_groups
from benchmarks.statistics import Interval
from benchmarks.training.stack import learned_config
from wrappers.credit.group import number_pairs

#: Who plays where no policy is given.
PLAYER = "expert 50"
ALIASED = "aliased"
_OWN = Labels()

#: Called with the environment and a few words about what is done.
Progress = Callable[[str, str], None]
#: Coordinates of a cell and the sums of its measures, float64 (n_tasks, columns).
_Sums = list[tuple[dict[str, Any], Floats]]


def make_against(
    study: Study,
    against: Against,
    *,
    quick: bool = False,
    models: Mapping[str, Path] | None = None,
    tasks: int = 0,
    seed: int = 0,
) -> AgainstConfig:
    """Put a configuration together.

    Args:
        study: whose part it is.
        against: what is measured.
        quick: a few tasks of the first environment: every part of it, no result.
        models: job folders of learning benchmarks by environment: they play, and no other environment is; none:
            `PLAYER` plays all of them.
        tasks: of each environment; 0: the league's number.
        seed: of everything random.

    Raises:
        ResultsError: the models play none of the study's environments.
    """
    envs, models = against.envs[:1] if quick else against.envs, models or {}
    if models:
        envs = tuple(env for env in against.envs if env in models)
    if not envs:
        raise ResultsError(
            f"the policies play {', '.join(models)}; {study.name} is about {', '.join(against.envs)}"
        )  # fmt: skip
    sizes = sorted({min(size, QUICK.episodes) for size in against.sizes}) if quick else against.sizes
    league = make_config(
        QUICK if quick else FULL, envs=envs, groups=sizes, players=(PLAYER,), tasks=tasks, branches=0, seed=seed,
        models=[models[env] for env in envs if env in models], credits=[],
    )  # fmt: skip
    # A model plays in the scripted player's place.
    players = {env: {} if env in models else scripted for env, scripted in league.players.items()}
    names = list(dict.fromkeys(f"{each.credit} {each.variant}".strip() for each in against.credits))
    keys = [f"{each.key} {each.noise}" for each in against.labels]
    return AgainstConfig(study.name, dataclasses.replace(league, players=players, credits=names), keys)


def run_against(
    config: AgainstConfig, against: Against, folder: Path, progress: Progress = lambda env, words: None
) -> AgainstFound:
    """Measure the environments that are not finished yet.

    Args:
        config: what to run.
        against: what is measured.
        folder: where; created when missing.
        progress: called with what is done.

    Raises:
        agentgym.outside.files.LockedError: another process works in the folder.
        benchmarks.json_files.OtherConfigurationError: the folder holds another configuration.
        ResultsError: a finished environment's file is damaged, or episodes cannot be shown again.
        KeyboardInterrupt: Ctrl-C; call again to continue.
    """
    with claimed(folder, config):
        measured = []
        for env in config.league.players:
            tell = functools.partial(progress, env)
            make = functools.partial(measure, config, against, env, tell)
            measured.append(load_or_make(Measured, folder / f"{env}.json", make, tell))
        return AgainstFound(config, describe_machine(), measured)


def measure(
    config: AgainstConfig, against: Against, env: str, tell: Callable[[str], None] = lambda words: None
) -> Measured:
    """Let the player play one environment, and measure every credit under every labelling."""
    begin, league = time.perf_counter(), config.league
    (player,) = (*league.players[env], *league.models[env])
    played = play(league, env, player, tell)
    table = played.table
    truth = truths_of(league, played, tell)[0][0]
    weights = bootstrap_weights(table.n_groups, league.resamples, league.seed)
    shown = _shown(config, against.labels, played, player, tell)
    rows = np.flatnonzero(~np.isnan(truth.values))
    parts = {size: split_groups(table, size) for size in league.sizes}
    compared = {size: known_rows(comparisons(part, table.group, truth.values), rows) for size, part in parts.items()}
    sums: _Sums = []
    graphs: list[GraphCell] = []
    for size, part in parts.items():
        sample = Sample(compared[size], compared[min(parts)])
        for labels in against.labels:
            tell(f"groups of {size}, states by {labels.key}")
            labelled = with_states(part, shown.get(labels.adverts), labels)
            place: dict[str, Any] = {"env": env, "key": labels.key, "noise": labels.noise, "size": size}
            if against.graphs:
                graphs.append(GraphCell(**place, measures=_graphs(labelled, part, table, weights)))
            for each in against.credits:
                at = {**place, "credit": each.credit, "variant": each.variant}
                sums.append((at, sample.sums(each.give(labelled)[rows])))
    known = ~np.isnan(truth.values)
    won = table.won
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
    config: AgainstConfig, labels: Sequence[Labels], played: Played, player: str, tell: Callable[[str], None]
) -> dict[float, StepTable]:
    """The episodes with texts as states, for every share of adverts that some labelling has texts with."""
    env, league = played.env, config.league
    row, models = settings_of(env), league.models[env]
    setup = learned_config(Path(models[player])).setup if player in models else row.setup
    found = {}
    for share in dict.fromkeys(each.adverts for each in labels if each.key != _OWN.key):
        tell(f"playing again, adverts on {100 * share:.0f} % of the pages")
        found[share] = shown_again(
            played.table, row.id, {**setup.options, **setup.plenty, **noise_of(share)},
            tasks_of(env, league.tasks[env], league.split), league.seed,
        )  # fmt: skip
    return found


def _cells(sums: _Sums, base: Mapping[str, Any], weights: Floats) -> list[Cell]:
    """Measure all cells, each also less the one whose coordinates are the same but for those of the base."""
    cells = []
    for place, own in sums:
        other = {**place, **base}
        less = {}
        if base and other != place:
            less = intervals(own, weights, next(each for at, each in sums if at == other))
        cells.append(Cell(**place, measures=intervals(own, weights), less_base=less))
    return cells


def _graphs(labelled: StepTable, part: StepTable, table: StepTable, weights: Floats) -> dict[str, Interval | None]:
    """Ratios of the graphs with intervals over tasks; a group lies in one task of the table."""
    task = np.zeros(part.n_groups, np.int64)
    task[part.group] = table.group
    found = {}
    for name, groups in graph_sums(labelled).items():
        found[name] = _ratio(_per_task(groups, task, table.n_groups), weights)
    mixed = np.stack([aliased(labelled, part).astype(np.float64), np.ones(len(part))], axis=1)
    found[ALIASED] = _ratio(_per_task(mixed, table.group, table.n_groups), weights)
    return found


def aliased(labelled: StepTable, own: StepTable) -> Bools:
    """Return bool (N,): the row's state stands, in its group, for different states of the other table.

    >>> own = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "v"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> aliased(dataclasses.replace(own, state=np.array([0, 1, 0])), own)
    array([ True, False,  True])
    """
    label, example = number_pairs(labelled.group, labelled.n_groups, labelled.state, len(labelled.states))
    _, pair = number_pairs(label, len(example), own.state, len(own.states))
    several = np.bincount(label[pair], minlength=len(example)) > 1
    return np.asarray(several[label], np.bool_)


def _share(of: Bools, among: Bools, table: StepTable, weights: Floats) -> Interval | None:
    """The share of some rows that have a property, with an interval over tasks."""
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
