"""How a model is prompted: the baseline methods of papers, and few-shot examples.

| method | the prompt shows | the model writes |
|---|---|---|
| vanilla | rules, a window of the latest steps | `<action>` |
| cot | the same | `<think>`, then `<action>` |
| react | rules, the whole episode as a conversation | `Thought:`, then `Action:` |
| reflexion | the same, and notes on lost trials of the same task | the same |

Examples are the shortest won episodes of an expert on training tasks that are not of the panel, the same for all tasks.
The fair player plays them where the environment's models are cloned from one. Thoughts are plain sentences.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import gymnasium as gym

from agentgym.panels import digest
from baselines.runs.config import Config
from baselines.runs.stack import COMMAND_ONLY, bare_envs, with_prompts
from benchmarks.json_files import ResultsError
from policies.scripted import tagged
from wrappers.prompt import REPLY_FORMAT

#: Tasks that are played for each example.
_TRIED = 8


@dataclass(frozen=True)
class ExampleStep:
    """A turn of an example."""

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
    """Return `count` won episodes of the expert, on training tasks whose digests are not of the panel."""
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
    steps = []
    for number, (observation, command) in enumerate(seen):
        if number == len(seen) - 1:
            thought = f"One step is left. I finish with: {command}"
        else:
            thought = f"{'The task is not done yet' if number else 'I have read the task'}. Next: {command}"
        steps.append(ExampleStep(observation, thought, command))
    return Example(task, steps)


def shown(examples: Examples, written: Callable[[str, str], str]) -> str:
    """Return the examples as a prompt shows them; `written` returns the reply for a thought and a command."""
    parts = []
    for number, example in enumerate(examples.episodes, 1):
        turns = [f"Observation: {step.observation}\n{written(step.thought, step.command)}" for step in example.steps]
        parts.append("\n\n".join([f"Example {number}, a whole episode of another task:", *turns]))
    return "\n\n".join(parts)


@dataclass(frozen=True)
class Method:
    """A way to prompt: `request` follows the rules, `written` makes an example's reply of a thought and a command.

    `parsing` is for `wrappers.reply.parse_reply`; `transcript` shows the whole episode as a conversation; `listed`
    None: admissible commands are as the environment's prompts have them; `trials` are attempts at a task, with notes on
    the lost ones; `body` is sent to an endpoint with every request, `local` are settings of a model here.
    """

    name: str
    request: str
    written: Callable[[str, str], str]
    parsing: Mapping[str, Any] = field(default_factory=dict)
    transcript: bool = False
    listed: bool | None = None
    trials: int = 1
    body: Mapping[str, Any] = field(default_factory=dict)
    local: Mapping[str, Any] = field(default_factory=dict)

    def envs(self, config: Config, episodes: int, examples: Examples) -> gym.vector.VectorEnv[Any, Any, Any]:
        """Return environments that prompt and parse by this method, at most as many as there are episodes."""
        request = "\n\n".join(filter(None, (self.request, shown(examples, self.written))))
        if self.listed is not None:
            setup = dataclasses.replace(config.setup, prompt={**config.setup.prompt, "admissible": self.listed})
            config = dataclasses.replace(config, setup=setup)
        envs = bare_envs(config, episodes)
        return with_prompts(envs, config, transcript=self.transcript, reply_format=request, **self.parsing)


#: A model that goes on makes up the next observation.
_STOP = ("\nObservation:",)
_LABELLED: dict[str, Any] = {
    "request": (
        "Each turn, write two lines and nothing else:\n"
        "Thought: what you know by now, and what is to be done next\n"
        "Action: exactly one command\n"
        "Then stop: you will be told what came of it."
    ),
    "written": lambda thought, command: f"Thought: {thought}\nAction: {command}",
    "parsing": {"form": "labels"},
    "transcript": True,
    "listed": False,
    "body": {"stop": list(_STOP)},
    "local": {"prefix": "Thought:", "suffix": "", "stop": _STOP},
}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("vanilla", COMMAND_ONLY, lambda thought, command: tagged(command)),
        Method(
            "cot", REPLY_FORMAT, lambda thought, command: f"<think>{thought}</think>{tagged(command)}",
            local={"prefix": "<think>", "suffix": "", "stop": ("</action>",)},
        ),
        Method("react", **_LABELLED),
        Method("reflexion", trials=3, **_LABELLED),
    )
}  # fmt: skip
