"""Episodes of other programs, played again on the exact engines: what they reached, and where a log says otherwise."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from agentgym.panels import OpenPanel
from benchmarks.panels.journal import Episode
from benchmarks.panels.transcripts import LoggedEpisode, LoggedStep

_SCORE_TOLERANCE = 1e-6
#: ReAct leaves out where one arrives; what a log shows after a thought is not the engine's.
_ARRIVAL = re.compile(r"You arrive at [a-z]+ \d+\. ")
_THOUGHT = "think:"
#: Characters that are quoted of texts that differ, and how many of them stand before the difference.
_QUOTED, _BEFORE = 80, 20


@dataclass(frozen=True)
class Graded:
    """An episode of a log, played again.

    Attributes:
        line: where it begins in the log.
        task: id of the task; "" where no task of the panel fits.
        differences: where the log and the engine disagree, the first one first; () where they agree.
        texts: observations of the log that were compared.
        claimed: success that the log claims; None: it claims nothing.
        episode: what was reached; None without a task.
    """

    line: int
    task: str
    differences: tuple[str, ...]
    texts: int
    claimed: bool | None
    episode: Episode | None


class Replay:
    """Plays the episodes of logs on a panel's engine.

    Args:
        found: the panel.
        kinds: info entry that holds a task's kind; "" for none.
    """

    def __init__(self, found: OpenPanel, kinds: str = "") -> None:
        self.panel, self.kinds = found, kinds
        self.env: gym.Env[Any, Any] = gym.make(found.panel.env, **found.arguments)
        spec = self.env.spec
        self.limit = None if spec is None else spec.max_episode_steps
        self._ids = {task.id for task in found.tasks}
        self._openings: dict[str, list[str]] | None = None
        self._samples: dict[str, int] = defaultdict(int)

    def grade(self, logged: LoggedEpisode) -> Graded:
        """Play an episode again; where only its first text says which task it is, all that begin so are tried."""
        candidates = self._candidates(logged)
        if not candidates:
            named = f"the task {logged.task!r:.120}" if logged.task else "its first text"
            reason = f"line {logged.line}: {named} is none of the {len(self._ids)} tasks of {self.panel.panel.name}"
            return Graded(logged.line, "", (reason,), 0, logged.won, None)
        tried = []
        for candidate in candidates:
            tried.append(self._play(logged, candidate))
            if not tried[-1].differences:
                break
        best = max(tried, key=lambda one: (not one.differences, one.texts))
        self._samples[best.task] += 1
        return best

    def _candidates(self, logged: LoggedEpisode) -> list[str]:
        if logged.task:
            parts = [part for part in logged.task.split("/") if not part.endswith(".tw-pddl")]
            named = (logged.task, "/".join(parts[-2:]))
            return [next(name for name in named if name in self._ids)] if self._ids.intersection(named) else []
        if logged.opening is None:
            return []
        if self._openings is None:
            self._openings = defaultdict(list)
            for task in self.panel.tasks:
                text = _plain(str(self.env.reset(options={"task_id": task.id})[0]))
                self._openings[text].append(task.id)
        asked = _plain(logged.opening)
        return [name for text, ids in self._openings.items() if asked and text.endswith(asked) for name in ids]

    def _play(self, logged: LoggedEpisode, task: str) -> Graded:
        observation, info = self.env.reset(seed=0, options={"task_id": task})
        differences: list[str] = []
        if logged.opening is not None and not _plain(str(observation)).endswith(_plain(logged.opening)):
            told, engine = _apart(logged.opening, str(observation))
            differences.append(f"line {logged.line}: the first text is {told!r}, the engine's {engine!r}")
        kind = str(info[self.kinds]) if self.kinds else ""
        played, refused, total, texts, over, cut = list[str](), 0, 0.0, 0, False, False
        for step in logged.steps:
            if over:
                differences.append(
                    f"line {step.line}: {len(logged.steps) - len(played)} actions after the end of the episode"
                    + (f", which has at most {self.limit} steps" if len(played) == self.limit else "")
                )
                break
            observation, reward, terminated, truncated, info = self.env.step(step.action)
            over, cut = bool(terminated or truncated), bool(truncated and not terminated)
            played.append(step.action)
            total += float(reward)
            refused += not info["is_action_valid"]
            if step.observation is not None and not step.action.startswith(_THOUGHT):
                if _same(step.observation, str(observation)):
                    texts += 1
                elif not differences:
                    differences.append(_unlike(step, str(observation), bool(info["is_action_valid"])))
        differences += self._claims(logged, bool(info["won"]), float(info["score"]))
        episode = Episode(
            task=task, sample=self._samples[task], kind=kind, won=bool(info["won"]), score=float(info["score"]),
            total=total, steps=len(played), invalid=refused, cut=cut or not over, prompt_tokens=0.0, reply_tokens=0.0,
            seconds=0.0, generation=0.0, actions=played,
        )  # fmt: skip
        return Graded(logged.line, task, tuple(differences), texts, logged.won, episode)

    def _claims(self, logged: LoggedEpisode, won: bool, score: float) -> list[str]:
        """What is said at the end and cannot be so, or is not."""
        found = []
        if logged.score is not None and logged.won and logged.score < 1.0 - _SCORE_TOLERANCE and score >= 1.0:
            found.append(f"line {logged.line}: a success with the score {logged.score:g}; a score is at least success")
        elif logged.score is not None and abs(logged.score - score) > _SCORE_TOLERANCE:
            found.append(
                f"line {logged.line}: the log claims the score {logged.score:g}, these actions bring {score:g}"
            )
        if logged.won is not None and logged.won != won:
            claimed, reached = ("a success", "do not win") if logged.won else ("a failure", "win")
            found.append(f"line {logged.line}: the log claims {claimed}, these actions {reached}")
        return found


def _plain(text: str) -> str:
    return " ".join(text.split())


def _same(logged: str, shown: str) -> bool:
    told, engine = _plain(logged), _plain(shown)
    return told == engine or told == _ARRIVAL.sub("", engine, count=1)


def _unlike(step: LoggedStep, shown: str, valid: bool) -> str:
    refused = "" if valid else ", which refuses it"
    told, engine = _apart(step.observation or "", shown)
    return f"line {step.line}: after {step.action!r:.80} the log shows {told!r}, the engine{refused}: {engine!r}"


def _apart(logged: str, shown: str) -> tuple[str, str]:
    """Return the places of two texts where they first differ, with what stands before.

    >>> _apart("In the middle of the room you see a bed 1.", "In the middle of the room you see a desk 1.")
    ('... the room you see a bed 1.', '... the room you see a desk 1.')
    """
    told, engine = _plain(logged), _plain(shown)
    engine = engine[max(0, engine.find(told[:_BEFORE])) :]  # a log may leave out how the engine's text begins
    pairs = enumerate(zip(told, engine, strict=False))
    start = next((place for place, (one, other) in pairs if one != other), min(len(told), len(engine))) - _BEFORE
    if start <= 0:
        return told[:_QUOTED], engine[:_QUOTED]
    return f"...{told[start : start + _QUOTED]}", f"...{engine[start : start + _QUOTED]}"
