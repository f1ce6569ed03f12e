"""Trials over the registry: vector environments against a naive twin, and hostile options.

Hostile actions are tried by the contract of `tests/agentgym`, and by `parsers`.
"""

import pickle
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from hypothesis import strategies as st

from agentgym.registry import ROWS
from tests.playing import Twin, info_columns
from tests.robustness.trial import Trial, fragments, json_values, pieces, record, text_of

FORMS = {
    "list": list, "tuple": tuple, "objects": lambda texts: np.array(texts, object),
    "fixed width": lambda texts: np.array([text.rstrip("\0") for text in texts], str),
}  # fmt: skip


def at(batch: Any, i: int) -> Any:
    return {key: value[i] for key, value in batch.items()} if isinstance(batch, dict) else batch[i]


def check_vector(given: dict[str, Any]) -> int:
    """Every answer of the vector form is that of the twin; returns how many episodes ended."""
    count, mode, limit, form = given["envs"], given["mode"], given["limit"], given.get("form", {})
    envs: Any = gym.make_vec(given["id"], num_envs=count, autoreset_mode=mode, max_episode_steps=limit, **form)
    twin = Twin([gym.make(given["id"], **form).unwrapped for _ in range(count)], mode, limit)
    batch, infos = envs.reset(seed=given["seed"])
    for i in range(count):
        twin.reset(i, given["seed"] + i, None)
    saved, ends = None, 0
    for name, *arguments in [("look",), *given["operations"]]:
        if name == "step":
            kind, chosen = arguments
            actions = [choose(twin.rows[i][1], chosen[i % len(chosen)]) for i in range(count)]
            batch, rewards, terminated, truncated, infos = envs.step(FORMS[kind](actions))
            over = [any(flags) for flags in twin.flags]
            said = [action.rstrip("\0") if kind == "fixed width" else action for action in actions]
            for i, (reward, *flags, final) in enumerate(twin.step(said)):
                assert (rewards[i], terminated[i], truncated[i]) == (reward, *flags)
                ends += any(flags) and not over[i]
                if final is not None:
                    assert data_equivalence(infos["final_obs"][i], final[0])
                    assert {key: infos["final_info"][key][i] for key in final[1]} == final[1]
        elif name == "reset":
            seed, bits, options = arguments
            mask = np.array([bool(bits >> i & 1) for i in range(count)])
            if not mask.any():
                mask[:] = True
            each = [options[i % len(options)] for i in range(count)]
            batch, infos = envs.reset(seed=seed, options={"reset_mask": mask, "per_env": each})
            for i in np.flatnonzero(mask).tolist():
                twin.reset(i, None if seed is None else seed + i, each[i])
        elif name == "save":
            saved = pickle.dumps([envs.unwrapped.snapshot(i) for i in range(count)]), pickle.dumps(twin.save())
        elif name == "load" and saved is not None:
            batch, infos = envs.unwrapped.restore(range(count), pickle.loads(saved[0]))
            twin.load(pickle.loads(saved[1]))
        for i, (observation, _) in enumerate(twin.rows):
            assert data_equivalence(at(batch, i), observation)
        for key, column in info_columns([info for _, info in twin.rows]).items():
            assert (infos[key].dtype, infos[key].tolist()) == (column.dtype, column.tolist()), key
    return ends


def choose(info: dict[str, Any], wish: Any) -> str:
    """The expert's action, an admissible one by its number, or a text."""
    actions = info["admissible_actions"]
    if wish == "expert":
        return str(info["expert_action"])
    if isinstance(wish, int):
        return str(actions[wish % len(actions)]) if actions else ""
    return text_of(wish)


def histories(env_id: str) -> st.SearchStrategy[Any]:
    """Sequences of operations on a vector environment."""
    wish = st.integers(0, 99) | st.integers(0, 99) | st.integers(0, 99) | pieces
    options = st.none() | st.just({}) | st.builds(lambda i: {"index": i}, st.integers(0, 3))
    each = st.lists(options, min_size=1, max_size=3)
    step = st.tuples(st.just("step"), st.sampled_from(list(FORMS)), st.lists(wish, min_size=1, max_size=3))
    operation = st.one_of(
        *(step, step),
        st.tuples(st.just("reset"), st.none() | st.integers(0, 99), st.integers(0, 7), each),
        st.tuples(st.sampled_from(["save", "load"])),
    )
    return record(
        id=st.just(env_id), envs=st.integers(1, 3), mode=st.sampled_from([mode.value for mode in AutoresetMode]),
        limit=st.sampled_from([1, 3, 8, 50]), seed=st.integers(0, 999),
        operations=st.lists(operation.map(list), max_size=14),
    )  # fmt: skip


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_in(item)]
    return [text for item in value for text in texts_in(item)] if isinstance(value, (tuple, list)) else []


def check_options(given: dict[str, Any]) -> None:
    """Options that name no task are an error that says so, and the environment goes on."""
    env = opened(given["id"])
    try:
        env.reset(seed=0, options=given["options"])
    except (ValueError, TypeError) as wrong:
        words = str(wrong)
        assert 10 < len(words) < 5_000
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space


@cache
def opened(env_id: str) -> Any:
    return gym.make(env_id, disable_env_checker=True, max_episode_steps=1000)


def _options(env_id: str) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["split", "index", "task_id", *opened(env_id).unwrapped.OPTIONS]) | fragments
    return st.dictionaries(names, json_values | st.sampled_from(["train", "test", "all"]), max_size=3)


def trials(env_id: str) -> list[Trial]:
    """Trials of an environment."""
    chosen = record(id=st.just(env_id), options=st.deferred(lambda: _options(env_id)))
    return [
        Trial(f"vector/{env_id[8:]}", histories(env_id), check_vector, 12),
        Trial(f"options/{env_id[8:]}", chosen, check_options, 40),
    ]


TRIALS = [trial for row in ROWS for trial in trials(row.id)]
