"""`branching`: how well do Monte-Carlo values rank actions, by how many continuations, with which random numbers?

The players of `ranking` play its first levels, 16 episodes each. From every state the same player plays on 16 times,
with the time limit of a whole episode. `vine` credits the episodes by 1, 4 or 16 of these continuations (a mean over
disjoint parts of the 16), beside GraphGPO, which has the episodes alone. Random numbers are independent, or common: the
k-th continuations of all states of a level meet the same luck, step by step.

Then the methods for branches on trees such as a trainer collects, 8 episodes a level and continuations of their own
steps; beside each what GRPO and GraphGPO make of the same trees.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer
from numpy.typing import NDArray

from agentgym.rollout import act_each
from agentgym.rollout.groups import Stage
from agentgym.rollout.recorder import TableBuilder
from agentgym.rollout.tree import Select, at_random, collect_tree
from agentgym.trajectory import Floats, Reply, StepTable
from baselines.environments.settings import SIDE_BY_SIDE
from benchmarks.console import NONE
from benchmarks.processes import Progress
from benchmarks.report.page import Page, Table
from benchmarks.statistics import Interval
from benchmarks.study import Found, Study
from benchmarks.truth import episodes as playing
from benchmarks.truth.credits import graph_steps
from benchmarks.truth.distances import WON, distance_changes, state_distances
from benchmarks.truth.league import RANKED, SOKOBAN
from benchmarks.truth.measures import Comparisons, Sample, bootstrap_weights, estimate, intervals, samples
from wrappers.credit.agentprm import GAMMA
from wrappers.credit.bpo import bpo
from wrappers.credit.grpo import grpo
from wrappers.credit.tree_grpo import tree_grpo
from wrappers.credit.vine import vine

COUNTS = (1, 4, 16)
GRAPH_SIZES = (8, 16)


@dataclass(frozen=True)
class Tree:
    """How trees are collected for a method, see `agentgym.rollout.collect_tree`, and what it makes of them."""

    credit: Callable[[StepTable], Floats]
    branches: int
    select: str | Select
    common: bool


_SUCCESS: dict[str, Any] = {"outcome": "won", "gamma": GAMMA}
#: As the recipes have it; scripted players have no entropy, so that BPO's forks are random too.
TREES = {
    "vine": Tree(partial(vine, pool="state", **_SUCCESS), 4, "distinct", True),
    "bpo": Tree(partial(bpo, **_SUCCESS), 1, at_random(1, 0), False),
    "tree_grpo": Tree(partial(tree_grpo, outcome="won"), 1, at_random(1, 0), False),
}
TREE_GROUP = 8


@dataclass(frozen=True)
class BranchScore:
    """How well one credit ranks the steps of one player.

    `size` counts continuations of each state or chosen step, of "graphgpo" episodes of a group; `cost` is steps of
    continuations per step.
    """

    player: str
    success: float
    credit: str
    size: int
    rank: Interval | None
    cost: float


@dataclass(frozen=True)
class Branching(Found):
    """The whole file."""

    config: playing.TruthConfig
    scores: list[BranchScore]


def continuations(episodes: StepTable, policy: playing.NoisyExpert, count: int, common: bool, seed: int) -> StepTable:
    """Play on from every state of episodes of Sokoban (state keys are boards), `count` times each.

    With `common`, k-th continuations of a level draw the same numbers step by step. Groups are those of the episodes;
    states come in the order of their first sight.
    """
    reached = np.stack([episodes.group, episodes.state, episodes.group, episodes.next_state], axis=1).reshape(-1, 2)
    places = [
        (group, str(episodes.states[state])) for group, state in dict.fromkeys(map(tuple, reached.tolist()))
    ]  # fmt: skip
    jobs = [(place, k) for place, (_, board) in enumerate(places) if not board.endswith(WON) for k in range(count)]
    rngs: list[np.random.Generator] = []

    def ask(observations: list[Any], infos: dict[str, NDArray[Any]], playing: NDArray[np.int64]) -> list[Reply]:
        return act_each(policy, observations, infos, [rngs[i] for i in playing])

    envs = _envs(min(len(jobs), SIDE_BY_SIDE))
    builder = TableBuilder(envs.num_envs, envs.metadata["autoreset_mode"])
    stage = Stage(envs, builder, policy, ask)
    for start in range(0, len(jobs), envs.num_envs):
        wave = jobs[start : start + envs.num_envs]
        padded = wave + [wave[-1]] * (envs.num_envs - len(wave))
        rngs[:] = [
            np.random.default_rng([seed, common, places[place][0] if common else place, k]) for place, k in padded
        ]  # fmt: skip
        stage.observations, stage.infos = envs.reset(options=[{"level": places[place][1]} for place, _ in padded])
        stage.active = np.arange(envs.num_envs) < len(wave)
        builder.reset(stage.infos, stage.active.copy(), [episodes.groups[places[place][0]] for place, _ in padded])
        while stage.active.any():
            stage.step()
    return builder.table()


def _envs(count: int) -> Any:
    row = playing.ENVIRONMENTS[SOKOBAN]
    return gym.make_vec(row.id, count, autoreset_mode="Disabled", expert=True, **row.setup.plenty)


def _player(config: playing.TruthConfig, name: str) -> playing.NoisyExpert:
    return playing.NoisyExpert(config.players[SOKOBAN][name], playing.scripted_of(SOKOBAN).others)


def measure_player(config: playing.TruthConfig, name: str, progress: Progress) -> list[BranchScore]:
    """Let one player play and play on, and measure `vine` and GraphGPO on the same steps."""
    episodes = playing.play(config, SOKOBAN, name, progress).table
    truth = distance_changes(episodes, state_distances(episodes))
    weights = bootstrap_weights(episodes.n_groups, config.resamples, config.seed)
    compared = Comparisons.of(episodes, episodes.group, truth)
    whole = Sample(compared, compared)
    score = partial(BranchScore, name, float(episodes.trajectory_won.mean()))
    scores = []
    for common in (False, True):
        words = "common" if common else "independent"
        progress(int(common), 2, f"kinds of numbers, {max(COUNTS)} continuations of every state")
        found = continuations(episodes, _player(config, name), max(COUNTS), common, config.seed)
        number = np.arange(found.n_trajectories) % max(COUNTS)
        for count in COUNTS:
            parts = [found.keep(number // count == part) for part in range(max(COUNTS) // count)]
            credits = [vine(episodes, continuations=part, outcome="won", gamma=GAMMA) for part in parts]
            sums = np.mean([whole.sums(credit) for credit in credits], axis=0)
            cost = len(found) / len(episodes) * count / max(COUNTS)
            scores.append(score(f"vine, {words}", count, intervals(sums, weights)["within"], cost))
    for size, (part, sample) in samples(episodes, truth, GRAPH_SIZES).items():
        scores.append(score("graphgpo", size, intervals(sample.sums(graph_steps(part)), weights)["within"], 0.0))
    return scores


def measure_trees(config: playing.TruthConfig, name: str, progress: Progress) -> list[BranchScore]:
    """Let one player play trees, and measure the method that they were collected for on the steps that it scores."""
    scores = []
    tasks = playing.tasks_of(SOKOBAN, config.tasks[SOKOBAN])
    for i, (method, tree) in enumerate(TREES.items()):
        progress(i, len(TREES), "kinds of trees")
        grown = collect_tree(
            _envs(SIDE_BY_SIDE), _player(config, name), tasks=tasks, group_size=TREE_GROUP, branches=tree.branches,
            select=tree.select, common=tree.common, seed=config.seed,
        )  # fmt: skip
        episodes = grown.keep(np.arange(grown.n_trajectories) < len(tasks) * TREE_GROUP)
        won, cost = float(episodes.trajectory_won.mean()), len(grown) / len(episodes) - 1
        truth = distance_changes(grown, state_distances(grown))
        weights = bootstrap_weights(grown.n_groups, config.resamples, config.seed)
        given = tree.credit(grown)
        part = Comparisons.of(grown, grown.group, np.where(np.isfinite(given), truth, np.nan))
        credits = {"": given, ", grpo": grpo(grown), ", graphgpo": graph_steps(grown)}
        for other, values in credits.items():
            rank = intervals(Sample(part, part).sums(values), weights)["within"]
            scores.append(BranchScore(name, won, f"tree: {method}{other}", tree.branches, rank, cost))
    return scores


def configure(
    quick: Annotated[bool, typer.Option("--quick", help="2 levels instead of 12.")] = False,
    groups: playing.Levels = None,
    seed: playing.Seed = 0,
) -> playing.TruthConfig:
    """Measure how well Monte-Carlo values of 1, 4 and 16 continuations rank actions in Sokoban."""
    return playing.make_config(
        RANKED, envs=[SOKOBAN], players=("random", "expert 25", "expert 50"), tasks=groups or (2 if quick else 12),
        seed=seed,
    )  # fmt: skip


def page(found: Branching) -> Page:
    """Return one table: a row per player, credit and number of continuations."""
    rows = [
        [
            each.player, f"{100 * each.success:.0f} %", f"{each.credit}, {each.size}", estimate(each.rank),
            f"{each.cost:.1f}" if each.cost else NONE,
        ]
        for each in found.scores
    ]  # fmt: skip
    explained = {
        "credit": "vine: random numbers, continuations of each state; graphgpo: episodes per group; tree: the method "
        "that it was collected for, alone or another one on its steps, continuations of each chosen step.",
        "rank": "Spearman's correlation with the true change of distance within states, 95 % intervals over levels.",
        "cost": "steps of continuations per step of the episodes.",
    }
    title = f"{found.config.tasks[SOKOBAN]} levels x {found.config.episodes} episodes"
    return Page(
        "How well do values of continuations rank actions?",
        "Monte-Carlo values of few and of many continuations of each state, and methods for branches on trees, held "
        "against the moves that the steps really gained.",
        [Table(title, ["player", "won", "credit", "rank", "cost"], rows, explained=explained)],
        chips=[("levels", str(found.config.tasks[SOKOBAN])), ("seed", str(found.config.seed))],
    )


STUDY = Study(
    name="branching", file="branching.json", version=1, part="player", record=list[BranchScore], results=Branching,
    configure=configure, parts=lambda config: list(config.players[SOKOBAN]), page=page,
    run=lambda config, name, context, progress: [
        *measure_player(config, name, progress), *measure_trees(config, name, progress)
    ],
    summary=lambda config, players, context: {"scores": list(itertools.chain.from_iterable(players))},
)  # fmt: skip
