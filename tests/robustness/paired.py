"""Trials of SOTOPIA's forms for PettingZoo: any calls in any order, by agents that are there, wrong or out of turn."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from hypothesis import strategies as st

from agentgym.sotopia import aec_env, parallel_env
from agentgym.sotopia.acts import COMMANDS
from tests.robustness.trial import Trial, fragments, json_values, pieces, text_of

#: What is no action, by name: JSON holds none of them.
OBJECTS = {
    "bytes": b"speak",
    "nan": float("nan"),
    "array": np.zeros(3),
    "text": np.str_("leave"),
    "none": None,
    "set": {1},
}
ALLOWED = (KeyError, TypeError, ValueError, ResetNeeded)


@cache
def opened(form: str, order: str) -> Any:
    return (parallel_env if form == "parallel" else aec_env)(order=order, max_turns=4, render_mode="ansi")


def action_of(drawn: Any) -> Any:
    """The action that a drawn value stands for: a text, a command, or something that is no action at all."""
    kind, value = drawn
    if kind == "text":
        return text_of(value)
    return COMMANDS[value % len(COMMANDS)] if kind == "command" else OBJECTS[value] if kind == "object" else value


def told(env: Any) -> Any:
    """All that can be seen of the dialogue."""
    return env.world.dialogue.text, env.world.turn, list(env.agents), [env._info(role) for role in (0, 1)]


def check(given: dict[str, Any]) -> None:
    """What is wrong is refused and changes nothing; what is a text is played, whatever it says."""
    env = opened(given["form"], given["order"])
    parallel = given["form"] == "parallel"
    env.reset(seed=given["seed"])
    for name, value in given["calls"]:
        before, refused = told(env), ""
        try:
            if name == "reset":
                env.reset(**value)
            elif name == "observe":
                (env.observation_space if parallel else env.observe)(value)
            elif parallel:
                play_both(env, {agent: action_of(drawn) for agent, drawn in value})
            else:
                play_one(env, action_of(value[0][1]) if value else None)
        except ALLOWED as error:
            refused = f"{type(error).__name__}: {error}"
        if refused:
            assert len(refused) < 2_000
            assert told(env) == before, f"{name} was refused ({refused}) and changed something"
        env.render().encode("utf-8")


def play_both(env: Any, actions: Any) -> None:
    running = bool(env.agents)
    observations, rewards, terminated, truncated, infos = env.step(actions)
    assert set(observations) == set(rewards) == set(terminated) == set(truncated) == set(infos)
    assert len(observations) == 2 * running
    for agent in observations:
        assert observations[agent] in env.observation_space(agent)
        assert np.isfinite(rewards[agent])
        observations[agent].encode("utf-8")
    assert all(isinstance(action, str) for action in actions.values()) or not running


def play_one(env: Any, action: Any) -> None:
    agent = env.agent_selection
    over = bool(env.agents) and (env.terminations[agent] or env.truncations[agent])
    env.step(action)
    assert isinstance(action, str) != over, "an agent that is out gives None, any other one a text"
    for each in env.agents:
        env.observe(each).encode("utf-8")
    if env.agents:
        assert np.isfinite(env.last()[1])


_agents = st.sampled_from(["agent_0", "agent_1"])
_action = st.one_of(
    st.tuples(st.just("command"), st.integers(0, 99)),
    st.tuples(st.just("command"), st.integers(0, 99)),
    st.tuples(st.just("text"), pieces),
    st.tuples(st.just("object"), st.sampled_from(sorted(OBJECTS))),
    st.tuples(st.just("value"), json_values),
).map(list)
_options = st.none() | json_values | st.dictionaries(st.sampled_from(["split", "index", "task_id"]), json_values)
_call = st.one_of(
    *[st.tuples(st.just("step"), st.lists(st.tuples(who, _action).map(list), max_size=2))
      for who in (_agents, _agents, _agents, _agents | fragments)],
    st.tuples(st.just("observe"), _agents | fragments | st.none() | st.integers(-1, 2)),
    st.tuples(st.just("reset"), st.fixed_dictionaries(
        {}, optional={"seed": st.none() | st.integers(-1, 9) | json_values, "options": _options}
    )),
).map(list)  # fmt: skip


def quiet(given: dict[str, Any]) -> None:
    """Unknown options are left aside with a warning, which is PettingZoo's rule."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(given)


TRIALS = [
    Trial(
        f"paired/{form}",
        st.fixed_dictionaries(
            {
                "form": st.just(form),
                "order": st.sampled_from(orders),
                "seed": st.integers(0, 99),
                "calls": st.lists(_call, max_size=12),
            }
        ),
        quiet,
        30,
    )
    for form, orders in (
        ("parallel", ["simultaneous", "round-robin", "random"]),
        ("turns", ["round-robin", "random"]),
    )
]
