"""VirtualHome steps per second: the simulator alone, and the environment in one and many sub-environments; its costs.

The environment plays random offered commands in generated houses, and returns observation, offered commands and full
info at every step. The simulator plays the programs of generated activities, and the published ones where their folder
is named, each from a restart.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

import agentgym  # noqa: F401  # registers the environments
from agentgym.virtualhome.activity import Activity
from agentgym.virtualhome.commands import Line
from agentgym.virtualhome.generated.activities import GeneratedActivities
from agentgym.virtualhome.official.dataset import OfficialActivities
from agentgym.virtualhome.official.files import VARIABLE
from agentgym.virtualhome.tasks import Activities
from benchmarks.throughput.timing import Measurement, Speed, Stopwatch, best_milliseconds, median
from benchmarks.throughput.visits import (
    MANY_TASKS,
    admissible,
    first_visit,
    measure_visits,
    open_tasks,
    single_rate,
)  # fmt: skip

ENV = "AgentRL/VirtualHome-v0"
SECTION = "homes"
NUM_ENVS = 128
#: Steps of a wave, and most episodes that they hold: the time limit is 40 steps.
_STEPS, _EPISODES = 80, 4
#: Programs of a wave of the simulator: generated, and published, of which there are a few hundred.
_PROGRAMS, _PUBLISHED = 200, 60
#: Steps before the memory is read, and before a snapshot; snapshots that are timed together.
_MOVES, _SNAPSHOTS = 20, 100
#: Seed of houses that nothing else in a report plays in.
_MEMORY_SEED = 987_654_321


def measure_homes(quick: bool) -> list[Measurement]:
    """Steps per second of the simulator and of the environment, and reset times."""
    repeats, waves = (2, 2) if quick else (8, 9)
    found = []

    def add(key: str, what: str, speed: Speed) -> None:
        found.append(Measurement.of_speed(f"homes_{key}", SECTION, what, True, speed))

    words = "simulator alone, {} programs on the first visit, restarts included"
    generated = GeneratedActivities(num_activities=MANY_TASKS)
    speeds = [play_programs(generated, "train", wave * _PROGRAMS, _PROGRAMS)[0] for wave in range(waves)]
    add("simulator", words.format("generated"), median(speeds))
    if folder := os.environ.get(VARIABLE):
        published = OfficialActivities(folder)
        speeds = [play_programs(published, "all", wave * _PUBLISHED, _PUBLISHED)[0] for wave in range(waves)]
        add("published", words.format("published"), median(speeds))
    env = gym.make(ENV, disable_env_checker=True, data="generated")
    add("1", "gym.make, 1 env, replayed", single_rate(env, 10 * waves, repeats))
    new: dict[str, Any] = {"data": "generated", "num_activities": MANY_TASKS}
    envs = gym.make_vec(ENV, NUM_ENVS, **new)
    words = f"gym.make_vec, {NUM_ENVS} envs"
    visits = measure_visits(envs, steps=_STEPS, waves=waves, prepare=open_tasks(_EPISODES))
    add("vector_128", f"{words}, first visits, restarts to houses at hand", visits.first)
    add("replayed_128", f"{words}, the same replayed", visits.replayed)
    visits = measure_visits(envs, steps=_STEPS, waves=waves, seed=1)
    add("generated_128", f"{words}, first visits, houses generated in restarts", visits.first)

    def add_cost(key: str, what: str, value: float, unit: str = "ms") -> None:
        found.append(Measurement(f"homes_{key}", SECTION, what, True, value, unit))

    every = best_milliseconds(lambda: envs.reset(seed=0), repeats)
    add_cost("reset_128", f"reset of {NUM_ENVS} envs, houses known", every)
    add_cost("reset_1", "that for one of them", every / NUM_ENVS)
    take, load = _branch_milliseconds(repeats)
    add_cost("snapshot", f"snapshot of the world after {_MOVES} commands", take)
    add_cost("restore", "restoring it", load)
    add_cost("memory", f"{NUM_ENVS} envs after {_MOVES} steps, with their houses", _megabytes(), "MB")
    return found


def _branch_milliseconds(repeats: int) -> tuple[float, float]:
    """Milliseconds of saving the world of an episode, and of loading it."""
    env = gym.make(ENV, disable_env_checker=True, data="generated").unwrapped
    _, info = env.reset(seed=0)
    for number in range(_MOVES):
        offered = info["admissible_actions"]
        *_, info = env.step(offered[number * 7 % len(offered)])
    world = env.episode.world  # type: ignore[attr-defined]  # of `VirtualHomeEnv`
    saved = world.get_state()
    take = best_milliseconds(lambda: [world.get_state() for _ in range(_SNAPSHOTS)], repeats)
    load = best_milliseconds(lambda: [world.set_state(saved) for _ in range(_SNAPSHOTS)], repeats)
    return take / _SNAPSHOTS, load / _SNAPSHOTS


def _megabytes() -> float:
    """Memory that so many environments take, each in the middle of a first visit, with the houses made for it."""
    tracemalloc.start()
    envs = gym.make_vec(ENV, NUM_ENVS, data="generated", num_activities=MANY_TASKS)
    first_visit(envs, _MEMORY_SEED, _MOVES, admissible, Stopwatch())
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / 1e6


def _play(activity: Activity, lines: Sequence[Line]) -> None:
    world = activity.world()
    for line in lines:
        world.act(line)


def play_programs(tasks: Activities, split: str, first: int, count: int) -> tuple[Speed, int]:
    """Play the programs of some activities in the simulator alone.

    Args:
        tasks: the collection.
        split: a split of it.
        first: index of the first one.
        count: how many.

    Returns:
        speed, restarts included; making houses and reading programs is not timed; and the steps that were played.
    """
    programs = []
    for index in range(first, first + count):
        activity = tasks.by_index(split, index)
        words = activity.lexicon.words
        programs.append((activity, [line for text in activity.program if (line := words.line(text))]))
    steps = sum(len(lines) for _, lines in programs)
    watch = Stopwatch()
    for activity, lines in programs:
        watch.time(_play, activity, lines)
    return watch.speed(steps), steps
