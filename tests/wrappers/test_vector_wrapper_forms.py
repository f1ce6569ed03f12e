"""Every wrapper with a vector form: step by step, the form is the single wrapper in every place."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

import wrappers
from tests.cases import cases
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import DISABLED
from tests.refusals import refuses
from tests.wrappers.whole_stack import Singles, frozen, seen
from wrappers.symbols import DiscreteActions, SymbolPlanes


def opinions(steps: Any) -> list[float | None]:
    """Scores by a rule, silent at times."""
    found: list[float | None] = []
    for step in steps:
        before, after = (sum(map(ord, str(shown))) % 10 for shown in (step.messages, step.observation))
        silent = (before + after) % 3 == 0
        found.append(None if silent else 0.1 * after**2 - 0.3 * before + 0.01 * len(str(step.reply)))
    return found


#: Wrappers of replies, and those that score what is done anywhere; the vector form is called Vector and its name.
READING: list[tuple[str, dict[str, Any]]] = [
    ("InvalidActionPenalty", {"penalty": 0.25}),
    ("PromptWindow", {"history": 2, "admissible": True, "keep_first": True, "max_chars": 250, "facts": ("score",)}),
    ("Transcript", {"instructions": False}),
]
SCORING: list[tuple[str, dict[str, Any]]] = [
    ("GraphShaping", {"gamma": 0.9, "decay": 0.8, "key": lambda observation, info: str(observation)}),
    *(
        ("ProcessReward", {"scorer": opinions, "weight": 0.7, "kind": kind, "gamma": 0.9})
        for kind in ("contribution", "value", "advantage")
    ),
]
COMMANDS = ["left", "right", "right", "jump", "up"]
PICTURES: Any = {"id": "AgentRL/VisualSokoban-v0", "max_episode_steps": 6}
#: Of each world a single environment, our vector environment if there is one, and what is answered there.
WORLDS: dict[str, tuple[Callable[[], Any], Callable[..., Any] | None, Any]] = {
    "ours": (lambda: TimeLimit(CorridorEnv(), 6), partial(CorridorVectorEnv, max_episode_steps=6), COMMANDS),
    "stock": (lambda: TimeLimit(CorridorEnv(), 6), None, COMMANDS),
    "pictures": (partial(gym.make, **PICTURES), partial(gym.make_vec, **PICTURES), COMMANDS),
    "numbers": (partial(gym.make, "CartPole-v1", max_episode_steps=10), None, range(2)),
}
CASES = [
    *((*form, world) for form, world in itertools.product([*READING, *SCORING], ("ours", "stock"))),
    *((*form, "numbers") for form in SCORING),
    (*READING[1], "pictures"),
]
#: Gymnasium's own vector environment steps what has ended where nothing begins by itself.
MODES = [(*case, mode) for case in CASES for mode in AutoresetMode if mode is not DISABLED or WORLDS[case[2]][1]]


@pytest.mark.parametrize(("name", "options", "world", "mode"), MODES)
def test_a_vector_wrapper_is_its_single_form_in_every_place(
    name: str, options: dict[str, Any], world: str, mode: AutoresetMode
) -> None:
    n, rng = 3, np.random.default_rng(1)
    make, ours, answers = WORLDS[world]
    envs = ours(num_envs=n, autoreset_mode=mode) if ours else SyncVectorEnv([make] * n, autoreset_mode=mode)
    inner = [make() for _ in range(n)]
    if (name, options) in READING:
        answers = [f"<action>{command}</action>" for command in answers]
        envs, inner = wrappers.VectorReplyParser(envs), [wrappers.ReplyParser(env) for env in inner]
    shared = {"graphs": wrappers.TaskGraphs()} if name == "GraphShaping" else {}
    envs = getattr(wrappers, f"Vector{name}")(envs, **options)
    singles = Singles([getattr(wrappers, name)(env, **options, **shared) for env in inner], mode, seed=5)
    envs.reset(seed=5)
    ended = 0
    for _ in range(100):
        actions = rng.choice(answers, n).tolist()
        observations, *outcomes, infos = envs.step(actions)
        found = [[*seen(observations, infos, i), *(frozen(each[i]) for each in outcomes)] for i in range(n)]
        assert found == singles.played(actions)
        assert observations in envs.observation_space
        over = outcomes[1] | outcomes[2]
        assert envs.idle.tolist() == [bool(each) and mode is not AutoresetMode.SAME_STEP for each in over]
        for name, ends in infos.get("final_info", {}).items():
            assert name[0] != "_" or ends.tolist() == over.tolist()
        ended += int(over.sum())
        begins = over & (rng.random(n) < 0.5)
        if mode is DISABLED and begins.any():
            observations, infos = envs.reset(options={"reset_mask": begins})
            for i in np.flatnonzero(begins).tolist():
                singles.reset(i)
            assert [seen(observations, infos, i) for i in range(n)] == singles.written()
    assert ended > 20


@cases(
    "make",
    lambda: wrappers.ReplyParser(CorridorEnv()),
    lambda: wrappers.InvalidActionPenalty(CorridorEnv()),
    lambda: wrappers.PromptWindow(wrappers.ReplyParser(gym.make("AgentRL/Sokoban-v0")), admissible=True),
    lambda: wrappers.PromptWindow(wrappers.ReplyParser(gym.make("AgentRL/VisualSokoban-v0")), admissible=True),
    lambda: wrappers.Transcript(gym.make("AgentRL/Sokoban-v0"), instructions=False, admissible=True),
    lambda: wrappers.ProcessReward(gym.make("AgentRL/Sokoban-v0"), lambda steps: [0.5]),
    lambda: wrappers.ProcessReward(gym.make("FrozenLake-v1"), lambda steps: [1.0], kind="value"),
    lambda: wrappers.GraphShaping(gym.make("FrozenLake-v1"), gamma=0.97, key=lambda observation, info: observation),
    lambda: wrappers.GraphShaping(DiscreteActions(SymbolPlanes(gym.make("AgentRL/Sokoban-v0"))), gamma=0.99),
)
def test_single_forms_pass_gymnasiums_check(make: Callable[[], gym.Env[Any, Any]]) -> None:
    check_env(make(), skip_render_check=True)


#: What they need beside the environment.
NEEDED: dict[str, dict[str, Any]] = {"GraphShaping": {"gamma": 0.9}, "ProcessReward": {"scorer": opinions}}


@cases(
    "name, options, error, words",
    ("GraphShaping", {"gamma": 0.0}, ValueError, "gamma must be above 0 and at most 1, got 0.0"),
    ("GraphShaping", {"gamma": 1.1}, ValueError, "gamma must be above 0 and at most 1"),
    ("GraphShaping", {"gamma": "0.9"}, TypeError, "gamma must be a number, got '0.9'"),
    ("GraphShaping", {"decay": True}, TypeError, "decay must be a number, got True"),
    ("GraphShaping", {"scale": None}, TypeError, "scale must be a number, got None"),
    ("GraphShaping", {"decay": math.nan}, ValueError, "decay"),
    ("GraphShaping", {"decay": 1.1}, ValueError, "decay"),
    ("GraphShaping", {"scale": -1.0}, ValueError, "scale"),
    ("GraphShaping", {"truncation": "drop"}, ValueError, "unknown truncation 'drop'; known: 'keep', 'zero'"),
    ("GraphShaping", {"graphs": {}}, TypeError, "TaskGraphs"),
    ("GraphShaping", {"key": "state_key"}, TypeError, "key must be a function"),
    ("ProcessReward", {"scorer": 0.5}, TypeError, "scorer must be a function from steps to scores, got 0.5"),
    ("ProcessReward", {"weight": "1"}, TypeError, "weight must be a number, got '1'"),
    ("ProcessReward", {"weight": True}, TypeError, "weight must be a number, got True"),
    ("ProcessReward", {"weight": math.nan}, ValueError, "weight must be finite, got nan"),
    ("ProcessReward", {"gamma": None}, TypeError, "gamma must be a number, got None"),
    ("ProcessReward", {"gamma": 0.0}, ValueError, "gamma must be above 0 and at most 1, got 0.0"),
    ("ProcessReward", {"gamma": 1.5}, ValueError, "gamma must be above 0 and at most 1"),
    ("ProcessReward", {"kind": "level"}, ValueError, "kind 'level'; known: 'contribution', 'value', 'advantage'"),
    ("PromptWindow", {"history": -1}, ValueError, "history must be None or at least 0, got -1"),
    ("PromptWindow", {"history": 2.0}, TypeError, "history must be None or an integer, got 2.0"),
    ("PromptWindow", {"max_chars": 0}, ValueError, "max_chars must be None or at least 1, got 0"),
    ("PromptWindow", {"max_chars": "80"}, TypeError, "max_chars must be None or an integer"),
    ("InvalidActionPenalty", {"penalty": -0.1}, ValueError, "at least 0"),
    ("InvalidActionPenalty", {"penalty": math.nan}, ValueError, "at least 0"),
    ("InvalidActionPenalty", {"penalty": math.inf}, ValueError, "at least 0"),
)
def test_wrong_arguments_are_explained_by_both_forms(
    name: str, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    for form, env in ((name, CorridorEnv()), (f"Vector{name}", CorridorVectorEnv(1))):
        refuses(error, words, getattr(wrappers, form), env, **{**NEEDED.get(name, {}), **options})
