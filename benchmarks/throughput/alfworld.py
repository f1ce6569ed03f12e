"""ALFWorld steps per second: one and many sub-environments, and the `alfworld` package's engine where installed.

Both play random admissible commands and return observation and admissible commands at every step. Ours are generated
games; the package needs official ones, in the folder that the variable ALFWORLD_DATA names.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.alfworld.official.dataset import VARIABLE
from benchmarks.throughput.timing import Measurement, best_rate, single_rate, vector_rate

ENV = "AgentRL/ALFWorld-v0"
SECTION = "households"
_NUM_ENVS, _STEPS = 128, 50


def measure_households(quick: bool) -> list[Measurement]:
    """Environment steps per second and reset times of ALFWorld."""
    repeats, waves = (3, 1) if quick else (8, 3)
    found = []

    def add(key: str, what: str, ours: bool, value: float, unit: str = "steps/s") -> None:
        found.append(Measurement(f"households_{key}", SECTION, what, ours, value, unit))

    env = gym.make(ENV, disable_env_checker=True, data="generated")
    add("1", "gym.make, 1 env", True, single_rate(env, 20 * waves, repeats))
    envs = gym.make_vec(ENV, _NUM_ENVS, autoreset_mode="Disabled", data="generated")
    words = "gym.make_vec, 128 envs, text, commands and full info"
    add("vector_128", words, True, vector_rate(envs, _STEPS, waves, repeats))
    add("reset_128", "reset of 128 envs, games known", True, _reset_milliseconds(envs, repeats), "ms")
    play = package_stepper()
    if not isinstance(play, str):
        rate = best_rate(play, start=20, seconds=1.0 if quick else 4.0, repeats=2 if quick else 3)
        add("package", "the alfworld package's engine, 1 env", False, rate)
    return found


def _reset_milliseconds(envs: gym.vector.VectorEnv[Any, Any, Any], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats + 1):
        begin = time.process_time()
        envs.reset(seed=0)
        best = min(best, time.process_time() - begin)
    return 1e3 * best


def package_stepper() -> Callable[[int], int] | str:
    """Return a function that plays n random steps in the package's engine and returns n, or why there is none."""
    if importlib.util.find_spec("alfworld") is None or importlib.util.find_spec("textworld") is None:
        return "the alfworld package is not installed: pip install alfworld==0.4.2 and run again to compare"
    folder = os.environ.get(VARIABLE)
    games = sorted(Path(folder).glob("json_2.1.1/valid_*/*/*/game.tw-pddl")) if folder else []
    if not games:
        return f"the alfworld package plays official games: set {VARIABLE} to the folder that holds json_2.1.1"
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

    rng = np.random.default_rng(0)
    with contextlib.redirect_stdout(io.StringIO()):
        wanted = textworld.EnvInfos(won=True, admissible_commands=True)
        env = AlfredDemangler()(textworld.start(str(games[0]), wanted))
        state: Any = env.reset()

    def play(steps: int) -> int:
        nonlocal state
        for _ in range(steps):
            commands = state["admissible_commands"]
            state, _, done = env.step(commands[int(rng.integers(len(commands)))])
            if done:
                state = env.reset()
        return steps

    return play
