"""Reflexion on a panel: several trials of the same tasks, with a note after each lost one.

In each trial all tasks that are not won yet are played, then the model writes a note on each lost episode, but after
the last trial. The folder also holds

    trials.jsonl   the episode of every trial, with its observations and replies
    notes.jsonl    the notes

The panel counts the first won episode, or the last one, with the tokens and seconds of all trials and notes.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.outside.chat.wire import ChatFailure
from agentgym.rollout import Policy, act_each
from benchmarks.play.panel import Answers, Episode, Lines, ToDo, Unscored, play, tokens
from policies.search.reflexion import reflection_prompt, story_of, with_notes

TRIALS, NOTES = "trials.jsonl", "notes.jsonl"
#: Separates the draws of notes from those of episodes.
_NOTE = 1


@dataclass(frozen=True)
class Trial:
    """An attempt: its number from 0, the episode, and its observations and replies as a text."""

    trial: int
    episode: Episode
    story: str

    @property
    def key(self) -> tuple[str, int, int]:
        return *self.episode.key, self.trial


@dataclass(frozen=True)
class Note:
    """The note on a lost trial, its tokens and seconds."""

    task: str
    sample: int
    trial: int
    text: str
    prompt_tokens: int
    reply_tokens: int
    seconds: float

    @property
    def key(self) -> tuple[str, int, int]:
        return self.task, self.sample, self.trial


@dataclass(frozen=True)
class Trials:
    """Plays like `benchmarks.play.panel.play`, with at most `most` trials of a task, and a `writer` of notes."""

    folder: Path
    most: int
    writer: Policy

    @cached_property
    def trials(self) -> Lines[Trial]:
        return Lines(self.folder / TRIALS, Trial)

    @cached_property
    def notes(self) -> Lines[Note]:
        return Lines(self.folder / NOTES, Note)

    def __call__(
        self,
        envs: gym.vector.VectorEnv[Any, Any, Any],
        policy: Policy,
        todo: ToDo,
        *,
        seed: int,
        answers: Answers | None = None,
        pause: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> Iterator[Episode | Unscored]:
        """Yield the episodes that count when they are known; arguments as of `play`."""
        left = list(todo)
        for trial in range(self.most):
            gone = set[tuple[str, int]]()
            fresh = [(task, sample) for task, sample in left if (task.id, sample, trial) not in self.trials.entries]
            for each in play(
                envs, policy, fresh, seed=seed, answers=answers, pause=pause, trial=trial,
                observe=partial(self._observe, trial), ended=partial(self._ended, trial), **options,
            ):  # fmt: skip
                if isinstance(each, Unscored):
                    gone.add((each.task, each.sample))
                    yield each
            left = [(task, sample) for task, sample in left if (task.id, sample) not in gone]
            lost = []
            for task, sample in left:
                if trial == self.most - 1 or self.trials.entries[task.id, sample, trial].episode.won:
                    yield self._whole(task.id, sample, trial)
                else:
                    lost.append((task, sample))
            missing = [each for each in lost if (each[0].id, each[1], trial) not in self.notes.entries]
            for start in range(0, len(missing), envs.num_envs):
                pause()
                yield from self._reflect(missing[start : start + envs.num_envs], trial, seed, answers)
            left = [(task, sample) for task, sample in lost if (task.id, sample, trial) in self.notes.entries]

    def _reflect(self, lost: ToDo, trial: int, seed: int, answers: Answers | None) -> Iterator[Unscored]:
        """Ask for notes on lost episodes and keep them; yield those without an answer."""
        prompts, rngs = [], []
        for task, sample in lost:
            story = self.trials.entries[task.id, sample, trial].story
            prompts.append(reflection_prompt(story, self._notes_of(task.id, sample, trial)))
            rngs.append(np.random.default_rng([seed, int(task.digest[:16], 16), sample, trial, _NOTE]))
        began = time.perf_counter()
        replies = act_each(self.writer, prompts, {}, rngs)
        share = (time.perf_counter() - began) / len(lost)
        said = answers() if answers else [None] * len(lost)
        for (task, sample), reply, answer in zip(lost, replies, said, strict=True):
            if isinstance(answer, ChatFailure) and not answer.too_long:
                yield Unscored(task.id, sample, f"{answer.reason} (tries: {answer.attempts})")
            else:
                self.notes.add(Note(task.id, sample, trial, reply.text, *tokens(reply, answer), share))

    def _notes_of(self, task: str, sample: int, trial: int) -> list[str]:
        return [self.notes.entries[task, sample, k].text for k in range(trial)]

    def _observe(self, trial: int, task: str, sample: int, observation: Any) -> Any:
        return with_notes(observation, self._notes_of(task, sample, trial))

    def _ended(self, trial: int, episode: Episode, conversation: Any) -> None:
        self.trials.add(Trial(trial, episode, story_of(conversation)))

    def _whole(self, task: str, sample: int, trial: int) -> Episode:
        """Return the episode of the last trial, with tokens and seconds of all trials and notes."""
        episodes = [self.trials.entries[task, sample, k].episode for k in range(trial + 1)]
        notes = [self.notes.entries[task, sample, k] for k in range(trial)]
        parts: list[Episode | Note] = [*episodes, *notes]
        noting = sum(note.seconds for note in notes)
        return dataclasses.replace(
            episodes[-1],
            prompt_tokens=sum(each.prompt_tokens for each in parts),
            reply_tokens=sum(each.reply_tokens for each in parts),
            seconds=sum(each.seconds for each in episodes) + noting,
            generation=sum(each.generation for each in episodes) + noting,
        )
