"""Page of the default benchmark: tables and curves, and in the browser also episodes and state graphs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baselines.config import TrainerConfig
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY
from baselines.runs.stack import CLONE, EXPERT, GREEDY, RANDOM, SAMPLED
from benchmarks.console import NONE
from benchmarks.report import assemble
from benchmarks.report.page import Cell, Figure, Page, Panel, Table, signed
from benchmarks.report.state_graph import placed
from benchmarks.statistics import Interval, paired_difference, percent, seed_band, success_interval

if TYPE_CHECKING:
    from benchmarks.training.learning import Results

_GREY = "#b4bac3"


def success(results: Results, policy: str, mode: str) -> Interval | None:
    """Return a success rate with its interval; None where the policy has no such mode."""
    won = [each.success for each in results.of(policy, mode)]
    return success_interval(won) if won else None


def difference(results: Results, policy: str) -> Interval | None:
    """Return a method's greedy success minus the clone's, paired over tasks and seeds; None for other policies."""
    if policy not in results.config.methods:
        return None
    return paired_difference(*([each.success for each in results.of(name, GREEDY)] for name in (policy, CLONE)))


def cells(results: Results, policy: str) -> list[Cell]:
    """The texts of a policy; means over seeds of greedy play (random: of sampled play)."""
    main = results.of(policy, GREEDY) or results.of(policy, SAMPLED)

    def mean(name: str, digits: int, scale: int = 1) -> str:
        return f"{scale * sum(getattr(each, name) for each in main) / len(main):.{digits}f}"

    return [
        policy, percent(success(results, policy, GREEDY)), percent(success(results, policy, SAMPLED)),
        mean("mean_return", 2), mean("mean_length", 1), mean("invalid_rate", 1, 100),
        signed(difference(results, policy)), NONE if policy in (RANDOM, EXPERT) else mean("seconds", 0),
    ]  # fmt: skip


def caption(results: Results) -> str:
    """What the numbers of the table are, in one paragraph."""
    config = results.config
    several = len(config.seeds) > 1
    called = settings_of(config.env).return_name.capitalize()
    over = "tasks and seeds" if several else "tasks (one seed: without the spread between trainings)"
    limit = " Models write admissible commands only, and are trained under that restriction."
    return (
        f"{config.eval_tasks} held-out test tasks, {len(config.seeds)} training seed{'s' if several else ''}. Success "
        f"in %, with 95 % intervals over {over}; difference to the clone in percentage points of greedy success, "
        f"paired task by task{' and seed by seed' if several else ''}. Sampled play at temperature "
        f"{config.temperature:g}. {called}, steps and refused actions are measured in greedy play (random policy: "
        "sampled play). Training is wall time, warm start included; parallel runs slow each other "
        f"down.{limit if config.setup.policy.get('admissible') else ''}"
    )


def kind_tables(results: Results) -> list[Table]:
    """One table per split that was played kind by kind; heads say how many tasks there are of each kind."""
    sums: dict[str, dict[str, tuple[Counter[str], Counter[str]]]] = {}
    for each in results.kinds:
        rows = sums.setdefault(each.split, {})
        won, played = rows.setdefault(f"{each.policy}, {each.mode}", (Counter(), Counter()))
        won.update(each.won)
        played.update(each.played)
    present = {kind for each in results.kinds for kind in each.played}
    names = {kind: name for kind, name in settings_of(results.config.env).kind_names.items() if kind in present}
    found = []
    for split, rows in sums.items():
        _, first = next(iter(rows.values()))  # it has played as many as any other policy
        heads = ["success %", *(f"{name} ({first[kind]})" for kind, name in names.items()), f"All ({first.total()})"]
        lines = []
        for label, (won, played) in rows.items():
            counts = [*((won[kind], played[kind]) for kind in names), (won.total(), played.total())]
            lines.append([label, *(f"{100 * some / every:.1f}" if every else NONE for some, every in counts)])
        found.append(Table(f"{split}: success per kind of task", heads, lines))
    return found


def curve_series(results: Results, mode: str) -> list[dict[str, Any]]:
    """Return every method's curve: lists over the iterations that all its seeds have, of rates and seconds."""
    series = []
    for method in results.config.methods:
        at = [{point.iteration: point for point in run.curve} for run in results.runs if run.method == method]
        shared = sorted(set.intersection(*(set(each) for each in at)))
        bands = []
        for iteration in shared:
            rates = [each[iteration].greedy if mode == GREEDY else each[iteration].success for each in at]
            bands.append(seed_band(rates, results.config.validation_tasks))
        series.append({
            "method": method, "colour": assemble.colour_of(method), "iteration": list(map(float, shared)),
            "seconds": [float(np.mean([each[iteration].seconds for each in at])) for iteration in shared],
            **{name: [getattr(band, name) for band in bands] for name in ("mean", "low", "high")},
        })  # fmt: skip
    return series


def band_words(results: Results) -> str:
    """Return the meaning of the bands."""
    seeds, count = len(results.config.seeds), results.config.validation_tasks
    if seeds == 1:
        return f"one seed; band: 95 % Wilson interval over {count} validation tasks"
    return f"mean of {seeds} seeds; band: 95 % t interval over seeds; {count} validation tasks each"


def draw_curves(results: Results) -> Any:
    """Return the curves as a figure: greedy and sampled success (rows) over iterations, a panel per method."""
    methods = results.config.methods
    size = (max(8.4, 1 + 2.6 * len(methods)), 6.4)
    figure, grid = assemble.new_figure(2, len(methods), size, 130, sharex=True, sharey="row")
    for row, mode in enumerate((GREEDY, SAMPLED)):
        series = curve_series(results, mode)
        for line, panel in zip(series, grid[row], strict=True):
            for other in series:
                panel.plot(other["iteration"], _percents(other["mean"]), color=_GREY, lw=1)
            x, low, mean, high = line["iteration"], *(_percents(line[name]) for name in ("low", "mean", "high"))
            panel.fill_between(x, low, high, color=line["colour"], alpha=0.2, lw=0)
            panel.plot(x, mean, color=line["colour"], marker="o", ms=3.5, lw=1.8)
            if row == 0:
                panel.set_title(assemble.label(line["method"]), fontsize=11)
            else:
                panel.set_xlabel("iteration")
        grid[row][0].set_ylim(bottom=0)
        temperature = "" if mode == GREEDY else f", T = {results.config.temperature:g}"
        grid[row][0].set_ylabel(f"validation success [%]\n({mode} play{temperature})")
    figure.suptitle(
        f"{assemble.label(results.config.env)} from one clone per seed:\n{band_words(results)}", fontsize=10.5
    )
    return figure


def _percents(values: Sequence[float]) -> list[float]:
    return [100 * value for value in values]


def page(results: Results) -> Page:
    """Tables and curves; in the browser also the curves, episodes and state graphs to look through."""
    from baselines.imitation.method import Imitation
    from baselines.recipes.methods import method as method_of

    config = results.config
    policies = "Tiny language-model policies" if config.model == TINY else "Language-model policies"
    begin = "cloned from an expert and then trained" if config.clone_tasks else "trained without a warm start"
    ways = "by reinforcement learning; the methods differ in how they credit the steps of episodes"
    if any(isinstance(method_of(name), Imitation) for name in config.methods):
        ways = "by imitation or reinforcement learning; the methods differ in what they learn from"
    start = f"{config.clone_tasks} expert episodes x {config.clone_epochs} epochs" if config.clone_tasks else "none"
    plain = TrainerConfig().settings()
    settings = [
        [name, str(value), str(plain.get(name, NONE))]
        for name, value in config.training.items()
        if name not in plain or value != plain[name]
    ]
    heads = [
        "policy", "greedy %", "sampled %", settings_of(config.env).return_name, "steps", "refused %", "greedy - clone",
        "train s",
    ]  # fmt: skip
    shown = [cells(results, policy) for policy in (RANDOM, EXPERT, CLONE, *config.methods)]
    short = config.steps <= settings_of(config.env).played_by(config.model).quick.steps
    smoke = (
        f"A smoke test: {config.steps} iterations of {config.groups * config.group_size} episodes show that everything "
        "works, not which method is better. For a result leave out --quick and --steps."
    )
    differing = Table(
        "Settings", ["setting", "here", "default"], settings,
        "Differences from the defaults of TrainerConfig, without a method's own settings, see baselines.recipes.",
        aside=True,
    )  # fmt: skip
    return Page(
        f"Step-level credit on {config.env}",
        f"{policies} are {begin} {ways}, and in nothing but the settings that belong to a method.",
        [
            Table(f"{config.env}: success on held-out tasks", heads, shown, caption(results)),
            *kind_tables(results),
            differing,
        ],
        chips=[
            ("methods", ", ".join(config.methods)),
            ("seeds", ", ".join(map(str, config.seeds))),
            ("iterations", str(config.steps)),
            ("per iteration", f"{config.groups} tasks x {config.group_size} episodes"),
            ("warm start", start),
            ("model", f"{config.model}, adapters of rank {config.lora}" if config.lora else config.model),
            ("prompt", "the whole conversation" if config.transcript else f"{config.history} earlier steps"),
            ("test tasks", str(config.eval_tasks)),
        ],
        about=[] if results.data is None else [("tasks", results.data.words)],
        figures=[Figure("curves.png", "Learning curves as a picture", lambda: draw_curves(results))],
        panel=Panel(
            "training.html.j2", ("board.js", "chart.js", "curves.js", "episodes.js", "graph.js"), page_data(results),
            {"band": band_words(results), "gamma": f"{results.graphs[0].gamma:g}" if results.graphs else NONE},
            charts=True,
        ),
        notice=smoke if short else "",
        warnings=[f"{run.method}, seed {run.seed}, {line}" for run in results.runs for line in run.warnings],
    )  # fmt: skip


def page_data(results: Results) -> dict[str, Any]:
    """What the scripts of the page draw: curves, episodes by policy, graphs with positions, tiles by symbol."""
    episodes: dict[str, list[Any]] = {policy: [] for policy in (RANDOM, EXPERT, CLONE, *results.config.methods)}
    for episode in results.episodes:
        episodes[episode.policy].append(dataclasses.asdict(episode))
    return {
        "tiles": settings_of(results.config.env).tiles,
        "curves": {mode: curve_series(results, mode) for mode in (GREEDY, SAMPLED)},
        "episodes": {policy: found for policy, found in episodes.items() if found},
        "graphs": [placed(graph) for graph in results.graphs],
    }
