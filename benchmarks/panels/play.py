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

from agentgym.outside.chat.wire import ChatAnswer, ChatFailure
from agentgym.panels import PanelTask
from agentgym.rollout import Policy, act_each
from agentgym.rollout.groups import infos_of, observations_of
from agentgym.trajectory import Reply
from benchmarks.panels.journal import Episode

#: Returns what an endpoint said to the latest observations, one each; a failure makes an episode one without a score.
Answers = Callable[[], Sequence[ChatAnswer | ChatFailure]]


@dataclass(frozen=True)
class Unscored:
    """An episode that nobody could score: a partner, a judge or the player's endpoint did not answer."""

    task: str
    sample: int
    reason: str


class UnscoredError(RuntimeError):
    """Episodes are missing because they could not be scored."""


@dataclass
class _Running:
    """An episode that is being played."""

    task: PanelTask
    sample: int
    rng: np.random.Generator
    kind: str = ""
    total: float = 0.0
    invalid: int = 0
    tokens: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    generation: float = 0.0
    actions: list[str] = field(default_factory=list)

    def ended(self, won: bool, score: float, cut: bool) -> Episode:
        return Episode(
            task=self.task.id, sample=self.sample, kind=self.kind, won=won, score=score, total=self.total,
            steps=len(self.actions), invalid=self.invalid, cut=cut, prompt_tokens=float(self.tokens[0]),
            reply_tokens=float(self.tokens[1]), seconds=self.seconds, generation=self.generation, actions=self.actions,
        )  # fmt: skip


def play(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    policy: Policy,
    todo: Sequence[tuple[PanelTask, int]],
    *,
    seed: int,
    kinds: str = "",
    answers: Answers | None = None,
    seen: Callable[[Any], None] = lambda observation: None,
    pause: Callable[[], None] = lambda: None,
    trial: int = 0,
    told: Callable[[str, int, Any], Any] = lambda task, sample, observation: observation,
    ended: Callable[[Episode, Any], None] = lambda episode, observation: None,
) -> Iterator[Episode | Unscored]:
    """Yield episodes as they end.

    Args:
        envs: autoreset DISABLED, with reply parser and prompts as the policy needs them; at most as many places as
            there are episodes.
        policy: who plays.
        todo: task and sample of each episode.
        seed: of episodes and draws.
        kinds: info entry that holds a task's kind; "" for none.
        answers: of an endpoint, for tokens that replies do not hold and for failures.
        seen: called with the first observation that the policy is shown.
        pause: called before the policy is asked; what it raises comes out where everything is kept.
        trial: which attempt at the same episodes it is: the same beginnings, but other draws of the policy.
        told: returns what the policy is shown for the id of a task, a sample, and an observation.
        ended: called with each episode that is scored and its last observation, before it is yielded.
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
                running[i] = _Running(task, sample, np.random.default_rng(numbers.spawn(trial + 1)[trial]))
                seeds[i], options[i] = int(numbers.generate_state(1)[0]), {"task_id": task.id}
            mask = np.isin(np.arange(envs.num_envs), begun)
            observations, infos = envs.reset(seed=seeds, options={"reset_mask": mask, "per_env": options})  # type: ignore[arg-type]
            for i in begun if kinds else ():
                running[i].kind = str(infos[kinds][i])  # type: ignore[union-attr]
        playing = np.array([i for i, episode in enumerate(running) if episode is not None])
        there = [episode for episode in running if episode is not None]
        bare = observations_of(observations, playing)
        shown = [told(each.task.id, each.sample, one) for each, one in zip(there, bare, strict=True)]
        if first:
            seen(shown[0])
            first = False
        pause()
        asked = time.perf_counter()
        replies = act_each(policy, shown, infos_of(infos, playing), [episode.rng for episode in there])
        answered = time.perf_counter()
        said: Sequence[ChatAnswer | ChatFailure | None] = answers() if answers else [None] * len(there)
        actions = [""] * envs.num_envs
        for i, episode, reply, answer in zip(playing.tolist(), there, replies, said, strict=True):
            actions[i] = reply.text
            read, written = tokens(reply, answer)
            episode.tokens = episode.tokens[0] + read, episode.tokens[1] + written
            episode.generation += (answered - asked) / len(there)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        spent = (time.perf_counter() - began) / len(there)
        after = observations_of(observations, playing)
        for k, (i, episode) in enumerate(zip(playing.tolist(), there, strict=True)):
            episode.seconds += spent
            answer, done = said[k], None
            if replies[k].finish == "prompt-too-long":  # nothing was written: what became of it does not count
                episode.actions.append("")
                episode.invalid += 1
                done = episode.ended(False, 0.0, True)
                after[k] = bare[k]
            elif isinstance(answer, ChatFailure):
                running[i] = None
                yield Unscored(episode.task.id, episode.sample, f"{answer.reason} (tries: {answer.attempts})")
                continue
            else:
                episode.actions.append(str(infos["command"][i]))
                episode.total += float(rewards[i])
                episode.invalid += not infos["is_action_valid"][i]
                if terminated[i] or truncated[i]:
                    if "unscored" in infos and infos["unscored"][i]:
                        running[i] = None
                        yield Unscored(episode.task.id, episode.sample, str(infos["failure"][i]))
                        continue
                    done = episode.ended(bool(infos["won"][i]), float(infos["score"][i]), not terminated[i])
            if done is not None:
                running[i] = None
                ended(done, after[k])
                yield done


def tokens(reply: Reply, answer: ChatAnswer | ChatFailure | None) -> tuple[int, int]:
    """Return the tokens read and written for a reply: its own, or those that an endpoint counted."""
    if isinstance(answer, ChatAnswer):
        return answer.prompt_tokens, answer.completion_tokens
    return len(reply.prompt_ids), len(reply.token_ids)
