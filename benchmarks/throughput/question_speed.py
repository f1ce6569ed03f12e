"""Search-QA's own steps per second: what an episode costs besides finding passages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

import agentgym  # noqa: F401  # registers the environments
from agentgym.searchqa.retriever import Found, Hit, Passage
from benchmarks.throughput.timing import Measurement

ENV = "AgentRL/SearchQA-v0"
SECTION = "questions"
_PLACES, _SEARCHES = 128, 3


class _AtHand:
    """A retriever that answers everything with the same three passages of 80 words."""

    def __init__(self) -> None:
        text = " ".join(["Some words that a passage might have, none of which answers the question."] * 6)
        self._hits = tuple(Hit(Passage(str(i), f'"Title {i}"\n{text}'), 1.0) for i in range(3))

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        """Return the first k passages for every query."""
        return [self._hits[:k]] * len(queries)


def measure_questions(quick: bool) -> list[Measurement]:
    """Steps of Search-QA without retrieval, and with the generated encyclopaedia's index."""
    episodes, repeats = (2, 4) if quick else (10, 20)
    found = []
    rows: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("bare", "gym.make_vec, 128 places, passages at hand, full info", {"retriever": _AtHand()}),
        ("index", "the same with the index of the generated encyclopaedia", {}),
    )
    for key, words, options in rows:
        envs = gym.make_vec(ENV, _PLACES, autoreset_mode="Disabled", **options)
        rate = max(_rate(envs, episodes) for _ in range(repeats))
        found.append(Measurement(f"questions_{key}", SECTION, words, True, rate, "steps/s"))
    return found


def _rate(envs: gym.vector.VectorEnv[Any, Any, Any], episodes: int) -> float:
    """Steps per processor second of episodes that search for the question three times and say yes; resets not timed."""
    spent = 0.0
    for seed in range(episodes):
        _, infos = envs.reset(seed=seed)
        search, answer = ([commands[i] for commands in infos["admissible_actions"]] for i in (0, -1))
        begin = time.process_time()
        for _ in range(_SEARCHES):
            envs.step(search)
        envs.step(answer)
        spent += time.process_time() - begin
    return episodes * (_SEARCHES + 1) * envs.num_envs / spent
