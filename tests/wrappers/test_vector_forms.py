"""Every wrapper with a vector form: step by step, the form is the single wrapper in every place."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.wrappers.whole_stack import Singles, frozen, seen
from wrappers import (
    GraphShaping,
    InvalidActionPenalty,
    ProcessReward,
    PromptWindow,
    ReplyParser,
    TaskGraphs,
    Transcript,
    VectorGraphShaping,
    VectorInvalidActionPenalty,
    VectorProcessReward,
    VectorPromptWindow,
    VectorReplyParser,
    VectorTranscript,
)

Forms = Callable[[], tuple[Callable[[Any], Any], Callable[[Any], Any]]]


def opinions(steps: Any) -> list[float | None]:
    """Scores by a rule, silent at times."""
    found: list[float | None] = []
    for step in steps:
        before, after = (sum(map(ord, str(shown))) % 10 for shown in (step.messages, step.observation))
        silent = (before + after) % 3 == 0
        found.append(None if silent else 0.1 * after**2 - 0.3 * before + 0.01 * len(str(step.reply)))
    return found


def shaping() -> Any:
    options: Any = {"gamma": 0.9, "decay": 0.8, "key": lambda observation, info: str(observation)}
    return partial(GraphShaping, graphs=TaskGraphs(), **options), partial(VectorGraphShaping, **options)


def scored(kind: str) -> Forms:
    options: Any = {"scorer": opinions, "weight": 0.7, "kind": kind, "gamma": 0.9}
    return lambda: (partial(ProcessReward, **options), partial(VectorProcessReward, **options))


def of_replies(single: Any, vector: Any, **options: Any) -> Forms:
    return lambda: (
        lambda env: single(ReplyParser(env), **options),
        lambda envs: vector(VectorReplyParser(envs), **options),
    )


COMMANDS = ["left", "right", "right", "jump", "up"]
FORMS: dict[str, Forms] = {
    "penalty": of_replies(InvalidActionPenalty, VectorInvalidActionPenalty, penalty=0.25),
    "window": of_replies(
        PromptWindow, VectorPromptWindow, history=2, admissible=True, keep_first=True, max_chars=250, facts=("score",)
    ),
    "transcript": of_replies(Transcript, VectorTranscript, instructions=False),
    "shaping": shaping,
    **{kind: scored(kind) for kind in ("contribution", "value", "advantage")},
}
PICTURES: Any = {"id": "AgentRL/VisualSokoban-v0", "max_episode_steps": 6}
#: Of each world a single environment, our vector environment if there is one, and what is answered there.
WORLDS: dict[str, tuple[Callable[[], Any], Callable[..., Any] | None, Any]] = {
    "ours": (lambda: TimeLimit(CorridorEnv(), 6), partial(CorridorVectorEnv, max_episode_steps=6), COMMANDS),
    "stock": (lambda: TimeLimit(CorridorEnv(), 6), None, COMMANDS),
    "pictures": (partial(gym.make, **PICTURES), partial(gym.make_vec, **PICTURES), COMMANDS),
    "numbers": (partial(gym.make, "CartPole-v1", max_episode_steps=10), None, range(2)),
}
#: Wrappers of replies, and those that score what is done anywhere.
READING, SCORING = ("penalty", "window", "transcript"), ("shaping", "contribution", "value", "advantage")
CASES = [*itertools.product(FORMS, ("ours", "stock")), ("window", "pictures"), *((form, "numbers") for form in SCORING)]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize(("form", "world"), CASES)
def test_a_vector_wrapper_is_its_single_form_in_every_place(form: str, world: str, mode: AutoresetMode) -> None:
    n, rng = 3, np.random.default_rng(1)
    (single, vector), (make, ours, answers) = FORMS[form](), WORLDS[world]
    if form in READING:
        answers = [f"<action>{command}</action>" for command in answers]
    envs = vector(ours(num_envs=n, autoreset_mode=mode) if ours else SyncVectorEnv([make] * n, autoreset_mode=mode))
    singles = Singles([single(make()) for _ in range(n)], mode, seed=5)
    envs.reset(seed=5)
    ended = 0
    for _ in range(100):
        actions = rng.choice(answers, n).tolist()
        observations, *outcomes, infos = envs.step(actions)
        found = [[*seen(observations, infos, i), *(frozen(each[i]) for each in outcomes)] for i in range(n)]
        assert found == singles.step(actions)
        assert observations in envs.observation_space
        ended += int((outcomes[1] | outcomes[2]).sum())
    assert ended > 20
