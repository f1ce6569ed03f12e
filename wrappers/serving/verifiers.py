r"""Environments for `verifiers` 0.4 (`vf-eval`, prime-rl): a taskset, an environment, a harness.

    python -m wrappers.serving.verifiers --env.taskset.panel sokoban/6x6/3-5@1 --select.limit 4 --model NAME \
        --client.base-url http://127.0.0.1:8000/v1 --no-push

The tasks are a panel's. An episode is one growing conversation (`wrappers.transcript`); `wrappers.reply` parses the
replies, and an unreadable one is a refused action. `assign_advantages` writes the credit of steps to the nodes of
traces. Needs the extra `verifiers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import sys
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np
import verifiers.v1 as vf
from openai import APIConnectionError, APIStatusError, AsyncOpenAI
from pydantic import Field
from verifiers.v1.cli.eval.main import main as vf_eval
from verifiers.v1.dialects.chat import message_to_wire

from agentgym.checks import suggest
from agentgym.panels import Panel, open_panel
from agentgym.rollout import collect
from agentgym.trajectory import Floats, Reply, StepTable, Trajectory
from agentgym.trajectory.episode import plain_steps
from wrappers.credit.method import methods
from wrappers.credit.options import read_options
from wrappers.reply import ReplyParser, VectorReplyParser
from wrappers.tools import reading
from wrappers.transcript import Transcript, VectorTranscript

__all__ = ["ConversationHarness", "GymEnv", "PanelTaskset"]  # where verifiers looks for its three parts
_COLUMNS = ("t", "state", "action", "next_state", "reward", "valid", "won", "terminated", "truncated")
_EPISODES = ThreadPoolExecutor(1024, "episode")  # each mostly waits for its model


class PanelData(vf.TaskData):
    """A task: `id` for the reset of `env`, a registered id with arguments."""

    env: str
    env_options: dict[str, Any]


class PanelTask(vf.Task[PanelData]):
    """Scores of an episode that `GymEnv` has written to `trace.info["episode"]`."""

    @vf.reward
    async def total(self, trace: vf.Trace) -> float:
        """Return the sum of the environment's rewards."""
        return sum(step["reward"] for step in trace.info["episode"])

    @vf.metric
    async def outcome(self, trace: vf.Trace) -> dict[str, float]:
        """Return success (0 or 1), the number of steps, and the number of refused ones."""
        steps = trace.info["episode"]
        return {"won": steps[-1]["won"], "steps": len(steps), "refused": sum(not step["valid"] for step in steps)}


class PanelConfig(vf.TasksetConfig):
    """A panel's name, or a registered id `env` with the first `tasks` of a `split`; arguments of the environment."""

    panel: str = ""
    env: str = ""
    split: str = "train"
    tasks: int = 1000
    env_options: dict[str, Any] = Field(default_factory=dict)


class PanelTaskset(vf.Taskset[PanelTask, PanelConfig]):
    """The tasks of a panel, in its order."""

    def load(self) -> Iterator[PanelTask]:
        """Yield the tasks; ValueError unless one of `panel` and `env` is given, or as `open_panel`."""
        config = self.config
        if bool(config.panel) == bool(config.env):
            raise ValueError(f"give either panel or env; got panel={config.panel!r} and env={config.env!r}")
        own = Panel(f"{config.env}/{config.split}", config.env, config.split, most=config.tasks)
        found = open_panel(own if config.env else config.panel, config.env_options)
        made = gym.make(found.panel.env, **found.arguments)
        with contextlib.closing(Transcript(ReplyParser(made, **reading(made)))) as env:
            if isinstance(env.unwrapped.observation_space, gym.spaces.Dict):
                raise ValueError(f"{found.panel.env} shows pictures: the conversation holds text alone")
            known = {
                "env": found.panel.env,
                "env_options": found.arguments,
                "system_prompt": env.vector.style.instructions,
            }
        for task in found.tasks:
            yield PanelTask(PanelData(id=task.id, name=task.id, **known), config.task)


class GymConfig(vf.EnvConfig):
    """The player, in this process: nothing that a model writes is executed.

    Attributes:
        group: episodes of a task that are played as one episode of verifiers, each with its trace.
        method: credit method whose advantages the traces of a group get, see `named_credit`; "": none.
    """

    agent: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    group: int = Field(1, ge=1)
    method: str = ""


class GymEnv(vf.Env[GymConfig]):
    """Play an episode of a Gymnasium environment with verifiers' model, one user message per observation."""

    async def run(self, task: PanelTask, agents: vf.Agents) -> None:
        """Play `group` episodes and write the steps of each to `trace.info["episode"]` (`agentgym.trajectory.episode`).

        An episode ends where verifiers ends the conversation, such as at a limit of turns. A task has one seed and so
        one start; random draws in steps differ between episodes. With a `method`, the traces get its advantages.
        """
        credit = named_credit(self.config.method) if self.config.method else None
        traces = await asyncio.gather(*(self._play(task, agents) for _ in range(self.config.group)))
        if credit is not None:
            assign_advantages(traces, credit)

    async def _play(self, task: PanelTask, agents: vf.Agents) -> vf.Trace:
        async with agents.agent.interaction(task) as interaction:
            played = asyncio.get_running_loop().run_in_executor(_EPISODES, _play, task.data, _Player(interaction))
            interaction.trace.info["episode"] = plain_steps(await played)
        return interaction.trace


def named_credit(name: str) -> Callable[[StepTable], Floats]:
    """Return a credit method by name, options behind colons: "NAME:gamma=.9".

    Raises:
        ValueError: there is none of this name, or it needs a model's scores.
        TypeError: as `read_options`.
    """
    first, *words = name.split(":")
    known = {each: method for each, method in methods().items() if method.scored is None and not method.scorer}
    if first not in known:
        raise ValueError(f"expected a credit method that needs no scores, got {first!r}; {suggest(first, known)}")
    function = known[first].credit
    given = dict(word.partition("=")[::2] for word in words)
    return functools.partial(function, **{**known[first].options, **read_options(function, given)})


def assign_advantages(traces: Sequence[vf.Trace], credit: Callable[[StepTable], Floats]) -> StepTable:
    """Write a credit method's advantages to the sampled nodes of whole groups: `node.advantages`, one a sampled token.

    A trainer that groups episodes itself calls it where a group is complete, as prime-rl's `score_group` does; `GymEnv`
    calls it with `group` and `method`. The advantage of a step stands at every token of its reply; a step that the
    method does not score (nan) leaves None, which verifiers reads as "not assigned".

    Args:
        traces: of `GymEnv`; those of a task are a group.
        credit: table -> float64 (N,), one number per step.

    Returns:
        The table of the N steps, in the order of traces.

    Raises:
        ValueError: a trace has no steps (`trace.info["episode"]`), or the credit has another shape.
    """
    if lacking := [trace.id for trace in traces if not trace.info.get("episode")]:
        raise ValueError(f"expected traces that GymEnv has played, got {lacking[0]} without steps")
    steps = [(trace, step) for trace in traces for step in trace.info["episode"]]
    nodes = [node for trace in traces for node in _replies(trace)]
    table = StepTable.from_arrays(
        group=[trace.task.data.id for trace, _ in steps],
        trajectory=[trace.id for trace, _ in steps],
        replies=[
            Reply(step["text"])
            if node is None
            else Reply(
                step["text"],
                token_ids=tuple(id for id, sampled in zip(node.token_ids, node.mask, strict=True) if sampled),
                logprobs=tuple(node.logprobs),
            )
            for (_, step), node in zip(steps, nodes, strict=True)
        ],
        **dict[str, Any]({name: [step[name] for _, step in steps] for name in _COLUMNS}),
    )
    advantages = np.asarray(credit(table), np.float64)
    if advantages.shape != (len(table),):
        raise ValueError(f"expected one number for each of {len(table)} steps, got the shape {advantages.shape}")
    for node, advantage in zip(nodes, advantages.tolist(), strict=True):
        if node is not None:
            node.advantages = None if np.isnan(advantage) else [advantage] * sum(node.mask)
    return table


def _replies(trace: vf.Trace) -> list[vf.MessageNode | None]:
    """Return the node of each step's reply; None for a step that verifiers has ended before the model replied."""
    nodes = [node for node in trace.nodes if node.sampled]
    return [*nodes, *[None] * (len(trace.info["episode"]) - len(nodes))]


class _Player:
    """The model of a conversation as a policy, for a thread beside the event loop's."""

    def __init__(self, interaction: Any) -> None:
        self._interaction, self._events = interaction, asyncio.get_running_loop()

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        text = observations[0][-1]["content"]  # verifiers keeps what was said before
        segment = asyncio.run_coroutine_threadsafe(self._interaction.turn(text), self._events).result()
        return [Reply("", finish="prompt-too-long") if segment.terminated else Reply(segment.last_reply)]


def _play(data: PanelData, player: _Player) -> Trajectory:
    made = gym.make_vec(data.env, num_envs=1, autoreset_mode="Disabled", **data.env_options)
    envs = VectorReplyParser(made, **reading(made))
    with contextlib.closing(VectorTranscript(envs, instructions=False)) as shown:
        # verifiers does not number a task's episodes: any number gives each its own random draws.
        first, seed = uuid.uuid4().int >> 96, zlib.crc32(str(data.id).encode())
        table = collect(shown, player, tasks=[{"task_id": data.id}], seed=seed, first=first)
    return table.to_trajectories()[0]


class ConversationHarness(vf.Harness[vf.HarnessConfig]):
    """Send the conversation unchanged: no tools, no sandbox, no program."""

    APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Any, data: Any, **_: Any
    ) -> vf.ProgramResult:
        """Request one reply; verifiers' server at `endpoint` records it."""
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] * bool(system) + [message_to_wire(each) for each in prompt]
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as client:
            try:
                await client.chat.completions.create(model=ctx.model, messages=messages)
            except (APIStatusError, APIConnectionError) as error:  # also where verifiers ends the conversation
                return vf.ProgramResult(exit_code=1, stdout="", stderr=str(error))
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


if __name__ == "__main__":
    sys.modules["stepcredit"] = importlib.import_module("wrappers.serving.verifiers")  # a name without dots
    vf_eval(["stepcredit", *sys.argv[1:]])
