"""verifiers plays our environments: the same prompts, steps and outcomes as here, with its own agents and server.

Run by `./do engines verifiers`, in a separate environment; the model is a server on loopback.
"""

import asyncio
import itertools
import json
import re
import runpy
import shlex
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

vf = pytest.importorskip("verifiers.v1", reason="needs verifiers in an environment of its own: ./do engines verifiers")

import agentgym  # noqa: E402, F401
from agentgym.panels import Panel, PanelError, open_panel  # noqa: E402
from agentgym.rollout import collect  # noqa: E402
from agentgym.trajectory.episode import plain_steps  # noqa: E402
from tests.agentgym.outside.chat.chat_server import Handler, chat_server, completion, raw  # noqa: E402
from tests.playing import Scripted  # noqa: E402
from tests.refusals import refuses  # noqa: E402
from wrappers import VectorReplyParser, VectorTranscript  # noqa: E402
from wrappers.serving import verifiers as served  # noqa: E402

pytestmark = pytest.mark.engines
SOKOBAN, SIX = "AgentRL/Sokoban-v0", {"size": 6, "min_length": 3, "max_length": 5, "max_episode_steps": 6}
TASKS = {"env": SOKOBAN, "split": "test", "tasks": 2, "env_options": SIX}


@pytest.fixture(autouse=True)
def known_by_name(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "stepcredit", served)
    monkeypatch.setenv("PRIME_API_KEY", "none")


def solution(task_id: str) -> list[str]:
    """Replies that win a task, after one that cannot be read."""
    env = gym.make(SOKOBAN, **SIX, expert=True)
    _, info = env.reset(options={"task_id": task_id})
    replies, over = ["Let me think."], False
    while not over:
        replies.append(f"<think>so</think><action>{info['expert_action']}</action>")
        *_, over, _, info = env.step(info["expert_action"])
    return replies


def here(task_id: str, replies: Sequence[str]):
    """The steps of an episode played without verifiers."""
    envs = gym.make_vec(SOKOBAN, num_envs=1, autoreset_mode="Disabled", **SIX)
    envs = VectorTranscript(VectorReplyParser(envs))
    seed = zlib.crc32(task_id.encode())
    policy = Scripted(*replies, by="reply")
    return collect(envs, policy, tasks=[{"task_id": task_id}], seed=seed).to_trajectories()[0]


def says(replies: Sequence[str]):
    """A model that has one reply for each number of replies before."""

    def play(handler: Handler) -> None:
        handler.send(completion(replies[sum(message["role"] == "assistant" for message in handler.asked["messages"])]))

    return play


def episode(url: str, number: int = 0, env: Mapping[str, Any] = MappingProxyType({}), **agent):
    """Let verifiers play a task."""
    taskset = served.PanelConfig(id="stepcredit", **TASKS)
    env = vf.load_environment(served.GymConfig(taskset=taskset, agent={**RUNTIME, **agent}, **env))
    task = list(env.taskset)[number]
    context = vf.ModelContext(model="stub", client=vf.EvalClientConfig(base_url=url), sampling=vf.SamplingConfig())

    async def play():
        async with env.serving():
            return await env.run_episode(task, context)

    return task, asyncio.run(play())


RUNTIME = {"runtime": {"type": "subprocess"}}


def test_a_won_episode_is_the_one_that_is_played_here() -> None:
    (first, _) = open_panel(Panel("x", SOKOBAN, "test", most=2), SIX).tasks
    replies = solution(first.id)
    with chat_server(says(replies)) as server:
        task, played = episode(f"http://127.0.0.1:{server.server_port}/v1")
    assert task.data.id == first.id
    (trace,) = played.traces
    assert played.ok, (played.errors, trace.errors)
    wanted = here(first.id, replies)
    assert trace.info["episode"] == plain_steps(wanted)
    assert trace.metrics == {"won": 1.0, "steps": len(replies), "refused": 1.0}
    assert trace.reward == pytest.approx(sum(step.reward for step in wanted.steps))
    # What the model is sent is the transcript: rules, board, reply, board, and so on.
    envs = VectorTranscript(VectorReplyParser(gym.make_vec(SOKOBAN, num_envs=1, autoreset_mode="Disabled", **SIX)))
    (messages,), _ = envs.reset(options={"task_id": first.id})
    for number, reply in enumerate(replies):
        assert [(one["role"], one["content"]) for one in server.requests[number]["messages"]] == [
            (one["role"], one["content"]) for one in messages
        ]
        (messages,), *_ = envs.step([reply])
    assert len(server.requests) == len(replies)


def test_traces_of_a_group_get_the_advantages_of_their_steps() -> None:
    (first, _) = open_panel(Panel("x", SOKOBAN, "test", most=2), SIX).tasks
    replies, opened = solution(first.id), itertools.count()

    def play(handler: Handler) -> None:
        said = [one["content"] for one in handler.asked["messages"] if one["role"] == "assistant"]
        wins = said[0] == replies[0] if said else next(opened) == 0
        handler.send(completion(replies[len(said)] if wins else "<action>left</action>"))

    with chat_server(play) as server:
        _, played = episode(f"http://127.0.0.1:{server.server_port}/v1", env={"group": 2, "method": "grpo"})
    assert played.ok, played.errors
    # An endpoint that relays text says nothing of tokens.
    assert all(node.advantages == [] for trace in played.traces for node in trace.nodes if node.sampled)
    for trace in played.traces:
        for node in trace.nodes:
            if node.sampled:
                node.token_ids, node.mask, node.logprobs = [7, 8, 9], [False, True, True], [-0.5, -0.5]
    table = served.assign_advantages(played.traces, served.named_credit("grpo:std=none:invalid_penalty=0"))
    for trace in played.traces:
        # Two returns around their mean.
        expected = trace.reward - sum(one.reward for one in played.traces) / 2
        nodes = [node for node in trace.nodes if node.sampled]
        assert len(nodes) == trace.metrics["steps"]
        np.testing.assert_allclose([node.advantages for node in nodes], np.full((len(nodes), 2), expected))
        assert sum(trace.branches[0].advantages) == pytest.approx(expected * 2 * len(nodes))
    assert {trace.metrics["won"] for trace in played.traces} == {0.0, 1.0}
    assert [reply.token_ids for reply in table.replies] == [(8, 9)] * len(table)
    served.assign_advantages(played.traces, lambda table: np.where(table.t == 0, np.nan, 1.0))
    for trace in played.traces:
        assert [node.advantages for node in trace.nodes if node.sampled][:2] == [None, [1.0, 1.0]]
    refuses(ValueError, r"needs no scores, got 'grpoo'; known: .*; did you mean 'grpo'", served.named_credit, "grpoo")
    with pytest.raises(ValueError, match=r"expected one number for each of \d+ steps, got the shape \(1,\)"):
        served.assign_advantages(played.traces, lambda table: np.zeros(1))
    played.traces[0].info.clear()
    refuses(ValueError, "expected traces that GymEnv has played", served.assign_advantages, played.traces, len)


def test_a_limit_of_turns_cuts_the_episode_and_an_endpoint_that_fails_is_an_error() -> None:
    with chat_server(says(["<action>left</action>"] * 6)) as server:
        _, played = episode(f"http://127.0.0.1:{server.server_port}/v1", max_turns=2)
    (trace,) = played.traces
    steps = trace.info["episode"]
    assert [step["text"] for step in steps] == ["<action>left</action>"] * 2 + [""]
    assert (steps[-1]["truncated"], steps[-1]["reward"], trace.is_truncated) == (True, 0.0, True)
    assert trace.metrics["won"] == 0.0
    with chat_server(raw(b"{}", status=500)) as server:
        _, played = episode(f"http://127.0.0.1:{server.server_port}/v1")
    assert not played.ok
    assert played.traces[0].errors


def test_tasks_are_the_panel_s_in_its_order() -> None:
    found = open_panel(Panel("x", SOKOBAN, "test", most=2), SIX)
    taskset = served.PanelTaskset(served.PanelConfig(id="stepcredit", **TASKS))
    assert [task.data.id for task in taskset] == [task.id for task in found.tasks]
    assert "<action>" in next(iter(taskset)).data.system_prompt
    for wrong in ({}, {"panel": "sokoban/6x6/3-5@1", "env": SOKOBAN}):
        with pytest.raises(ValueError, match="give either panel or env"):
            list(served.PanelTaskset(served.PanelConfig(id="stepcredit", **wrong)))
    with pytest.raises(PanelError, match="unknown panel"):
        list(served.PanelTaskset(served.PanelConfig(id="stepcredit", panel="sokoban/6x6")))


def test_the_command_of_the_page_is_verifiers_own(tmp_path, monkeypatch) -> None:
    page = Path(__file__).parents[2] / "docs" / "adapters.md"
    command = re.search(r"python -m wrappers.serving.verifiers ((?:.*\\\n)*.*)", page.read_text(encoding="utf-8"))
    options = [*shlex.split(command[1].replace("\\\n", " ")), "--dry-run", "--output-dir", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["stepcredit", *options])
    runpy.run_module("wrappers.serving.verifiers", run_name="__main__")
    (path,) = tmp_path.rglob("*.json")
    saved = json.loads(path.read_text())["env"]
    assert (saved["taskset"]["panel"], saved["agent"]["runtime"]["type"]) == ("sokoban/6x6/3-5@1", "subprocess")
