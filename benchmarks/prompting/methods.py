"""The ways to prompt a model that papers' tables begin with: what it is asked to write, is shown, and how it is read.

| method | is shown | writes |
|---|---|---|
| vanilla | rules, a window of the latest steps | `<action>` |
| cot | the same | `<think>`, then `<action>` |
| react | rules, the whole episode as a conversation | `Thought:`, then `Action:` |
| reflexion | the same, and its notes on lost trials of the same task | the same |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from benchmarks.config import Config
from benchmarks.prompting.examples import Examples, shown
from benchmarks.training.stack import COMMAND_ONLY, bare_envs, with_prompts
from policies.scripted import tagged
from wrappers.prompt import REPLY_FORMAT

_LABELS = (
    "Each turn, write two lines and nothing else:\n"
    "Thought: what you know by now, and what is to be done next\n"
    "Action: exactly one command\n"
    "Then stop: you will be told what came of it."
)


@dataclass(frozen=True)
class Method:
    """A way to prompt.

    Attributes:
        name: on the command line.
        asked: what is said of replies, after the environment's own rules.
        written: returns a reply of this form for a thought and a command, for examples.
        parsing: arguments of `wrappers.reply.parse_reply`.
        transcript: shows the whole episode as a conversation, thoughts included.
        listed: whether admissible commands are listed at every step; None: as the environment's prompts do.
        trials: attempts at a task, each with notes on those that were lost.
        body: sent to an endpoint with every request.
        local: settings of a model here; {}: those with which `panel` plays.
    """

    name: str
    asked: str
    written: Callable[[str, str], str]
    parsing: Mapping[str, Any] = field(default_factory=dict)
    transcript: bool = False
    listed: bool | None = None
    trials: int = 1
    body: Mapping[str, Any] = field(default_factory=dict)
    local: Mapping[str, Any] = field(default_factory=dict)

    def envs(self, config: Config, episodes: int, examples: Examples) -> gym.vector.VectorEnv[Any, Any, Any]:
        """Return environments that show and read what this method does; at most as many as there are episodes.

        Args:
            config: environment and prompt.
            episodes: how many there are.
            examples: for the end of the rules.
        """
        asked = "\n\n".join(filter(None, (self.asked, shown(examples, self.written))))
        if self.listed is not None:
            setup = dataclasses.replace(config.setup, prompt={**config.setup.prompt, "admissible": self.listed})
            config = dataclasses.replace(config, setup=setup)
        envs = bare_envs(config, episodes)
        return with_prompts(envs, config, transcript=self.transcript, reply_format=asked, **self.parsing)


def _thought_and_tags(thought: str, command: str) -> str:
    return f"<think>{thought}</think>{tagged(command)}"


def _labelled(thought: str, command: str) -> str:
    return f"Thought: {thought}\nAction: {command}"


#: A model that goes on makes up what it sees next.
_UP_TO_OBSERVATION = ("\nObservation:",)
_LABELLED: Any = {
    "asked": _LABELS,
    "written": _labelled,
    "parsing": {"form": "labels"},
    "transcript": True,
    "listed": False,
    "body": {"stop": list(_UP_TO_OBSERVATION)},
    "local": {"prefix": "Thought:", "suffix": "", "stop": _UP_TO_OBSERVATION},
}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("vanilla", COMMAND_ONLY, lambda thought, command: tagged(command)),
        Method(
            "cot", REPLY_FORMAT, _thought_and_tags,
            local={"prefix": "<think>", "suffix": "", "stop": ("</action>",)},
        ),
        Method("react", **_LABELLED),
        Method("reflexion", trials=3, **_LABELLED),
    )
}  # fmt: skip
