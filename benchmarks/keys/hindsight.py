"""`hindsight`: how many failed episodes are successes of another task, and which tasks these are.

Players are random, half the expert, and a tiny clone. What is relabelled is played once more in a single environment
without wrappers.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from agentgym.core import TextEnv
from agentgym.rollout import Policy, collect
from agentgym.rollout.hindsight import CHOICES, relabel_goals
from agentgym.trajectory import Reply, StepTable
from baselines.environments.registry import SETTINGS, settings_of
from baselines.environments.settings import TINY, tasks
from baselines.runs.config import Config, make_config
from baselines.runs.stack import cloning, make_envs, new_policy
from benchmarks.console import NONE
from benchmarks.processes import Progress
from benchmarks.report.page import Page, Table
from benchmarks.study import Found, Study
from policies.scripted import SILENT, ExpertPolicy, RandomPolicy

RANDOM, HALF, CLONE = "random", "half expert", "clone"
#: Kinds of tasks whose distance is known: fewest and most commands.
_LENGTHS = ((1, 3), (4, 6), (7, 9))


@dataclass(frozen=True)
class HindsightConfig:
    """The options of the command."""

    envs: list[str]
    tasks: int
    group_size: int
    clone_tasks: int
    seed: int


@dataclass(frozen=True)
class Relabelled:
    """What one player's episodes of one environment become; `done` of the `failed` ones are successes of another task.

    `replayed`: share of relabelled episodes that won when played again, with their last step; None without any.
    `tasks`, `successes`: distinct new tasks and relabelled episodes, by `agentgym.rollout.hindsight.CHOICES`.
    `steps`, `steps_needed`: means of episodes relabelled with their hardest task, with and without loops.
    `cloned`: steps of won episodes before, and with those of the hardest tasks, without loops.
    `kinds`: episodes relabelled with their hardest task, and with all tasks, by kind of task.
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
        follows = rng.random(len(observations)) < 0.5
        others, advice = (policy.act(observations, infos, rng) for policy in (RandomPolicy(), ExpertPolicy()))
        return [
            best if follow and best.text != SILENT else other
            for follow, best, other in zip(follows.tolist(), advice, others, strict=True)
        ]


@dataclass(frozen=True)
class HindsightFound(Found):
    """The whole file: what became of episodes; version 1 had a field more."""

    config: HindsightConfig
    relabelled: list[Relabelled]


def environments() -> list[str]:
    """Return the names of environments with exact hindsight."""
    classes = {row.name: load_env_creator(str(gym.spec(row.id).entry_point)) for row in SETTINGS if row.scripted}
    return [name for name, made in classes.items() if getattr(made, "fulfilled", None) is not TextEnv.fulfilled]


def kind_of(env: str, task_id: str, single: Any) -> str:
    """Return what kind of task one is: as its info says, by its length at best, or whether options were left open."""
    _, info = single.reset(options={"task_id": task_id})
    if kinds := settings_of(env).setup.kinds:
        return str(info[kinds])
    if not hasattr(single.unwrapped, "distance"):
        return "options left open" if task_id.endswith("}") else "a request of the shop"
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
    env: str, player: str, policy: Policy, config: Config, chosen: Sequence[Mapping[str, Any]], *, group_size: int,
    seed: int,
) -> Relabelled:  # fmt: skip
    """Let a policy play `chosen` tasks, relabel in every way, play again, and count."""
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


def _run(config: HindsightConfig, env: str, context: Any, progress: Progress) -> list[Relabelled]:
    row, seed = settings_of(env), config.seed
    sizes = dataclasses.replace(row.full, clone_tasks=config.clone_tasks)
    learning = make_config(row, methods=["grpo"], seeds=[seed], model=TINY, history=None, sizes=sizes)
    # who is scripted needs nothing made easier
    whole = dataclasses.replace(learning, setup=row.pretrained_setup or row.setup)
    players: list[tuple[str, Policy, Config]] = [(RANDOM, RandomPolicy(), whole), (HALF, HalfExpert(), whole)]
    if config.clone_tasks:
        from baselines.imitation.cloning import clone

        policy, advised = new_policy(learning, seed), make_envs(learning, config.clone_tasks, expert=True)
        clone(policy, advised, tasks(learning.setup.train, config.clone_tasks), seed=seed, **cloning(learning))
        players.append((CLONE, policy, learning))
    found: list[Relabelled] = []
    for player, who, played in players:
        progress(len(found), len(players), "players")
        # behind those that the clone has learned from
        chosen = tasks(played.setup.train, config.tasks, config.clone_tasks)
        found.append(measure_hindsight(env, player, who, played, chosen, group_size=config.group_size, seed=seed))
    return found


def configure(
    quick: Annotated[bool, typer.Option("--quick", help="4 tasks, four episodes of each, no clone.")] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(help="Environment with exact hindsight; may be given several times. Default: all of them."),
    ] = None,
    number: Annotated[int | None, typer.Option("--tasks", min=1, help="Number of tasks. Default: 64.")] = None,
    group_size: Annotated[int | None, typer.Option(min=1, help="Episodes of each. Default: 8.")] = None,
    clone_tasks: Annotated[
        int | None, typer.Option(min=0, help="Episodes that the clone learns from; 0: no clone. Default: 500.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the episodes and the clone.")] = 0,
) -> HindsightConfig:
    """Measure how many failed episodes are exact successes of another task, and which."""
    known = environments()
    for name in env or ():
        if name not in known:
            raise typer.BadParameter(
                f"expected one of {', '.join(known)}, whose failed episodes are exact successes of other tasks "
                f"(TextEnv.fulfilled), got {name!r}",
                param_hint="--env",
            )
    clones = (0 if quick else 500) if clone_tasks is None else clone_tasks
    return HindsightConfig(
        env or known, number or (4 if quick else 64), group_size or (4 if quick else 8), clones, seed
    )  # fmt: skip


def _page(found: HindsightFound) -> Page:
    title = "Which tasks did failed episodes do?"
    relabelled = found.relabelled
    rows = [
        [
            each.env, each.player, f"{each.failed}/{each.episodes}", f"{100 * each.done / max(each.failed, 1):.1f} %",
            str(each.tasks["hardest"]), f"{each.steps:.1f}", f"{each.steps_needed:.1f}",
            f"{each.cloned[0]} > {each.cloned[1]}", NONE if each.replayed is None else f"{100 * each.replayed:.1f} %",
        ]
        for each in relabelled
    ]  # fmt: skip
    heads = ["environment", "player", "failed", "did another", "tasks", "steps", "needed", "to clone", "won again"]
    shares = Table(
        "Failed episodes that are successes of another task", heads, rows,
        "The hardest task of each; needed: steps without loops; to clone: accepted steps of won episodes.",
    )  # fmt: skip
    kinds = [
        [each.env, each.player, kind, str(each.kinds["hardest"].get(kind, 0)), str(count)]
        for each in relabelled
        for kind, count in each.kinds["all"].items()
    ]
    tables = [shares, Table("What they did", ["environment", "player", "kind of task", "hardest", "all"], kinds)]
    return Page(title, "Exact hindsight: every task is played again.", tables)


STUDY = Study(
    name="hindsight", file="hindsight.json", version=2, part="environment", record=list[Relabelled],
    results=HindsightFound, configure=configure, parts=lambda config: config.envs, run=_run, page=_page,
    summary=lambda config, found, context: {"relabelled": [row for each in found for row in each]},
)  # fmt: skip
