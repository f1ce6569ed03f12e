"""`study shaping`: does the graph of earlier episodes help a learner that does not see it?

Stable-Baselines3's PPO is trained on fixed Sokoban levels under three rewards, everything else equal; greedy play is
evaluated on these and on held-out levels. A training is a part of the study.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from baselines.sb3.shaping import Point, SB3Config, train
from baselines.sb3.sokoban import Levels, Reward
from benchmarks.console import option, parse_seeds
from benchmarks.processes import Progress
from benchmarks.report.page import Cell, Figure, Page, Table, signed
from benchmarks.report.panels import Panel, draw
from benchmarks.statistics import Interval, paired_difference, percent, seed_band, success_interval
from benchmarks.study import Found, Study

#: What is compared: the reward without shaping first, it is what the others are compared with.
COMPARED: tuple[Reward, ...] = ("success", "shaped", "own")
#: What a reward is called in tables.
NAMES = {"success": "1 for success", "shaped": "1 for success, shaped", "own": "the environment's own"}
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
    """The options of the command: every reward is trained once per seed."""

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
    quick: Annotated[bool, option("Four easy levels, seeds 0-1, half a minute; for CI.", "--quick")] = False,
    seeds: Annotated[str | None, option("Training seeds: 0,1,2 or 0-2. Default: 0-4, with --quick 0-1.")] = None,
    gae_lambda: Annotated[float | None, option("Near 1, shaping cancels out. Default: 0.8.", min=0.0, max=1.0)] = None,
) -> ShapingConfig:
    """Train Stable-Baselines3's PPO with and without shaping by the graph of earlier episodes.

    Levels, seeds and all settings are the same; only the reward differs: 1 for success, the same shaped, and the
    environment's own. Prints one table and writes shaping.json, shaping.png and a self-contained report.html. The same
    command continues after Ctrl-C with the missing trainings.
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


def compared(results: ShapingResults, reward: str) -> list[Cell]:
    """Return greedy success at the end on training and held-out levels, each with the difference to the first reward.

    Differences are paired; the last cell has the mean seconds of a training.
    """
    first, ends, shown = results.config.rewards[0], [run.points[-1] for run in results.of(reward)], list[Cell]()
    for kind in ("training", "held_out"):
        won, others = ([getattr(run.points[-1], kind) for run in results.of(name)] for name in (reward, first))
        gap = None if reward == first else paired_difference(won, others).within(-1.0, 1.0)
        shown += [percent(success_interval(won)), signed(gap)]
    return [*shown, f"{np.mean([end.seconds for end in ends]):.0f}"]


def curves(results: ShapingResults) -> list[Panel]:
    """Return greedy success over steps, with its band, on training and on held-out levels."""
    panels = []
    for kind in ("training", "held_out"):
        count, lines = getattr(results.config.training.levels, kind), dict[str, dict[str, Interval]]()
        for reward in results.config.rewards:
            runs = results.of(reward)
            for points in zip(*(run.points for run in runs), strict=True):
                band = seed_band([getattr(point, kind).count("1") / count for point in points], count)
                lines.setdefault(NAMES[reward], {})[f"{points[0].steps / 1000:g}"] = band
        panels.append(Panel(f"{count} levels, {kind.replace('_', ' ')}", "thousand steps", "greedy success", lines))
    return panels


HEADS = ("reward", "training levels", "difference", "held-out levels", "difference", "seconds")


def page(results: ShapingResults) -> Page:
    """Table, with a line per reward, and curves."""
    training, levels = results.config.training, results.config.training.levels
    settings = {name: value for name, value in dataclasses.asdict(training).items() if name != "levels"}
    caption = (
        f"Greedy success at the end in %, on {levels.training} training levels and {levels.held_out} held-out levels, "
        f"{len(results.config.seeds)} seeds of {training.steps:,} steps each; 95 % intervals over seeds and levels. "
        f"Differences to '{NAMES['success']}' in percentage points, paired level by level and seed by seed."
    )
    rows = [[NAMES[reward], *compared(results, reward)] for reward in results.config.rewards]
    return Page(
        "Does a graph of earlier episodes help PPO?",
        "Stable-Baselines3's PPO on symbolic Sokoban, a fixed set of training levels: a reward for success alone, the "
        "same reward shaped by the distance to success in the graph of each level, and the environment's own reward. "
        "Everything else is equal.",
        [Table("Greedy success", HEADS, rows, caption)],
        chips=[
            ("levels", f"{levels.training}, {levels.size}x{levels.size}, boxes: {levels.boxes}"),
            ("solutions", f"{levels.min_length} to {levels.max_length} moves"),
            ("seeds", ", ".join(map(str, results.config.seeds))),
        ],
        about=[("training", ", ".join(f"{name} {value}" for name, value in settings.items()))],
        figures=[Figure("shaping.png", "Learning curves", lambda: draw(curves(results)))],
    )


STUDY = Study(
    name="shaping", file="shaping.json", version=1, part="training", record=ShapingRun, results=ShapingResults,
    configure=configure, parts=lambda config: list(trainings(config)), run=run_training, page=page, processes=True,
)  # fmt: skip
