"""Speeds: environment steps, levels and credit, beside peers and limits measured in the same run.

    python -m benchmarks.run throughput

Every figure is processor time of one thread (`time.process_time`), best of several repetitions, so that other jobs on
the machine disturb little. Actions are recorded in a first pass and replayed in the timed one: choosing them costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.trajectory import StepTable
from benchmarks import peers
from benchmarks.results import Machine

ENV = "AgentRL/Sokoban-v0"
#: Constructor arguments of the rooms that all implementations are measured on.
SIZE, BOXES = 6, 2
GROUPS, GROUP_SIZE, LENGTH = 16, 8, 50
METHODS = ("grpo", "rloo", "gigpo", "rewardflow", "graphgpo")


@dataclass(frozen=True)
class Measurement:
    """One speed.

    Attributes:
        key: short name, unique in a report.
        section: "steps", "levels" or "credit".
        what: what was measured, in words.
        ours: whether it is this project's code (otherwise a peer or a limit).
        value: the best repetition, in `unit`.
        unit: "steps/s", "levels/s" (more is better) or "ms" (less is better).
    """

    key: str
    section: str
    what: str
    ours: bool
    value: float
    unit: str


@dataclass(frozen=True)
class Ratio:
    """How many times faster `faster` is than `slower`, and the goal where there is one."""

    section: str
    what: str
    value: float


@dataclass(frozen=True)
class Throughput:
    """Everything one run measured; written as `throughput.json`."""

    machine: Machine
    quick: bool
    measurements: list[Measurement]
    ratios: list[Ratio]
    skipped: list[str]


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
    repeats, waves = (2, 2) if quick else (5, 10)
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
    add("steps_autoreset_128", "gym.make_vec, 128 places, new levels included", True,
        vector_rate(envs, 60, 1, repeats))
    stock = gym.make_vec(ENV, 128, vectorization_mode="sync",
                         vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.DISABLED}, **kwargs)
    stock_value = _stock_rate(stock, waves, repeats)
    add("steps_stock_128", "the same environment in gymnasium's SyncVectorEnv, 128 places", False, stock_value)
    observation, info = env.reset(seed=0)
    loop = peers.bare_loop(128, observation, info)
    add("steps_bare", "limit: bare Python loop, no rules, 128 places", False,
        best_rate(loop, start=20_000, seconds=0.3, repeats=repeats))
    if peers.gym_sokoban_classes() is not None:
        for render, start in (("rgb_array", 100), ("tiny_rgb_array", 1000), ("none", 3000)):
            play = peers.gym_sokoban_stepper(render, SIZE, BOXES)
            what = f"gym-sokoban 0.0.6, {render}" if render != "none" else "gym-sokoban 0.0.6, rendering removed"
            add(f"steps_gym_sokoban_{render}", what, False,
                best_rate(play, start=start, seconds=0.2 if quick else 0.5, repeats=repeats))
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


def random_walk_table(seed: int, groups: int, size: int, length: int, states: int = 300) -> StepTable:
    """Synthetic groups of full-length episodes: walks over a ring of `states` states with chords; half succeed.

    Returns:
        A table of `groups * size * length` rows; the reward is 1 in the last step of a successful walk.
    """
    rng = np.random.default_rng(seed)
    episodes = groups * size
    moves = rng.integers(0, 4, (episodes, length))
    chords = rng.integers(0, states, (groups, states))
    columns: dict[str, list[Any]] = {name: [] for name in ("group", "trajectory", "t", "state", "action", "next_state")}
    for episode in range(episodes):
        group, here = divmod(episode, size)[0], 0
        for t, move in enumerate(moves[episode].tolist()):
            there = int(chords[group, here]) if move == 3 else (here + (1, -1, 2)[move]) % states
            after = states + int(episode % 2) if t == length - 1 else there
            for name, value in zip(columns, (group, episode, t, here, move, after), strict=True):
                columns[name].append(value)
            here = there
    won = np.repeat(np.arange(episodes) % 2 == 0, length)
    last = np.tile(np.arange(length) == length - 1, episodes)
    return StepTable.from_arrays(**columns, reward=(won & last).astype(float), won=won)


def measure_credit(quick: bool) -> list[Measurement]:
    """Processor milliseconds to score 16 groups x 8 episodes x 50 steps, per method."""
    import wrappers

    table = random_walk_table(0, GROUPS, GROUP_SIZE, LENGTH)
    shape = f"{GROUPS} x {GROUP_SIZE} x {LENGTH} steps"
    found = [
        Measurement(f"credit_{name}", "credit", f"{name}, {shape}", True,
                    best_milliseconds(lambda f=getattr(wrappers, name): f(table), 3 if quick else 10), "ms")
        for name in METHODS
    ]
    sweeps = 100 if quick else 1000
    begin = time.process_time()
    peers.sweeping_propagation(table, sweeps=sweeps)
    spent = (time.process_time() - begin) * 1e3
    found.append(Measurement("credit_sweeps", "credit", f"{sweeps:,} sweeps over a dict graph, {shape}", False, spent, "ms"))
    return found
