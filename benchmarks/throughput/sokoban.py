"""Sokoban's steps and new levels per second: ours, Gymnasium's vectoriser, gym-sokoban, and a limit.

The limit is a bare Python loop that only hands ready-made texts and info dicts around: no environment that is written
in Python, one after the other, can be faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.sokoban.generated import LevelSpec, generate
from benchmarks.throughput import gym_sokoban
from benchmarks.throughput.timing import Measurement, best_rate, single_rate, vector_rate

ENV = "AgentRL/Sokoban-v0"
#: The rooms that all implementations are measured on.
SIZE, BOXES = 6, 2


def measure_steps(quick: bool) -> list[Measurement]:
    """Environment steps per second: ours, Gymnasium's vectoriser, gym-sokoban, and the limit."""
    repeats, waves = (8, 3) if quick else (20, 8)
    found = []

    def add(key: str, what: str, ours: bool, value: float) -> None:
        found.append(Measurement(key, "steps", what, ours, value, "steps/s"))

    kwargs: dict[str, Any] = {"size": SIZE, "boxes": BOXES}
    env = gym.make(ENV, disable_env_checker=True, **kwargs)
    add("steps_1", "gym.make, 1 env", True, single_rate(env, 20 * waves, repeats))
    for num_envs in (1, 128):
        envs = gym.make_vec(ENV, num_envs, autoreset_mode="Disabled", **kwargs)
        value = vector_rate(envs, 20, waves * (1 if num_envs > 1 else 30), repeats)
        add(f"steps_vector_{num_envs}", f"gym.make_vec, {num_envs} env{'s' * (num_envs > 1)}", True, value)
    envs = gym.make_vec(ENV, 128, **kwargs)
    add(
        "steps_autoreset_128",
        "gym.make_vec, 128 envs, restarts included",
        True,
        vector_rate(envs, 60, 1, repeats),
    )
    stock = gym.make_vec(
        ENV,
        128,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.DISABLED},
        **kwargs,
    )
    stock_value = _stock_rate(stock, waves, repeats)
    add("steps_stock_128", "the same environment in gymnasium's SyncVectorEnv, 128 envs", False, stock_value)
    observation, info = env.reset(seed=0)
    loop = bare_loop(128, observation, info)
    add(
        "steps_bare",
        "limit: bare Python loop, no rules, 128 envs",
        False,
        best_rate(loop, start=20_000, seconds=0.3, repeats=repeats),
    )
    if gym_sokoban.classes() is not None:
        for render, start in (("rgb_array", 100), ("tiny_rgb_array", 1000), ("none", 3000)):
            play = gym_sokoban.stepper(render, SIZE, BOXES)
            what = f"gym-sokoban 0.0.6, {render}" if render != "none" else "gym-sokoban 0.0.6, rendering removed"
            add(
                f"steps_gym_sokoban_{render}",
                what,
                False,
                best_rate(play, start=start, seconds=0.2 if quick else 0.5, repeats=repeats),
            )
    return found


def bare_loop(num_envs: int, text: str, info: dict[str, Any]) -> Callable[[int], int]:
    """Return a function that hands `text` and a fresh copy of `info` around, one sub-environment after the other.

    It makes the calls and the containers that any environment in Python must make, and follows no rules at all.
    """

    class Nothing:
        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            return text, -0.1, False, False, dict(info)

    envs = [Nothing() for _ in range(num_envs)]

    def play(steps: int) -> int:
        actions = ["up"] * num_envs
        for _ in range(steps // num_envs):
            observations, rewards, infos = [], [], []
            for env, action in zip(envs, actions, strict=True):
                observation, reward, _, _, after = env.step(action)
                observations.append(observation)
                rewards.append(reward)
                infos.append(after)
        return steps // num_envs * num_envs

    return play


def _stock_rate(envs: gym.vector.VectorEnv[Any, Any, Any], waves: int, repeats: int) -> float:
    """Steps per second of a stock vectoriser until its first episode ends (it refuses to step after that)."""
    plans = []
    for seed in range(waves):
        rng = np.random.default_rng(seed)
        _, infos = envs.reset(seed=seed)
        plan: list[list[str]] = []
        for _ in range(20):
            plan.append([str(rng.choice(admissible)) for admissible in infos["admissible_actions"]])
            _, _, terminated, truncated, infos = envs.step(plan[-1])
            if (terminated | truncated).any():
                break
        plans.append((seed, plan))
    best = 0.0
    for _ in range(repeats):
        spent, count = 0.0, 0
        for seed, plan in plans:
            envs.reset(seed=seed)
            begin = time.process_time()
            for actions in plan:
                envs.step(actions)
            spent += time.process_time() - begin
            count += len(plan) * envs.num_envs
        best = max(best, count / spent)
    return best


def measure_levels(quick: bool) -> list[Measurement]:
    """New levels per second: the generator alone, through resets, and gym-sokoban's."""
    repeats, seconds = (2, 0.2) if quick else (5, 0.6)
    found = []

    def add(key: str, what: str, ours: bool, work: Callable[[int], int], start: int) -> None:
        value = best_rate(work, start=start, seconds=seconds, repeats=repeats)
        found.append(Measurement(key, "levels", what, ours, value, "levels/s"))

    for boxes in (1, 2, 3):
        rooms = f"{SIZE}x{SIZE}, {boxes} box{'es' * (boxes > 1)}"
        add(f"levels_{boxes}", f"generator, {rooms}", True, _generator(boxes), 50)
        if gym_sokoban.classes() is not None:
            work = gym_sokoban.generator(SIZE, boxes)
            add(f"levels_gym_sokoban_{boxes}", f"gym-sokoban 0.0.6 generator, {rooms}", False, work, 60)
    add("levels_reset_1", "reset to a new level, 2 boxes, gym.make, 1 env", True, _single_resets(), 50)
    add(
        "levels_reset_128",
        "reset to a new level, 2 boxes, gym.make_vec, 128 envs",
        True,
        _vector_resets(128),
        128,
    )
    return found


def _generator(boxes: int) -> Callable[[int], int]:
    """Work of `best_rate`: make n levels that were never made before."""
    spec, fresh = LevelSpec(SIZE, SIZE, (boxes,)), _Counter()
    return lambda count: len(generate(count, spec, "train", fresh(count)))


def _single_resets() -> Callable[[int], int]:
    fresh = _Counter()
    env = gym.make(ENV, disable_env_checker=True, size=SIZE, boxes=BOXES, level_seed=1)

    def work(count: int) -> int:
        first = fresh(count)
        for i in range(count):
            env.reset(options={"split": "train", "index": first + i})
        return count

    return work


def _vector_resets(num_envs: int) -> Callable[[int], int]:
    fresh = _Counter()
    envs: Any = gym.make_vec(ENV, num_envs, size=SIZE, boxes=BOXES, level_seed=2)

    def work(count: int) -> int:
        rounds = -(-count // num_envs)
        for _ in range(rounds):
            first = fresh(num_envs)
            envs.reset(options=[{"split": "train", "index": first + i} for i in range(num_envs)])
        return rounds * num_envs

    return work


class _Counter:
    """Hands out numbers that were never handed out before: levels that no cache knows."""

    def __init__(self) -> None:
        self.next = 10_000

    def __call__(self, count: int) -> int:
        first = self.next
        self.next += count
        return first
