"""Few-shot examples: whole episodes of an expert on tasks that are not of the panel.

They come from the split of training, played by the fair player that the environment's models are cloned from where it
has one, else by its own expert. The shortest won ones are taken, one prompt for all tasks. An expert does not say what
it thinks: the thoughts are plain sentences around its commands. `examples.json` in the results' folder holds them, and
a file of that form, with thoughts written by hand, can be given instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentgym.panels import digest
from benchmarks import json_files
from benchmarks.config import Config
from benchmarks.json_files import ResultsError
from benchmarks.training.stack import bare_envs

#: Tasks that are played for each example that is wanted.
_TRIED = 8


@dataclass(frozen=True)
class ExampleStep:
    """A turn: what is seen, what is thought, and the command."""

    observation: str
    thought: str
    command: str


@dataclass(frozen=True)
class Example:
    """A won episode; `task` is its task's id."""

    task: str
    steps: list[ExampleStep]


@dataclass(frozen=True)
class Examples:
    """The file `examples.json`; `player` is who played."""

    player: str
    episodes: list[Example]


def expert_examples(config: Config, count: int, panel: Collection[str]) -> Examples:
    """Return won episodes of the expert.

    Args:
        config: names environment, split of training and expert.
        count: how many.
        panel: digests of the panel's tasks, which are never shown.

    Raises:
        ResultsError: observations are pictures, there are no such tasks, or the expert wins too few of them.
    """
    setup = config.setup
    instead = "give --examples FILE, or --shots 0"
    try:
        single: Any = gym.make(config.env, **setup.options).unwrapped
        with contextlib.closing(single):
            fresh = (each for each in single.task_ids(setup.train) if digest(single.content(each)) not in panel)
            tasks = list(islice(fresh, _TRIED * count))
    except ValueError as error:
        raise ResultsError(f"examples come from the split {setup.train!r}: {error}; {instead}") from error
    if isinstance(single.observation_space, gym.spaces.Dict):
        raise ResultsError(f"examples are texts, and {config.env} shows pictures; {instead}")
    found = sorted(_won(config, tasks) if tasks else [], key=lambda example: len(example.steps))[:count]
    if len(found) < count:
        raise ResultsError(
            f"the expert won {len(found)} of the {len(tasks)} tasks of the split {setup.train!r} that are not of the "
            f"panel, {count} are wanted; {instead}"
        )
    return Examples(setup.adviser or "expert", found)


def _won(config: Config, tasks: Sequence[str]) -> list[Example]:
    envs = bare_envs(config, len(tasks), expert=True)
    observations, infos = envs.reset(seed=0, options=[{"task_id": task} for task in tasks])  # type: ignore[arg-type]
    seen: list[list[tuple[str, str]]] = [[] for _ in tasks]
    playing, won = set(range(len(tasks))), set[int]()
    while playing:
        commands = ["" if i not in playing else str(infos["expert_action"][i]) for i in range(len(tasks))]
        for i in playing:
            seen[i].append((str(observations[i]), commands[i]))
        observations, _, terminated, truncated, infos = envs.step(commands)
        over = {i for i in playing if terminated[i] or truncated[i]}
        won |= {i for i in over if infos["won"][i]}
        playing -= over
    envs.close()
    return [_example(tasks[i], seen[i]) for i in sorted(won)]


def _example(task: str, seen: Sequence[tuple[str, str]]) -> Example:
    """Put thoughts between what was seen and what was done: they say no more than that the command comes next."""
    steps = []
    for number, (observation, command) in enumerate(seen):
        if number == len(seen) - 1:
            thought = f"One step is left. I finish with: {command}"
        else:
            thought = f"{'The task is not done yet' if number else 'I have read the task'}. Next: {command}"
        steps.append(ExampleStep(observation, thought, command))
    return Example(task, steps)


def load_examples(path: Path) -> Examples:
    """Read a file.

    Raises:
        ResultsError: no such file, or not of this form; names it and the place.
    """
    return json_files.load(Examples, path)


def shown(examples: Examples, written: Callable[[str, str], str]) -> str:
    """Return the text that a prompt shows; "" without examples.

    Args:
        examples: the episodes.
        written: returns the reply for a thought and a command.
    """
    parts = []
    for number, example in enumerate(examples.episodes, 1):
        turns = [f"Observation: {step.observation}\n{written(step.thought, step.command)}" for step in example.steps]
        parts.append("\n\n".join([f"Example {number}, a whole episode of another task:", *turns]))
    return "\n\n".join(parts)
