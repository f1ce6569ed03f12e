"""`aliasing`: how often state keys take different states for the same, on random play.

    python -m benchmarks.run aliasing
    python -m benchmarks.run aliasing --env virtualhome

A visit is a state in which an action was taken. All visits of one task with the same key form a group; a visit is
aliased when the states of its group are not all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer
from rich.console import Console

import agentgym  # noqa: F401  # registers the environments
from baselines.environments.settings import SIDE_BY_SIDE, tasks
from benchmarks.console import save_figures, table
from wrappers.canonical import Key, enriched_key, graphgpo_key, observation_key, rewardflow_key

#: Environments whose info has what the keys are made of.
ENVIRONMENTS = {"alfworld": "AgentRL/ALFWorld-v0", "virtualhome": "AgentRL/VirtualHome-v0"}
#: The keys that are compared, with what they are made of.
KEYS: dict[str, Key] = {
    "observation (GiGPO)": observation_key,
    "observation, inventory with status (RewardFlow)": rewardflow_key,
    "observation, location, inventory with status (GraphGPO)": graphgpo_key,
    "location, inventory with status": lambda observation, info: f"{info['location']} | {info['inventory']}",
    "observation, admissible commands": enriched_key("admissible_actions"),
}


@dataclass(frozen=True)
class Aliasing:
    """What one key does.

    Attributes:
        key: what it is made of.
        aliased: share of visits in groups that mix different states, in 0..1.
        groups: distinct (task, key) pairs.
    """

    key: str
    aliased: float
    groups: int


@dataclass(frozen=True)
class AliasingReport:
    """All keys on the same `visits`, which are of `states` distinct (task, exact state) pairs."""

    visits: int
    states: int
    keys: list[Aliasing]


def aliased_share(groups: Sequence[Hashable], states: Sequence[Hashable]) -> float:
    """Return the share of visits whose group holds more than one state.

    Args:
        groups: one label per visit: task and key.
        states: one exact state per visit.

    >>> aliased_share(["a", "a", "a", "b"], [1, 1, 2, 3])
    0.75
    """
    seen: dict[Hashable, set[Hashable]] = {}
    for group, state in zip(groups, states, strict=True):
        seen.setdefault(group, set()).add(state)
    return sum(len(seen[group]) > 1 for group in groups) / max(len(groups), 1)


def any_command(commands: Sequence[str], rng: np.random.Generator) -> str:
    """Draw a command, all with the same probability."""
    return commands[int(rng.integers(len(commands)))]


def any_verb(commands: Sequence[str], rng: np.random.Generator) -> str:
    """Draw a verb, then a command that begins with it: walking about is not most of what is done then."""
    verbs = sorted({command.partition(" ")[0] for command in commands})
    verb = verbs[int(rng.integers(len(verbs)))]
    return any_command([command for command in commands if command.partition(" ")[0] == verb], rng)


#: How commands may be drawn.
PLAYERS: dict[str, Callable[[Sequence[str], np.random.Generator], str]] = {"commands": any_command, "verbs": any_verb}


def measure_aliasing(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    tasks: Sequence[Mapping[str, Any]],
    *,
    repeats: int,
    player: str,
    seed: int,
    keys: Mapping[str, Key] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> AliasingReport:
    """Play every task several times at random, and compare the keys.

    Args:
        envs: bare environments with autoreset `DISABLED`.
        tasks: reset options.
        repeats: episodes per task.
        player: how commands are drawn, a key of `PLAYERS`.
        seed: of the draws.
        keys: names and functions; None: `KEYS`.
        progress: called with the episodes begun and their number.
    """
    draw, rng = PLAYERS[player], np.random.default_rng(seed)
    keys = KEYS if keys is None else keys
    labels: dict[str, list[Hashable]] = {name: [] for name in keys}
    states: list[Hashable] = []
    episodes = [dict(task) for task in tasks for _ in range(repeats)]
    for start in range(0, len(episodes), envs.num_envs):
        wave = episodes[start : start + envs.num_envs]
        padded = wave + [wave[-1]] * (envs.num_envs - len(wave))
        observations, infos = envs.reset(seed=seed, options=padded)  # type: ignore[arg-type]  # per sub-environment
        running = np.arange(envs.num_envs) < len(wave)
        while running.any():
            actions = [""] * envs.num_envs
            for i in np.flatnonzero(running).tolist():
                info = {name: column[i] for name, column in infos.items() if not name.startswith("_")}
                task = info["task_id"]
                states.append((task, info["state_key"]))
                for name, key in keys.items():
                    labels[name].append((task, key(observations[i], info)))
                actions[i] = draw(info["admissible_actions"], rng)
            observations, _, terminated, truncated, infos = envs.step(actions)
            running &= ~(terminated | truncated)
        progress(start + len(wave), len(episodes))
    found = [Aliasing(name, aliased_share(groups, states), len(set(groups))) for name, groups in labels.items()]
    return AliasingReport(len(states), len(set(states)), found)


def aliasing(
    env: Annotated[str, typer.Option(help=f"One of {', '.join(ENVIRONMENTS)}.")] = "alfworld",
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of official data (ALFWorld's holds json_2.1.1); else generated tasks."),
    ] = None,
    split: Annotated[str, typer.Option(help="Whose tasks.")] = "valid_unseen",
    number: Annotated[int, typer.Option("--tasks", min=1, help="Number of tasks.")] = 134,
    repeats: Annotated[int, typer.Option(min=1, help="Episodes of each.")] = 8,
    player: Annotated[
        str, typer.Option(help="[bold]verbs[/]: a random verb, then a command; [bold]commands[/]: any command.")
    ] = "verbs",
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Measure how often state keys mix different states of a household, on random play to the time limit."""
    if env not in ENVIRONMENTS:
        raise typer.BadParameter(f"expected one of {', '.join(ENVIRONMENTS)}, got {env!r}", param_hint="--env")
    if player not in PLAYERS:
        raise typer.BadParameter(f"expected one of {', '.join(PLAYERS)}, got {player!r}", param_hint="--player")
    console = Console()
    try:
        num_envs, source = min(SIDE_BY_SIDE, number * repeats), "generated" if data is None else str(data)
        envs: Any = gym.make_vec(ENVIRONMENTS[env], num_envs, autoreset_mode="Disabled", data=source, split=split)
        found = measure_aliasing(envs, tasks(split, number), repeats=repeats, player=player, seed=seed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    where = f"{env}, {'generated' if data is None else 'official'} tasks"
    console.print(
        table(
            ["state key", "aliased visits", "distinct keys"],
            [(row.key, f"{100 * row.aliased:.1f} %", f"{row.groups:,}") for row in found.keys],
            title=f"{where}, {split}: {number} tasks x {repeats} episodes, random {player}",
            caption=f"{found.visits:,} visits of {found.states:,} states",
        )
    )
    save_figures(found, out)
