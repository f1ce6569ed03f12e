"""Play episodes one by one, as many side by side as there are places: each with random numbers of its own.

What an episode brings depends on its task, its sample and the seed alone, not on the number of places or on what else
is played (but for the last bits of a model's arithmetic, which the size of a batch may change).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.panels import PanelTask
from agentgym.rollout import Policy, act_each, infos_of, observations_of
from agentgym.trajectory import Reply
from benchmarks.panels.journal import Episode

#: Returns (prompt tokens, reply tokens) that an endpoint has counted so far.
Usage = Callable[[], tuple[int, int]]


@dataclass(frozen=True)
class Unscored:
    """An episode that nobody could score: a partner or a judge did not answer."""

    task: str
    sample: int
    reason: str


@dataclass
class _Running:
    """An episode that is being played."""

    task: PanelTask
    sample: int
    rng: np.random.Generator
    kind: str = ""
    total: float = 0.0
    invalid: int = 0
    tokens: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0
    generation: float = 0.0
    actions: list[str] = field(default_factory=list)

    def ended(self, won: bool, score: float, cut: bool) -> Episode:
        return Episode(
            task=self.task.id, sample=self.sample, kind=self.kind, won=won, score=score, total=self.total,
            steps=len(self.actions), invalid=self.invalid, cut=cut, prompt_tokens=self.tokens[0],
            reply_tokens=self.tokens[1], seconds=self.seconds, generation=self.generation, actions=self.actions,
        )  # fmt: skip


def play(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    policy: Policy,
    todo: Sequence[tuple[PanelTask, int]],
    *,
    seed: int,
    kinds: str = "",
    usage: Usage | None = None,
    seen: Callable[[Any], None] = lambda observation: None,
) -> Iterator[Episode | Unscored]:
    """Yield episodes as they end.

    Args:
        envs: autoreset DISABLED, with reply parser and prompts as the policy needs them; at most as many places as
            there are episodes.
        policy: who plays.
        todo: task and sample of each episode.
        seed: of episodes and draws.
        kinds: info entry that holds a task's kind; "" for none.
        usage: where tokens are counted when replies hold none.
        seen: called with the first observation that the policy is shown.
    """
    waiting = deque(todo)
    running: list[_Running | None] = [None] * envs.num_envs
    observations: Any = None
    infos: Mapping[str, Any] = {}
    first = True
    while waiting or any(running):
        begun = [i for i, episode in enumerate(running) if episode is None][: len(waiting)]
        began = time.perf_counter()
        if begun:
            seeds, options = [0] * envs.num_envs, list[dict[str, str]]({} for _ in running)
            for i in begun:
                task, sample = waiting.popleft()
                numbers = np.random.SeedSequence([seed, int(task.digest[:16], 16), sample])
                running[i] = _Running(task, sample, np.random.default_rng(numbers.spawn(1)[0]))
                seeds[i], options[i] = int(numbers.generate_state(1)[0]), {"task_id": task.id}
            mask = np.isin(np.arange(envs.num_envs), begun)
            observations, infos = envs.reset(seed=seeds, options={"reset_mask": mask, "per_env": options})  # type: ignore[arg-type]
            for i in begun if kinds else ():
                running[i].kind = str(infos[kinds][i])  # type: ignore[union-attr]
        playing = np.array([i for i, episode in enumerate(running) if episode is not None])
        there = [episode for episode in running if episode is not None]
        shown = observations_of(observations, playing)
        if first:
            seen(shown[0])
            first = False
        asked, before = time.perf_counter(), usage() if usage else (0, 0)
        replies = act_each(policy, shown, infos_of(infos, playing), [episode.rng for episode in there])
        answered, after = time.perf_counter(), usage() if usage else (0, 0)
        actions, gone = [""] * envs.num_envs, set[int]()
        for i, episode, reply in zip(playing.tolist(), there, replies, strict=True):
            actions[i] = reply.text
            read, written = _tokens(reply, before, after, len(there))
            episode.tokens = episode.tokens[0] + read, episode.tokens[1] + written
            episode.generation += (answered - asked) / len(there)
            if reply.finish == "prompt-too-long":
                gone.add(i)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        spent = (time.perf_counter() - began) / len(there)
        for i, episode in zip(playing.tolist(), there, strict=True):
            episode.seconds += spent
            if i in gone:  # nothing was written: what the environment made of it does not count
                episode.actions.append("")
                episode.invalid += 1
                running[i] = None
                yield episode.ended(False, 0.0, True)
                continue
            episode.actions.append(str(infos["command"][i]))
            episode.total += float(rewards[i])
            episode.invalid += not infos["is_action_valid"][i]
            if terminated[i] or truncated[i]:
                running[i] = None
                if "unscored" in infos and infos["unscored"][i]:
                    yield Unscored(episode.task.id, episode.sample, str(infos["failure"][i]))
                else:
                    won, cut = bool(infos["won"][i]), not terminated[i]
                    yield episode.ended(won, float(infos["score"][i]), bool(cut))


def _tokens(reply: Reply, before: tuple[int, int], after: tuple[int, int], among: int) -> tuple[float, float]:
    """Tokens read and written for a reply: its own, or its share of what an endpoint has counted."""
    if reply.token_ids or reply.prompt_ids:
        return float(len(reply.prompt_ids)), float(len(reply.token_ids))
    return (after[0] - before[0]) / among, (after[1] - before[1]) / among
