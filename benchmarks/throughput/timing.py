"""Timing by processor seconds, best of several repetitions, and the record of one measurement.

Actions are recorded in a first pass and replayed in the timed one, so that choosing them costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np


@dataclass(frozen=True)
class Measurement:
    """One speed.

    Attributes:
        key: short name, unique in a report.
        section: "steps", "levels", "households", "shops", "searches", "dialogues", "credit" or "clusters".
        what: what was measured, in words.
        ours: whether it is this project's code (otherwise a peer or a limit).
        value: the best repetition, in `unit`.
        unit: "steps/s", "levels/s", "searches/s", "queries/s", "passages/s" (more is better), "ms", "s" or "MB" (less
            is better).
    """

    key: str
    section: str
    what: str
    ours: bool
    value: float
    unit: str


def best_rate(work: Callable[[int], int], *, start: int, seconds: float, repeats: int) -> float:
    """Best number of units per second of processor time.

    Args:
        work: does about n units and returns how many.
        start: first n; it is raised until one call takes `seconds` / 2.
        seconds: processor seconds of one repetition, roughly.
        repeats: repetitions, the best one counts.
    """
    count = start
    while True:
        begin = time.process_time()
        done = work(count)
        spent = time.process_time() - begin
        if spent >= seconds / 2:
            break
        count = int(count * max(2.0, min(10.0, seconds / max(spent, 1e-6))))
    best = done / spent
    for _ in range(repeats - 1):
        begin = time.process_time()
        done = work(count)
        best = max(best, done / (time.process_time() - begin))
    return best


def best_milliseconds(work: Callable[[], Any], repeats: int) -> float:
    """Fewest processor milliseconds of one call, after one call to warm up."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times) * 1e3


def record_actions(envs: gym.vector.VectorEnv[Any, Any, Any], steps: int, seed: int) -> tuple[list[list[str]], int]:
    """Play random admissible actions and return them, with the number of steps that running sub-environments made.

    Returns:
        `steps` lists of one action per sub-environment ("" for finished ones when autoreset is off), and the count.
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
