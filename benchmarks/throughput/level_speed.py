"""New levels per second: our generator alone, through resets, and gym-sokoban's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

import agentgym  # noqa: F401  # registers the environments
from agentgym.sokoban.generated import LevelSpec, generate
from benchmarks.throughput import peers
from benchmarks.throughput.step_speed import BOXES, ENV, SIZE
from benchmarks.throughput.timing import Measurement, best_rate


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
        if peers.gym_sokoban_classes() is not None:
            work = peers.gym_sokoban_generator(SIZE, boxes)
            add(f"levels_gym_sokoban_{boxes}", f"gym-sokoban 0.0.6 generator, {rooms}", False, work, 60)
    add("levels_reset_1", "reset to a new level, 2 boxes, gym.make, 1 place", True, _single_resets(), 50)
    add("levels_reset_128", "reset to a new level, 2 boxes, gym.make_vec, 128 places", True, _vector_resets(128), 128)
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


def _vector_resets(places: int) -> Callable[[int], int]:
    fresh = _Counter()
    envs: Any = gym.make_vec(ENV, places, size=SIZE, boxes=BOXES, level_seed=2)

    def work(count: int) -> int:
        rounds = -(-count // places)
        for _ in range(rounds):
            first = fresh(places)
            envs.reset(options=[{"split": "train", "index": first + i} for i in range(places)])
        return rounds * places

    return work


class _Counter:
    """Hands out numbers that were never handed out before: levels that no cache knows."""

    def __init__(self) -> None:
        self.next = 10_000

    def __call__(self, count: int) -> int:
        first = self.next
        self.next += count
        return first
