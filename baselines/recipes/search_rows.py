"""The rows of the search tables on Search-QA: what a policy learns that cannot search, searches, or searches in vain.

    r1          no engine: the question, and one turn for the answer
    search_r1   a real engine, exact match as reward                             (2503.09516)
    zerosearch  a simulated engine whose noise rises over training, F1 as reward; played with the real one (2505.04588)
    stepsearch  a real engine, a reward for each search, and a critic            (2505.15107)

They differ from each other in the environment (`Recipe.own_env`), which whoever trains builds:
`gym.make_vec(row.own_env.id, num_envs, **row.own_env.options, **row.own_env.training)`. See
docs/environments/searchqa.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.searchqa.retrieval.simulated import NoiseCurriculum
from baselines.ppo import ppo
from baselines.recipes.definition import OwnEnv, Recipe
from baselines.scorers.critic import CriticConfig
from wrappers.credit.grpo import grpo

_SEARCHQA = "AgentRL/SearchQA-v0"
# Search-R1 and those who build on it take nothing off for an invalid action.
_PLAIN: Mapping[str, Any] = {"preset": "paper", "invalid_penalty": 0.0}

_ROWS = (
    Recipe(
        "r1",
        grpo,
        _PLAIN,
        "GRPO without a search engine: what the policy knows by heart.",
        own_env=OwnEnv(_SEARCHQA, {"max_turns": 0, "last_turn": "extra"}),
    ),
    Recipe(
        "search_r1",
        grpo,
        _PLAIN,
        "GRPO on the exact match of the answer, with a real search engine.",
        own_env=OwnEnv(_SEARCHQA),
    ),
    Recipe(
        "zerosearch",
        grpo,
        _PLAIN,
        "GRPO on the F1 of the answer, with a simulated search engine that grows noisy; tested with the real one.",
        own_env=OwnEnv(_SEARCHQA, training={"simulator": "rule", "reward": "f1"}, schedule=NoiseCurriculum()),
    ),
    Recipe(
        "stepsearch",
        ppo,
        {**_PLAIN, "gamma": 1.0, "lam": 1.0},
        "PPO on rewards of single searches, evidence gained less passages seen before, and of answer and queries.",
        scored="turn",
        scorer=CriticConfig(),
        own_env=OwnEnv(_SEARCHQA, training={"reward": "stepsearch"}),
    ),
)

SEARCH_ROWS: dict[str, Recipe] = {row.name: row for row in _ROWS}
