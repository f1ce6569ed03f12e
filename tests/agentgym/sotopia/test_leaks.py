"""No profile text reaches the wrong viewer: every secret and every goal is looked for in all that anyone is shown."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from agentgym.sotopia import parallel_env
from agentgym.sotopia.acts import COMMANDS
from agentgym.sotopia.env import SotopiaVectorEnv
from agentgym.sotopia.players.scripted import RulesPlayer
from agentgym.sotopia.profiles import Task
from agentgym.sotopia.text import JUDGE, ROLES, UNKNOWN, known_story, render
from tests.agentgym.sotopia.official_data import FOLDER, needs_data
from tests.agentgym.sotopia.others import Fixed

_PARTS = re.compile(r"<(\w+)[^>]*>(.*?)</\1>", re.DOTALL)


def forbidden(task: Task, role: int) -> list[str]:
    """What a role must not be shown: the other's secret, goal and biography, and what is for the judge."""
    other, own = task.people[1 - role], task.people[role]
    goals = task.scenario.goals
    texts = [other.secret, render(goals[1 - role], JUDGE), *[part for _, part in _PARTS.findall(goals[1 - role])]]
    texts += [part for name, part in _PARTS.findall(task.scenario.text) if name == "p"]
    seen = known_story(other, task.scenario.relationship)
    texts += [fact for fact in (other.public_info, other.personality_and_values) if fact not in seen]
    if seen == UNKNOWN:
        texts.append(f"{other.age}-year-old")
    allowed = render(goals[role], ROLES[role]), own.secret, own.public_info, f"{own.age}-year-old"
    return [text for text in texts if not any(text in each for each in allowed)]


class Watch:
    """Counts what was shown and keeps what should not have been."""

    def __init__(self) -> None:
        self.shown = self.searched = 0
        self.leaks: list[tuple[str, int, str]] = []
        self._texts: dict[tuple[str, int], list[str]] = {}

    def see(self, task: Task, role: int, text: str) -> None:
        texts = self._texts.get((task.id, role))
        if texts is None:
            texts = self._texts[task.id, role] = forbidden(task, role)
        self.shown += 1
        self.searched += len(texts)
        self.leaks += [(task.id, role, each) for each in texts if each in text]


class Watched(RulesPlayer):
    """A partner by rules that lets its views be seen."""

    def __init__(self, watch: Watch, tasks: Any) -> None:
        super().__init__()
        self.watch, self.tasks = watch, tasks

    def act(self, views: Any) -> Any:
        for view in views:
            self.watch.see(self.tasks.by_id(view.task_id), view.role, view.text)
        return super().act(views)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["round-robin", "simultaneous", "random"])
def test_ten_thousand_random_episodes_against_rules(order: str) -> None:
    envs = SotopiaVectorEnv(100, role="random", order=order, max_turns=8)
    watch = Watch()
    partner = Watched(watch, envs.envs[0].tasks)
    for env in envs.envs:
        env.partner = partner
    rng = np.random.default_rng(0)
    observations, infos = envs.reset(seed=1)
    episodes = 0
    while episodes < 3_400:
        for env, observation, info in zip(envs.envs, observations, infos["agreement"], strict=True):
            watch.see(env.task, env.me, f"{observation} {info}")
        actions = [COMMANDS[i] for i in rng.integers(len(COMMANDS), size=100)]
        observations, _, terminated, truncated, infos = envs.step(actions)
        episodes += int((terminated | truncated).sum())
    assert watch.leaks == []
    assert watch.shown > 3 * episodes
    assert watch.searched > 2 * watch.shown


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("order", ["simultaneous", "round-robin", "random"])
def test_random_episodes_of_all_official_pairings(order: str) -> None:
    env = parallel_env(data=FOLDER, judge=Fixed(), split="all", order=order, max_turns=6)
    watch = Watch()
    rng = np.random.default_rng(0)
    for index in range(450):
        observations, infos = env.reset(seed=index, options={"index": index})
        while True:
            for role, agent in enumerate(ROLES):
                watch.see(env.task, role, f"{observations[agent]} {infos[agent]}")
            if not env.agents:
                break
            actions = {agent: COMMANDS[rng.integers(len(COMMANDS))] for agent in env.agents}
            observations, _, _, _, infos = env.step(actions)
    assert watch.leaks == []
    assert watch.searched > 1_800


def test_a_leak_would_be_found() -> None:
    env = parallel_env(families="bargain")
    observations, _ = env.reset(seed=0)
    watch = Watch()
    watch.see(env.task, 1, observations["agent_0"])
    assert len(watch.leaks) >= 3
