"""`hindsight`: how many failed episodes are successes of another task, and which tasks these are.

    python -m benchmarks.run hindsight

Players are the random one, one that plays the expert's action half of the time, and a tiny policy that is cloned for
this from a few demonstrations. What is relabelled is played once more, command by command, in a single environment
without wrappers.

    python -m benchmarks.run hindsight --env sokoban --tasks 500 --group-size 4 --updates 1000

clones fresh policies from random play, without and with what it did, and plays held-out tasks.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from agentgym.rollout import Policy, collect
from agentgym.rollout.hindsight import CHOICES, relabel_goals
from agentgym.trajectory import Reply, StepTable
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY, tasks
from benchmarks.config import Config, make_config
from benchmarks.console import NONE, save_figures, say, table
from benchmarks.training.stack import cloning, held_out_tasks, make_envs, new_policy
from policies.scripted import SILENT, ExpertPolicy, RandomPolicy

#: Environments with exact hindsight.
ENVIRONMENTS = ("sokoban", "alfworld", "virtualhome", "webshop")
#: Steps per update.
BATCH = 32
RANDOM, HALF, CLONE = "random", "half expert", "clone"
#: Kinds of Sokoban levels: fewest moves and most moves.
_LENGTHS = ((1, 3), (4, 6), (7, 9))


@dataclass(frozen=True)
class Relabelled:
    """What one player's episodes of one environment become.

    Attributes:
        env: its name.
        player: who played.
        episodes: how many.
        failed: those that failed their task.
        done: those of them that are successes of another task.
        replayed: share of relabelled episodes (all tasks of all episodes) that won when played again, and with their
            last step, in 0..1; None without any.
        tasks: distinct new tasks, by how one is chosen; see `agentgym.rollout.hindsight.CHOICES`.
        successes: relabelled episodes, likewise.
        steps: mean steps of an episode relabelled with its hardest task.
        steps_needed: the same without loops.
        cloned: steps of won episodes before; and with those of the hardest tasks, without loops.
        kinds: episodes relabelled with their hardest task, by kind of task; and with all tasks.
    """

    env: str
    player: str
    episodes: int
    failed: int
    done: int
    replayed: float | None
    tasks: dict[str, int]
    successes: dict[str, int]
    steps: float
    steps_needed: float
    cloned: tuple[int, int]
    kinds: dict[str, dict[str, int]]


class HalfExpert:
    """Plays what the expert says or an admissible command, each half of the time; needs `expert=True`."""

    def act(
        self, observations: Sequence[Any], infos: Mapping[str, NDArray[Any]], rng: np.random.Generator
    ) -> list[Reply]:
        """One reply per running sub-environment."""
        follows = rng.random(len(observations)) < 0.5
        others, advice = (policy.act(observations, infos, rng) for policy in (RandomPolicy(), ExpertPolicy()))
        return [
            best if follow and best.text != SILENT else other
            for follow, best, other in zip(follows.tolist(), advice, others, strict=True)
        ]


@dataclass(frozen=True)
class Learned:
    """What a tiny policy plays like that has learned from random play alone.

    Attributes:
        env: name of the environment.
        source: which steps it has learned.
        steps: how many.
        updates: how many updates that took.
        greedy: success on held-out tasks, in 0..1.
        sampled: the same at temperature 1.
    """

    env: str
    source: str
    steps: int
    updates: int
    greedy: float
    sampled: float


def kind_of(env: str, task_id: str, single: Any) -> str:
    """Return what kind of task one is: households' task type, WebShop's kind of request, Sokoban's length at best."""
    if env == "alfworld":
        return task_id.rpartition("#")[2].partition("-")[0]
    if env == "virtualhome":
        return task_id.rpartition("#")[2].partition(":")[0]
    if env == "webshop":
        return "options left open" if task_id.endswith("}") else "a request of the shop"
    single.reset(options={"task_id": task_id})
    length = single.unwrapped.distance()
    return next((f"{low} to {high} moves" for low, high in _LENGTHS if length <= high), "more moves")


def wins_again(single: Any, relabelled: StepTable) -> list[bool]:
    """Play the actions of every episode in a single environment: does the last of them win, and no other one?"""
    found = []
    for trajectory in relabelled.to_trajectories():
        single.reset(seed=0, options={"task_id": trajectory.group})
        won = []
        for step in trajectory.steps:
            *_, terminated, _, info = single.step(step.action)
            won.append(bool(info["won"]))
            if terminated:
                break
        found.append(won == [False] * (len(trajectory.steps) - 1) + [True])
    return found


def measure_hindsight(
    env: str,
    player: str,
    policy: Policy,
    config: Config,
    chosen: Sequence[Mapping[str, Any]],
    *,
    group_size: int,
    seed: int,
) -> Relabelled:
    """Play, relabel in every way, play again, and count.

    Args:
        env: name of the environment, one of `ENVIRONMENTS`.
        player: name of the policy.
        policy: who plays.
        config: how.
        chosen: reset options, one group each.
        group_size: episodes per group.
        seed: of the episodes.
    """
    envs = make_envs(config, len(chosen) * group_size, expert=player == HALF)
    single: Any = gym.make(config.env, **config.setup.options, **config.setup.plenty)
    played = collect(envs, policy, tasks=chosen, group_size=group_size, seed=seed)
    ways = {choose: relabel_goals(played, envs, choose=choose, seed=seed) for choose in CHOICES}
    needed = relabel_goals(played, envs, cut_loops=True, seed=seed)
    again = [won for relabelled in (ways["all"], needed) for won in wins_again(single, relabelled)]
    hardest = ways["hardest"]
    kinds = {
        choose: Counter(kind_of(env, str(one.group), single) for one in ways[choose].to_trajectories())
        for choose in ("hardest", "all")
    }  # fmt: skip
    before = int((played.won & played.valid).sum())
    return Relabelled(
        env=env,
        player=player,
        episodes=played.n_trajectories,
        failed=int((~played.trajectory_won).sum()),
        done=hardest.n_trajectories,
        replayed=sum(again) / len(again) if again else None,
        tasks={choose: relabelled.n_groups for choose, relabelled in ways.items()},
        successes={choose: relabelled.n_trajectories for choose, relabelled in ways.items()},
        steps=len(hardest) / max(hardest.n_trajectories, 1),
        steps_needed=len(needed) / max(needed.n_trajectories, 1),
        cloned=(before, before + len(needed)),
        kinds={choose: dict(sorted(counted.items())) for choose, counted in kinds.items()},
    )


def cloned_policy(config: Config, seed: int) -> Policy:
    """Return the tiny policy after its demonstrations."""
    from baselines.imitation.cloning import clone

    policy = new_policy(config, seed)
    envs = make_envs(config, config.clone_tasks, expert=True)
    clone(policy, envs, tasks(config.setup.train, config.clone_tasks), seed=seed, **cloning(config))
    return policy


def measure_learning(
    env: str, config: Config, chosen: Sequence[Mapping[str, Any]], *, group_size: int, updates: int, seed: int
) -> list[Learned]:
    """Clone fresh policies from random play: its won episodes, and these with what the others did.

    Args:
        env: name of the environment.
        config: how it is played.
        chosen: reset options of the random play, one group each.
        group_size: episodes per group.
        updates: of each policy.
        seed: of everything random.
    """
    from baselines.evaluation import evaluate
    from baselines.imitation.cloning import Demonstrator, imitate, won_steps

    envs, student = make_envs(config, len(chosen) * group_size), new_policy(config, seed)
    random = Demonstrator(student, RandomPolicy())
    played = collect(envs, random, tasks=chosen, group_size=group_size, seed=seed)
    done = relabel_goals(played, envs, cut_loops=True, demonstrate=student.demonstrate, seed=seed)
    won = won_steps(played)
    found = []
    for source, steps in (("won", won), ("won, and done", [*won, *won_steps(done)])):
        policy = new_policy(config, seed)
        batches = -(-len(steps) // BATCH)
        given = {**cloning(config), "epochs": -(-updates // batches), "batch_size": BATCH}
        imitate(policy, steps, seed=seed, enough=lambda finished: finished >= updates, **given)
        test, test_envs = held_out_tasks(config), make_envs(config, config.eval_tasks)
        greedy, sampled = (
            evaluate(test_envs, policy, test, seed=seed, temperature=temperature).success_rate
            for temperature in (0.0, 1.0)
        )
        found.append(Learned(env, source, len(steps), updates, greedy, sampled))
    return found


def hindsight(
    env: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(ENVIRONMENTS)}; may be repeated.")] = None,
    number: Annotated[int, typer.Option("--tasks", min=1, help="Number of tasks.")] = 64,
    group_size: Annotated[int, typer.Option(min=1, help="Episodes of each.")] = 8,
    clone_tasks: Annotated[int, typer.Option(min=0, help="Episodes that the clone learns from; 0: no clone.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Of the episodes and the clone.")] = 0,
    updates: Annotated[
        int, typer.Option(min=0, help="Instead, clone from random play, with and without what it did, so many updates.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Measure how many failed episodes are exact successes of another task, and which."""
    names = env or list(ENVIRONMENTS)
    for name in names:
        if name not in ENVIRONMENTS:
            raise typer.BadParameter(f"expected one of {', '.join(ENVIRONMENTS)}, got {name!r}", param_hint="--env")
    console, found = Console(), list[Relabelled]()
    learned: list[Learned] = []
    for name in names:
        row = settings_of(name)
        sizes = dataclasses.replace(row.full, clone_tasks=clone_tasks)
        config = make_config(row, methods=["grpo"], seeds=[seed], model=TINY, history=None, sizes=sizes)
        if updates:
            say(console, f"{name}: learning from random play")
            chosen = tasks(config.setup.train, number)
            learned += measure_learning(name, config, chosen, group_size=group_size, updates=updates, seed=seed)
            continue
        # who is scripted needs nothing made easier
        whole = dataclasses.replace(config, setup=row.pretrained_setup or row.setup)
        players: list[tuple[str, Policy, Config]] = [(RANDOM, RandomPolicy(), whole), (HALF, HalfExpert(), whole)]
        if clone_tasks:
            say(console, f"{name}: cloning")
            players.append((CLONE, cloned_policy(config, seed), config))
        for player, policy, played in players:
            say(console, f"{name}: {player}")
            # behind those that the clone has learned from
            chosen = tasks(played.setup.train, number, clone_tasks)
            found.append(measure_hindsight(name, player, policy, played, chosen, group_size=group_size, seed=seed))
    console.print(*([_learned(learned)] if updates else [_shares(found), _kinds(found)]))
    save_figures(learned if updates else found, out)


def _shares(found: Sequence[Relabelled]) -> Any:
    heads = ["environment", "player", "failed", "did another", "tasks", "steps", "needed", "to clone", "won again"]
    rows = [
        (
            row.env,
            row.player,
            f"{row.failed}/{row.episodes}",
            f"{100 * row.done / max(row.failed, 1):.1f} %",
            str(row.tasks["hardest"]),
            f"{row.steps:.1f}",
            f"{row.steps_needed:.1f}",
            f"{row.cloned[0]} > {row.cloned[1]}",
            NONE if row.replayed is None else f"{100 * row.replayed:.1f} %",
        )
        for row in found
    ]
    title = "failed episodes that are successes of another task"
    caption = "the hardest of each; needed: steps without loops; to clone: accepted steps of won episodes"
    return table(heads, rows, left=2, title=title, caption=caption)


def _learned(found: Sequence[Learned]) -> Any:
    rows = [
        (row.env, row.source, f"{row.steps:,}", str(row.updates), f"{row.greedy:.1%}", f"{row.sampled:.1%}")
        for row in found
    ]
    heads = ["environment", "learned from", "steps", "updates", "greedy", "sampled"]
    return table(heads, rows, left=2, title="a tiny policy that has learned from random play alone, on held-out tasks")


def _kinds(found: Sequence[Relabelled]) -> Any:
    rows = [
        (row.env, row.player, kind, str(row.kinds["hardest"].get(kind, 0)), str(count))
        for row in found
        for kind, count in row.kinds["all"].items()
    ]
    return table(["environment", "player", "kind of task", "hardest", "all"], rows, left=3, title="what they did")
