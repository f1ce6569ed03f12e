"""`branching`: how well do Monte-Carlo values rank actions, by how many continuations, with which random numbers?

    python -m benchmarks.run branching

The players of `ranking` play its first levels, 16 episodes each. From every state that they came to, the same player
plays on 16 times, with the time limit of a whole episode. `vine` then credits the episodes by 1, 4 or 16 continuations
a state, beside GraphGPO, which sees the episodes alone. What fewer than 16 continuations are worth is a mean over
disjoint parts of the 16.

Random numbers are independent, or common: the k-th continuations of all states of a level meet the same luck, step by
step, so that two states differ by what they are.

Then the methods for branches on trees such as a trainer collects, 8 episodes a level and continuations of their own
steps, with what is left of the time limit; beside each what GRPO and GraphGPO make of the same trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import act_each
from agentgym.rollout.branch_points import Select, at_random
from agentgym.rollout.groups import Stage
from agentgym.rollout.recorder import TableBuilder
from agentgym.rollout.tree import collect_tree
from agentgym.trajectory import Floats, Reply, StepTable
from baselines.environments.settings import SIDE_BY_SIDE, tasks
from benchmarks.console import NONE, save_figures, say, table, telling
from benchmarks.ranking.distance import distance_changes, state_distances
from benchmarks.ranking.measures import Comparisons, Sample, bootstrap_weights, intervals
from benchmarks.ranking.results import RankingConfig
from benchmarks.ranking.rollouts import NoisyExpert, comparisons, play, split_groups
from benchmarks.ranking.study import Progress, make_config
from benchmarks.statistics import Interval
from wrappers.credit.agentprm import GAMMA
from wrappers.credit.bpo import bpo
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.grpo import grpo
from wrappers.credit.tree_grpo import tree_grpo
from wrappers.credit.vine import vine

PLAYERS = ("expert 50", "expert 25", "uniform")
COUNTS = (1, 4, 16)
GRAPH_SIZES = (8, 16)
FULL_TASKS, QUICK_TASKS = 12, 2
_SOLVED = " [success]"


@dataclass(frozen=True)
class Tree:
    """How trees are collected for a method, and what it makes of them.

    Attributes:
        credit: of a table.
        branches, select, common: of `agentgym.rollout.collect_tree`.
    """

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

    Attributes:
        player: who played.
        success: share of the player's episodes solved.
        credit: "vine, independent", "vine, common" or "graphgpo"; on trees, "tree: " and the methods' names.
        size: continuations of each state, or chosen step; of "graphgpo" episodes per group.
        rank: Spearman's rank correlation within states, with its 95 % interval over levels; None: nothing to rank.
        cost: steps of the continuations per step of the episodes.
    """

    player: str
    success: float
    credit: str
    size: int
    rank: Interval | None
    cost: float


def continuations(episodes: StepTable, optimal: float, env: str, count: int, common: bool, seed: int) -> StepTable:
    """Play on from every state that was reached, `count` times each.

    Args:
        episodes: of a Sokoban environment; its groups are levels, its state keys boards in the default symbols.
        optimal: of the player, see `benchmarks.ranking.rollouts.NoisyExpert`.
        env: id of the environment.
        count: continuations of each state.
        common: whether k-th continuations of a level draw the same numbers step by step; otherwise each draws its own.
        seed: of the numbers.

    Returns:
        A table whose groups are those of the episodes: state by state in the order of their first sight, the
        continuations of one next to each other.
    """
    reached = np.stack([episodes.group, episodes.state, episodes.group, episodes.next_state], axis=1).reshape(-1, 2)
    places = [
        (group, str(episodes.states[state])) for group, state in dict.fromkeys(map(tuple, reached.tolist()))
    ]  # fmt: skip
    jobs = [(place, k) for place, (_, board) in enumerate(places) if not board.endswith(_SOLVED) for k in range(count)]
    rngs: list[np.random.Generator] = []

    def ask(observations: list[Any], infos: dict[str, NDArray[Any]], playing: NDArray[np.int64]) -> list[Reply]:
        return act_each(policy, observations, infos, [rngs[i] for i in playing])

    policy = NoisyExpert(optimal)
    envs: Any = gym.make_vec(env, min(len(jobs), SIDE_BY_SIDE), autoreset_mode="Disabled", expert=True)
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


def measure_player(
    config: RankingConfig, name: str, progress: Progress = lambda player, words: None
) -> list[BranchScore]:
    """Let one player play and play on, and measure `vine` and `graphgpo` on the same steps."""
    progress(name, f"playing {config.tasks} x {config.episodes} episodes")
    episodes = play(config, name)
    truth = distance_changes(episodes, state_distances(episodes))
    weights = bootstrap_weights(episodes.n_groups, config.resamples, config.seed)
    compared = comparisons(episodes, episodes.group, truth)
    whole = Sample(compared, compared)
    won = float(episodes.trajectory_won.mean())
    score = partial(BranchScore, name, won)
    scores = []
    for common in (False, True):
        words = "common" if common else "independent"
        progress(name, f"{max(COUNTS)} continuations of every state, {words} numbers")
        found = continuations(episodes, config.optimal[name], config.env, max(COUNTS), common, config.seed)
        number = np.arange(found.n_trajectories) % max(COUNTS)
        for count in COUNTS:
            parts = [found.keep(number // count == part) for part in range(max(COUNTS) // count)]
            credits = [vine(episodes, continuations=part, outcome="won", gamma=GAMMA) for part in parts]
            sums = np.mean([whole.sums(credit) for credit in credits], axis=0)
            cost = len(found) / len(episodes) * count / max(COUNTS)
            scores.append(score(f"vine, {words}", count, intervals(sums, weights)["within"], cost))
    for size in GRAPH_SIZES:
        part = split_groups(episodes, size)
        compared = comparisons(part, episodes.group, truth)
        sums = Sample(compared, compared).sums(graphgpo(part, beta_episode=0.0))
        scores.append(score("graphgpo", size, intervals(sums, weights)["within"], 0.0))
    return scores


def measure_trees(
    config: RankingConfig, name: str, progress: Progress = lambda player, words: None
) -> list[BranchScore]:
    """Let one player play trees, and measure the method that they were collected for on the steps that it scores."""
    scores = []
    for method, tree in TREES.items():
        progress(name, f"trees for {method}")
        envs: Any = gym.make_vec(config.env, SIDE_BY_SIDE, autoreset_mode="Disabled", expert=True)
        grown = collect_tree(
            envs, NoisyExpert(config.optimal[name]), tasks=tasks(config.split, config.tasks), group_size=TREE_GROUP,
            branches=tree.branches, select=tree.select, common=tree.common, seed=config.seed,
        )  # fmt: skip
        episodes = grown.keep(np.arange(grown.n_trajectories) < config.tasks * TREE_GROUP)
        won, cost = float(episodes.trajectory_won.mean()), len(grown) / len(episodes) - 1
        truth = distance_changes(grown, state_distances(grown))
        weights = bootstrap_weights(grown.n_groups, config.resamples, config.seed)
        given = tree.credit(grown)
        rows = np.isfinite(given)
        whole = comparisons(grown, grown.group, truth)
        part = Comparisons(truth[rows], whole.task[rows], whole.sets[rows], whole.n_tasks, whole.n_sets)
        others = {"grpo": grpo(grown), "graphgpo": graphgpo(grown, beta_episode=0.0)}
        for credit, values in {method: given, **{f"{method}, {other}": each for other, each in others.items()}}.items():
            rank = intervals(Sample(part, part).sums(values[rows]), weights)["within"]
            scores.append(BranchScore(name, won, f"tree: {credit}", tree.branches, rank, cost))
    return scores


def branching(
    quick: Annotated[bool, typer.Option("--quick", help=f"{QUICK_TASKS} levels instead of {FULL_TASKS}.")] = False,
    groups: Annotated[int | None, typer.Option(min=2, help="Number of levels.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes, continuations and intervals.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Measure how well Monte-Carlo values of 1, 4 and 16 continuations rank actions in Sokoban."""
    config = make_config(groups or (QUICK_TASKS if quick else FULL_TASKS), (), seed)
    console = Console()
    scores: list[BranchScore] = []
    with telling(console, "measuring") as tell:
        for name in PLAYERS:
            for measure in (measure_player, measure_trees):
                scores += measure(config, name, lambda player, words: tell(f"{player}: {words}"))
    rows = [
        (
            each.player,
            f"{100 * each.success:.0f} %",
            f"{each.credit}, {each.size}",
            _shown(each.rank),
            f"{each.cost:.1f}" if each.cost else NONE,
        )
        for each in scores
    ]
    heads = ["player", "solved", "credit", "rank within states", "cost"]
    console.print(table(heads, rows, title=f"{config.tasks} levels x {config.episodes} episodes"))
    say(
        console,
        "vine: random numbers, continuations of each state; graphgpo: episodes per group; tree: the method that it was "
        "collected for, alone or another one on its steps, continuations of each chosen step. rank: Spearman's "
        "correlation with the true change of distance, 95 % intervals over levels. cost: steps of continuations per "
        "step of the episodes",
    )
    save_figures(scores, out)


def _shown(rank: Interval | None) -> str:
    """An estimate with its interval.

    >>> _shown(Interval(0.5, 0.25, 0.75))
    '0.50 [0.25, 0.75]'
    """
    return NONE if rank is None else f"{rank.mean:.2f} [{rank.low:.2f}, {rank.high:.2f}]"
