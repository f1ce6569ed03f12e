"""verifiers plays our environments: the same prompts, steps and outcomes as here, with its own agents and server.

Run by `./do engines verifiers`, in a separate environment; the model is a server on loopback.
"""

import asyncio
import json
import re
import runpy
import shlex
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym
import pytest

vf = pytest.importorskip("verifiers.v1", reason="needs verifiers in an environment of its own: ./do engines verifiers")

import agentgym  # noqa: E402, F401
from agentgym.panels import Panel, PanelError, open_panel  # noqa: E402
from agentgym.rollout import collect  # noqa: E402
from agentgym.trajectory import Reply  # noqa: E402
from agentgym.trajectory.episode import plain_steps  # noqa: E402
from tests.agentgym.outside.chat.chat_server import Handler, chat_server, completion, raw  # noqa: E402
from wrappers import VectorReplyParser, VectorTranscript  # noqa: E402
from wrappers.serving import verifiers as served  # noqa: E402

pytestmark = pytest.mark.engines
SOKOBAN, SIX = "AgentRL/Sokoban-v0", {"size": 6, "min_length": 3, "max_length": 5, "max_episode_steps": 6}
TASKS = {"env": SOKOBAN, "split": "test", "tasks": 2, "env_options": SIX}


@pytest.fixture(autouse=True)
def known_by_name(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "stepcredit", served)
    monkeypatch.setenv("PRIME_API_KEY", "none")


class Scripted:
    """Says one reply after another."""

    def __init__(self, replies: Sequence[str]) -> None:
        self.replies = list(replies)

    def act(self, observations, infos, rng) -> list[Reply]:
        return [Reply(self.replies.pop(0))]


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
    return collect(envs, Scripted(replies), tasks=[{"task_id": task_id}], seed=seed).to_trajectories()[0]


def says(replies: Sequence[str]):
    """A model that has one reply for each number of replies before."""

    def play(handler: Handler) -> None:
        said = sum(message["role"] == "assistant" for message in handler.asked["messages"])
        handler.send(completion(replies[said]))

    return play


def episode(url: str, number: int = 0, **agent):
    """Let verifiers play a task."""
    env = vf.load_environment(
        served.GymConfig(taskset=served.PanelConfig(id="stepcredit", **TASKS), agent={**RUNTIME, **agent})
    )
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


def test_a_limit_of_turns_cuts_the_episode() -> None:
    with chat_server(says(["<action>left</action>"] * 6)) as server:
        _, played = episode(f"http://127.0.0.1:{server.server_port}/v1", max_turns=2)
    (trace,) = played.traces
    steps = trace.info["episode"]
    assert [step["text"] for step in steps] == ["<action>left</action>"] * 2 + [""]
    assert (steps[-1]["truncated"], steps[-1]["reward"], trace.is_truncated) == (True, 0.0, True)
    assert trace.metrics["won"] == 0.0


def test_an_endpoint_that_fails_is_an_error_of_the_trace() -> None:
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
    assert command is not None
    options = [*shlex.split(command[1].replace("\\\n", " ")), "--dry-run", "--output-dir", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["stepcredit", *options])
    runpy.run_module("wrappers.serving.verifiers", run_name="__main__")
    (path,) = tmp_path.rglob("*.json")
    saved = json.loads(path.read_text())["env"]
    assert (saved["taskset"]["panel"], saved["agent"]["runtime"]["type"]) == ("sokoban/6x6/3-5@1", "subprocess")
