"""Environment steps per second: ours, Gymnasium's vectoriser, gym-sokoban, and the limit of a bare loop.

Actions are recorded in a first pass and replayed in the timed one, so that choosing them costs nothing.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from benchmarks.throughput import peers
from benchmarks.throughput.timing import Measurement, best_rate

ENV = "AgentRL/Sokoban-v0"
#: The rooms that all implementations are measured on.
SIZE, BOXES = 6, 2


def record_actions(envs: gym.vector.VectorEnv[Any, Any, Any], steps: int, seed: int) -> tuple[list[list[str]], int]:
    """Play random admissible actions and return them, with the number of steps that running places made.

    Returns:
        `steps` lists of one action per place ("" for finished places when autoreset is off), and the count.
    """
    rng = np.random.default_rng(seed)
    _, infos = envs.reset(seed=seed)
    running = np.ones(envs.num_envs, np.bool_)
    off = envs.metadata["autoreset_mode"] is gym.vector.AutoresetMode.DISABLED
    recorded, count = [], 0
    for _ in range(steps):
        draws = rng.random(envs.num_envs)
        actions = [
            admissible[int(draw * len(admissible))] if admissible and alive else ""
            for admissible, draw, alive in zip(infos["admissible_actions"], draws, running, strict=True)
        ]
        recorded.append(actions)
        count += int(running.sum())
        _, _, terminated, truncated, infos = envs.step(actions)
        if off:
            running &= ~(terminated | truncated)
    return recorded, count


def vector_rate(envs: gym.vector.VectorEnv[Any, Any, Any], steps: int, waves: int, repeats: int) -> float:
    """Steps per processor second of `envs.step`; `envs.reset` between waves is not timed."""
    plans = [(seed, *record_actions(envs, steps, seed)) for seed in range(waves)]
    best = 0.0
    for _ in range(repeats):
        spent, count = 0.0, 0
        for seed, plan, made in plans:
            envs.reset(seed=seed)
            begin = time.process_time()
            for actions in plan:
                envs.step(actions)
            spent += time.process_time() - begin
            count += made
        best = max(best, count / spent)
    return best


def single_rate(env: gym.Env[Any, Any], episodes: int, repeats: int) -> float:
    """Steps per processor second of `env.step` of one environment; `env.reset` is not timed."""
    rng = np.random.default_rng(0)
    plans: list[list[str]] = []
    for seed in range(episodes):
        _, info = env.reset(seed=seed)
        plan, over = [], False
        while not over and info["admissible_actions"]:
            plan.append(str(rng.choice(info["admissible_actions"])))
            _, _, terminated, truncated, info = env.step(plan[-1])
            over = terminated or truncated
        plans.append(plan)
    best = 0.0
    for _ in range(repeats):
        spent = 0.0
        for seed, plan in enumerate(plans):
            env.reset(seed=seed)
            begin = time.process_time()
            for action in plan:
                env.step(action)
            spent += time.process_time() - begin
        best = max(best, sum(map(len, plans)) / spent)
    return best


def measure_steps(quick: bool) -> list[Measurement]:
    """Environment steps per second: ours, Gymnasium's vectoriser, gym-sokoban, and the limit."""
    repeats, waves = (8, 3) if quick else (20, 8)
    found = []

    def add(key: str, what: str, ours: bool, value: float) -> None:
        found.append(Measurement(key, "steps", what, ours, value, "steps/s"))

    kwargs: dict[str, Any] = {"size": SIZE, "boxes": BOXES}
    env = gym.make(ENV, disable_env_checker=True, **kwargs)
    add("steps_1", "gym.make, 1 place", True, single_rate(env, 20 * waves, repeats))
    for places in (1, 128):
        envs = gym.make_vec(ENV, places, autoreset_mode="Disabled", **kwargs)
        value = vector_rate(envs, 20, waves * (1 if places > 1 else 30), repeats)
        add(f"steps_vector_{places}", f"gym.make_vec, {places} place{'s' * (places > 1)}", True, value)
    envs = gym.make_vec(ENV, 128, **kwargs)
    add("steps_autoreset_128", "gym.make_vec, 128 places, restarts included", True, vector_rate(envs, 60, 1, repeats))
    stock = gym.make_vec(
        ENV,
        128,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.DISABLED},
        **kwargs,
    )
    stock_value = _stock_rate(stock, waves, repeats)
    add("steps_stock_128", "the same environment in gymnasium's SyncVectorEnv, 128 places", False, stock_value)
    observation, info = env.reset(seed=0)
    loop = peers.bare_loop(128, observation, info)
    add(
        "steps_bare",
        "limit: bare Python loop, no rules, 128 places",
        False,
        best_rate(loop, start=20_000, seconds=0.3, repeats=repeats),
    )
    if peers.gym_sokoban_classes() is not None:
        for render, start in (("rgb_array", 100), ("tiny_rgb_array", 1000), ("none", 3000)):
            play = peers.gym_sokoban_stepper(render, SIZE, BOXES)
            what = f"gym-sokoban 0.0.6, {render}" if render != "none" else "gym-sokoban 0.0.6, rendering removed"
            add(
                f"steps_gym_sokoban_{render}",
                what,
                False,
                best_rate(play, start=start, seconds=0.2 if quick else 0.5, repeats=repeats),
            )
    return found


def _stock_rate(envs: gym.vector.VectorEnv[Any, Any, Any], waves: int, repeats: int) -> float:
    """Steps per second of a stock vectoriser, until its first place finishes (it refuses to step finished ones)."""
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
