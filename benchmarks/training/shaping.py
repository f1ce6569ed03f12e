"""`shaping`: does the graph of earlier episodes help a learner that knows nothing of it?

Stable-Baselines3's PPO is trained on fixed Sokoban levels under three rewards, everything else equal; greedy play is
evaluated on these and on held-out levels. A training is a part of the study.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from agentgym.trajectory import Floats
from baselines.sb3.shaping import Point, SB3Config, train
from baselines.sb3.sokoban import Levels, Reward
from benchmarks.console import NONE, parse_seeds
from benchmarks.processes import Progress
from benchmarks.report import assemble
from benchmarks.report.page import Cell, Figure, Page, Table, signed
from benchmarks.statistics import (
    CONFIDENCE,
    Interval,
    bits,
    paired_comparison,
    paired_difference,
    percent,
    seed_band,
    success_interval,
)
from benchmarks.study import Found, Study

#: What is compared: the reward without shaping first, it is what the others are compared with.
COMPARED: tuple[Reward, ...] = ("success", "shaped", "own")
#: What a reward is called in tables.
NAMES = {"success": "1 for success", "shaped": "1 for success, shaped", "own": "the environment's own"}
#: One colour per reward (Okabe and Ito's palette).
COLOURS = {"success": "#E69F00", "shaped": "#009E73", "own": "#999999"}
#: The default: about five minutes on two quiet cores for five seeds.
FULL = SB3Config()
#: For CI: every part of it, none of the luck.
QUICK = SB3Config(
    levels=Levels(min_length=3, max_length=5, max_episode_steps=20, training=4, held_out=16),
    steps=4096,
    evaluate_every=1024,
)


@dataclass(frozen=True)
class ShapingConfig:
    """What was asked for: every reward is trained once per seed."""

    rewards: list[Reward]
    seeds: list[int]
    training: SB3Config


@dataclass(frozen=True)
class ShapingRun:
    """One training: its evaluations, in order of steps."""

    reward: str
    seed: int
    points: list[Point]


@dataclass(frozen=True)
class ShapingResults(Found):
    """The whole file; one run per reward and seed, in the order of the configuration."""

    config: ShapingConfig
    runs: list[ShapingRun]

    def of(self, reward: str) -> list[ShapingRun]:
        return [run for run in self.runs if run.reward == reward]


def configure(
    quick: Annotated[bool, typer.Option("--quick", help="Four easy levels, seeds 0-1, half a minute; for CI.")] = False,
    seeds: Annotated[
        str | None, typer.Option(help="Training seeds: 0,1,2 or 0-2. Default: 0-4, with --quick 0-1.")
    ] = None,
    gae_lambda: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Of the learner; near 1 shaping cancels out. Default: 0.8.")
    ] = None,
) -> ShapingConfig:
    """Train Stable-Baselines3's PPO with and without shaping by the graph of earlier episodes.

    Levels, seeds and all settings are the same; only the reward differs: 1 for success, the same shaped, and the
    environment's own. Prints one table and writes shaping.json, shaping.png and a self-contained
    report.html. Ctrl-C and the same command again: finished trainings are kept.
    """
    training = QUICK if quick else FULL
    if gae_lambda is not None:
        training = dataclasses.replace(training, gae_lambda=gae_lambda)
    return ShapingConfig(list(COMPARED), parse_seeds(seeds or ("0-1" if quick else "0-4")), training)


def trainings(config: ShapingConfig) -> dict[str, tuple[Reward, int]]:
    """Reward and seed by the name of a training."""
    return {f"{reward}-seed{seed}": (reward, seed) for reward in config.rewards for seed in config.seeds}


def run_training(config: ShapingConfig, part: str, context: None, progress: Progress) -> ShapingRun:
    """Train once."""
    reward, seed = trainings(config)[part]
    return ShapingRun(reward, seed, train(config.training, reward, seed, progress).points)


def compared(results: ShapingResults, reward: str) -> list[tuple[Interval, Interval | None]]:
    """Return greedy success at the end, averaged over the evaluations of a training, and held out.

    The average, the area under the curve, says how early it learned. Beside each stands the difference to the first
    reward, paired; None for itself.
    """
    first, found = results.config.rewards[0], list[tuple[Interval, Interval]]()
    for kind in ("training", "average", "held_out"):
        if kind == "average":
            area, least = averages(results, reward), averages(results, first)
            mean = paired_comparison(area, np.zeros_like(area), confidence=CONFIDENCE).within(0.0, 1.0)
            found.append((mean, paired_comparison(area, least, confidence=CONFIDENCE)))
        else:
            won, others = ([getattr(run.points[-1], kind) for run in results.of(name)] for name in (reward, first))
            found.append((success_interval(won), paired_difference(won, others)))
    return [(success, None if reward == first else less.within(-1.0, 1.0)) for success, less in found]


def averages(results: ShapingResults, reward: str) -> Floats:
    """Mean success over the evaluations after the start; float64 (seeds, training levels)."""
    return np.array([bits([point.training for point in run.points[1:]]).mean(axis=0) for run in results.of(reward)])


def caption(results: ShapingResults) -> str:
    """What the numbers are, in one paragraph."""
    training, several = results.config.training, len(results.config.seeds) > 1
    levels = training.levels
    return (
        f"Greedy success in %, on {levels.training} training levels at the end and averaged over all evaluations, and "
        f"on {levels.held_out} held-out levels at the end; {len(results.config.seeds)} "
        f"seed{'s' if several else ''} of {training.steps:,} steps each, 95 % intervals over "
        f"{'seeds and levels' if several else 'levels'}. Differences to '{NAMES['success']}' in percentage points, "
        f"paired level by level{' and seed by seed' if several else ''}. Known ways: training levels to whose success "
        "the graph knows a way at the end. Seconds of training are wall time; runs side by side slow each other down."
    )


def cells(results: ShapingResults, reward: str) -> list[Cell]:
    """The texts of a reward, in the order of `LINES`; training time and known ways are means over seeds."""
    ends = [run.points[-1] for run in results.of(reward)]
    shown = [cell for success, less in compared(results, reward) for cell in (percent(success), signed(less))]
    known = f"{np.mean([end.known for end in ends]):.1f}" if reward == "shaped" else NONE
    return [*shown, known, f"{np.mean([end.seconds for end in ends]):.0f}"]


def curve(results: ShapingResults, reward: str, kind: str) -> tuple[list[int], list[Interval]]:
    """Steps of the evaluations, and greedy success there with its band, on "training" or "held_out" levels."""
    runs = results.of(reward)
    count = getattr(results.config.training.levels, kind)
    steps = [point.steps for point in runs[0].points]
    rates = [[getattr(run.points[i], kind).count("1") / count for run in runs] for i in range(len(steps))]
    return steps, [seed_band(values, count) for values in rates]


def band_words(results: ShapingResults) -> str:
    """What the bands are."""
    seeds = len(results.config.seeds)
    if seeds == 1:
        return "one seed; band: 95 % Wilson interval over levels"
    return f"mean of {seeds} seeds; band: 95 % t interval over seeds"


#: Titles of the rows.
LINES = ("at the end", "difference", "average", "difference", "held out", "difference", "known ways", "seconds")


def page(results: ShapingResults) -> Page:
    """Table and curves; the table has one column per reward."""
    training, rewards = results.config.training, results.config.rewards
    levels, columns = training.levels, [cells(results, reward) for reward in rewards]
    settings = {name: value for name, value in dataclasses.asdict(training).items() if name != "levels"}
    band = band_words(results)
    return Page(
        "Does a graph of earlier episodes help PPO?",
        "Stable-Baselines3's PPO on symbolic Sokoban, a fixed set of training levels: a reward for success alone, the "
        "same reward shaped by the distance to success in the graph of each level, and the environment's own reward. "
        "Everything else is equal.",
        [
            Table(
                "Greedy success",
                ["", *(NAMES[reward] for reward in rewards)],
                [[title, *texts] for title, *texts in zip(LINES, *columns, strict=True)],
                caption(results),
                colours={NAMES[reward]: COLOURS[reward] for reward in rewards},
            )
        ],
        chips=[
            ("levels", f"{levels.training}, {levels.size}x{levels.size}, boxes: {levels.boxes}"),
            ("solutions", f"{levels.min_length} to {levels.max_length} moves"),
            ("steps", f"{training.steps:,}"),
            ("seeds", ", ".join(map(str, results.config.seeds))),
            ("gamma", f"{training.gamma:g}"),
            ("GAE lambda", f"{training.gae_lambda:g}"),
            ("decay", f"{training.decay:g}"),
            ("scale", f"{training.scale:g}"),
        ],
        about=[("training", ", ".join(f"{name} {value}" for name, value in settings.items()))],
        figures=[
            Figure(
                "shaping.png",
                "Learning curves",
                lambda: draw_curves(results),
                f"{band[:1].upper()}{band[1:]}. Shaping adds gamma * p(next state) - p(state) to every reward, with "
                "p = scale * decay^d and d the fewest steps to success that any earlier episode of the level has "
                "shown (p = 0 where no way is known, and at ends). Levels that were never solved are not shaped at "
                "all, and held-out levels never are.",
            )
        ],
    )


def draw_curves(results: ShapingResults) -> Any:
    """Return the curves as a figure: training levels on the left, held-out ones on the right."""
    figure, (panels,) = assemble.new_figure(1, 2, (9.6, 3.9), 110, sharey=True)
    levels = results.config.training.levels
    for panel, kind, title in (
        (panels[0], "training", f"{levels.training} training levels"),
        (panels[1], "held_out", f"{levels.held_out} held-out levels"),
    ):
        for reward in results.config.rewards:
            steps, bands = curve(results, reward, kind)
            colour = COLOURS[reward]
            low, high = [100 * band.low for band in bands], [100 * band.high for band in bands]
            x = [count / 1000 for count in steps]
            panel.fill_between(x, low, high, color=colour, alpha=0.16, lw=0)
            means = [100 * band.mean for band in bands]
            panel.plot(x, means, color=colour, marker="o", ms=3.5, lw=1.8, label=NAMES[reward])
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("environment steps [thousands]")
        panel.margins(x=0.02)
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("greedy success [%]")
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    figure.suptitle(f"PPO on symbolic Sokoban by reward: {band_words(results)}", fontsize=10.5)
    return figure


STUDY = Study(
    name="shaping", file="shaping.json", version=1, part="training", record=ShapingRun, results=ShapingResults,
    configure=configure, parts=lambda config: list(trainings(config)), run=run_training, page=page, processes=True,
)  # fmt: skip
