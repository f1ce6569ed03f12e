"""`study aliasing`: how often state keys take different states for the same, on random play.

A visit is a state in which an action was taken. It is aliased when its task has visits of other states with its key.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer

import agentgym  # noqa: F401  # registers the environments
from baselines.environments.registry import SETTINGS
from baselines.environments.settings import SIDE_BY_SIDE, tasks
from benchmarks.console import option
from benchmarks.processes import Progress
from benchmarks.report.page import Page, Table
from benchmarks.study import Found, Study
from wrappers.canonical import Key, enriched_key
from wrappers.credit.method import methods

#: The keys that are compared, with what they are made of: the papers' from the one of fewest parts on, and others.
KEYS: dict[str, Key] = {
    **dict(sorted((method.key for method in methods().values() if method.key), key=lambda key: key[0].count(","))),
    "location, inventory with status": lambda observation, info: f"{info['location']} | {info['inventory']}",
    "observation, admissible commands": enriched_key("admissible_actions"),
}


@dataclass(frozen=True)
class AliasingConfig:
    """The options of the command."""

    env: str
    data: str
    split: str
    tasks: int
    repeats: int
    player: str
    seed: int


@dataclass(frozen=True)
class Aliasing:
    """A key, the share of visits in groups that mix different states, and the number of (task, key) pairs."""

    key: str
    aliased: float
    groups: int


@dataclass(frozen=True)
class AliasingReport:
    """All keys on the same `visits`, which are of `states` distinct (task, exact state) pairs."""

    visits: int
    states: int
    keys: list[Aliasing]


@dataclass(frozen=True)
class AliasingFound(Found):
    """The whole file."""

    config: AliasingConfig
    report: AliasingReport


def aliased_share(groups: Sequence[Hashable], states: Sequence[Hashable]) -> float:
    """Return the share of visits whose group holds more than one state; group and state of every visit.

    >>> aliased_share(["a", "a", "a", "b"], [1, 1, 2, 3])
    0.75
    """
    seen: dict[Hashable, set[Hashable]] = {}
    for group, state in zip(groups, states, strict=True):
        seen.setdefault(group, set()).add(state)
    return sum(len(seen[group]) > 1 for group in groups) / max(len(groups), 1)


#: How commands may be drawn: any, or a verb first (most commands walk about, and most verbs do something else).
PLAYERS = ("commands", "verbs")


def drawn(commands: Sequence[str], rng: np.random.Generator, player: str = "commands") -> str:
    """Draw a command, as one of `PLAYERS` does."""
    if player == "verbs":
        verb = drawn(sorted({command.partition(" ")[0] for command in commands}), rng)
        commands = [command for command in commands if command.partition(" ")[0] == verb]
    return commands[int(rng.integers(len(commands)))]


def measure_aliasing(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    config: AliasingConfig,
    keys: Mapping[str, Key] = KEYS,
    progress: Progress = lambda done, total, words: None,
) -> AliasingReport:
    """Play every task several times at random in bare environments with autoreset `DISABLED`, and compare the keys."""
    rng = np.random.default_rng(config.seed)
    labels: dict[str, list[Hashable]] = {name: [] for name in keys}
    states: list[Hashable] = []
    episodes = [task for task in tasks(config.split, config.tasks) for _ in range(config.repeats)]
    for start in range(0, len(episodes), envs.num_envs):
        wave = episodes[start : start + envs.num_envs]
        padded: Any = wave + [wave[-1]] * (envs.num_envs - len(wave))
        observations, infos = envs.reset(seed=config.seed, options=padded)
        running = np.arange(envs.num_envs) < len(wave)
        while running.any():
            actions = [""] * envs.num_envs
            for i in np.flatnonzero(running).tolist():
                info = {name: column[i] for name, column in infos.items() if not name.startswith("_")}
                task = info["task_id"]
                states.append((task, info["state_key"]))
                for name, key in keys.items():
                    labels[name].append((task, key(observations[i], info)))
                actions[i] = drawn(info["admissible_actions"], rng, config.player)
            observations, _, terminated, truncated, infos = envs.step(actions)
            running &= ~(terminated | truncated)
        progress(start + len(wave), len(episodes), "episodes")
    found = [Aliasing(name, aliased_share(groups, states), len(set(groups))) for name, groups in labels.items()]
    return AliasingReport(len(states), len(set(states)), found)


def configure(
    quick: Annotated[bool, option("4 tasks, two episodes each: a smoke test.", "--quick")] = False,
    env: Annotated[str, option("An environment whose infos have location and inventory.")] = "alfworld",
    data: Annotated[
        Path | None, option("Folder of official data (ALFWorld's holds json_2.1.1); else generated tasks.")
    ] = None,
    split: Annotated[str, option("Split of the tasks.")] = "valid_unseen",
    number: Annotated[int | None, option("Number of tasks. Default: 134.", "--tasks", min=1)] = None,
    repeats: Annotated[int | None, option("Episodes per task. Default: 8.", min=1)] = None,
    player: Annotated[str, option("verbs: a random verb, then a command; commands: any command.")] = "verbs",
    seed: Annotated[int, option("Seed of the draws.", min=0)] = 0,
) -> AliasingConfig:
    """Measure how often state keys mix different states of a household, on random play to the time limit."""
    if player not in PLAYERS:
        raise typer.BadParameter(f"expected one of {', '.join(PLAYERS)}, got {player!r}", param_hint="--player")
    source = "generated" if data is None else str(data)
    config = AliasingConfig(
        env, source, split, number or (4 if quick else 134), repeats or (2 if quick else 8), player, seed
    )  # fmt: skip
    try:
        _, infos = make(config, 1).reset(options=tasks(split, 1))
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    if missing := {"location", "inventory"} - set(infos):
        raise typer.BadParameter(f"infos of {env!r} lack {', '.join(sorted(missing))}", param_hint="--env")
    return config


def make(config: AliasingConfig, num_envs: int) -> Any:
    """Return bare environments; a `ValueError` where there is no such environment, split or data."""
    ids = {row.name: row.id for row in SETTINGS}
    if config.env not in ids:
        raise ValueError(
            f"{config.env!r}: this study compares state keys of the project's households, such as alfworld, whose "
            "infos have location and inventory"
        )
    return gym.make_vec(ids[config.env], num_envs, autoreset_mode="Disabled", data=config.data, split=config.split)


def _run(config: AliasingConfig, env: str, context: Any, progress: Progress) -> AliasingReport:
    envs = make(config, min(SIDE_BY_SIDE, config.tasks * config.repeats))
    return measure_aliasing(envs, config, progress=progress)


def _page(found: AliasingFound) -> Page:
    config, report = found.config, found.report
    title = f"{config.env}, {'generated' if config.data == 'generated' else 'official'} tasks"
    rows = [[row.key, f"{100 * row.aliased:.1f} %", f"{row.groups:,}"] for row in report.keys]
    caption = f"{report.visits:,} visits of {report.states:,} states"
    return Page(
        "How often do state keys mix states?",
        f"{title}, {config.split}: {config.tasks} tasks x {config.repeats} episodes, random {config.player}.",
        [Table(title, ["state key", "aliased visits", "distinct keys"], rows, caption)],
    )


STUDY = Study(
    name="aliasing", file="aliasing.json", version=1, part="environment", record=AliasingReport, results=AliasingFound,
    configure=configure, parts=lambda config: [config.env], run=_run, page=_page,
    summary=lambda config, reports, context: {"report": reports[0]},
)  # fmt: skip
