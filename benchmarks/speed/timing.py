"""Processor seconds of timed calls, with a fixed loop in between as a measure of the processor's speed.

Shared machines are slower or faster by the hour. So pieces of one pure Python loop run in turns with every measurement,
and each figure is given again for a machine on which ten million additions of the loop take `REFERENCE_SECONDS`:

    python -c "total = 0
    for number in range(10_000_000):
        total += number"

Steps of environments are timed in **first visits**: tasks, states, texts, commands and keys are new to the process.
Modules, environments, shared data (rooms, catalogues, indices) and code are not: one wave of other tasks goes before. A
**replay** plays the recorded actions again in the same environments, whose caches are then warm.
"""

import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding

from agentgym.tasks import choose as choose_task

#: Seconds of ten million additions on the machine to which figures are scaled.
REFERENCE_SECONDS = 0.9
_TEN_MILLION = 10_000_000
#: Additions of one piece of the loop, the measured seconds after which one is due, and most pieces at a time.
_PIECE, _EVERY, _MOST = 100_000, 0.01, 20
_LOOP = compile(f"total = 0\nfor number in range({_PIECE}):\n    total += number", "the loop", "exec")
#: Tasks that a first visit draws from, where the environment generates them.
MANY_TASKS = 1_000_000
#: Seeds from one wave to the next (more than there are sub-environments), and from one measurement to the next.
_APART, _WAVES = 100_000, 100_000_000

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]
Choose = Callable[[dict[str, Any], np.random.Generator], Sequence[str]]


@dataclass(frozen=True)
class Speed:
    """Units per processor second, and the seconds of ten million additions meanwhile."""

    value: float
    loop_seconds: float

    @property
    def scaled(self) -> float:
        """The speed where ten million additions take `REFERENCE_SECONDS`.

        >>> Speed(1000.0, 1.8).scaled
        2000.0
        """
        return self.value * self.loop_seconds / REFERENCE_SECONDS


_scaled = operator.attrgetter("scaled")


class Stopwatch:
    """Sums the seconds of calls by a clock (default: the processor's); a piece of the loop follows every 10 ms."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.seconds = 0.0
        self._clock = clock
        self._due = _EVERY
        self._pieces = 0
        self._loop = 0.0

    def time(self, work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        begin = self._clock()
        result = work(*args, **options)
        spent = self._clock() - begin
        self.seconds += spent
        self._due += spent
        pieces = min(int(self._due / _EVERY), _MOST)
        if pieces:
            self._due = 0.0
        for _ in range(pieces):
            begin = self._clock()
            exec(_LOOP, {})
            self._loop += self._clock() - begin
            self._pieces += 1
        return result

    def speed(self, units: float) -> Speed:
        if not self.seconds:
            raise ValueError("Stopwatch.speed: nothing was timed; call time() first")
        return Speed(units / self.seconds, self._loop * _TEN_MILLION / (self._pieces * _PIECE))


def median(speeds: Sequence[Speed]) -> Speed:
    """Return the median by scaled values; of two the slower one."""
    return sorted(speeds, key=_scaled)[(len(speeds) - 1) // 2]


def best(speeds: Sequence[Speed]) -> Speed:
    """Return the best by scaled values."""
    return max(speeds, key=_scaled)


def best_rate(
    work: Callable[[int], int],
    *,
    start: int,
    seconds: float,
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> Speed:
    """Return the best speed of several repetitions of about so many seconds.

    `work` does about n units and returns how many; n is raised from `start` until one call takes `seconds` / 2.
    """
    count, speeds = start, list[Speed]()
    while len(speeds) < repeats:
        watch = Stopwatch(clock)
        done = watch.time(work, count)
        if not speeds and watch.seconds < seconds / 2:
            count = int(count * max(2.0, min(10.0, seconds / max(watch.seconds, 1e-6))))
        else:
            speeds.append(watch.speed(done))
    return best(speeds)


def best_milliseconds(work: Callable[[], Any], repeats: int) -> float:
    """Return the fewest processor milliseconds of one call, after one call to warm up."""
    work()
    least = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        work()
        least = min(least, time.process_time() - begin)
    return least * 1e3


@dataclass(frozen=True)
class Visit:
    """A wave of steps: seed of the reset, actions of every step, and the number of steps of running places."""

    seed: int
    plan: list[Sequence[str]]
    steps: int


@dataclass(frozen=True)
class Visits:
    """Median speeds over the waves: first visits, and the same again."""

    first: Speed
    replayed: Speed


def admissible(infos: dict[str, Any], rng: np.random.Generator) -> list[str]:
    """Choose one of the commands that each sub-environment offers, "" where it offers none."""
    offered = infos["admissible_actions"]
    draws = rng.random(len(offered)).tolist()
    return [some[int(draw * len(some))] if some else "" for some, draw in zip(offered, draws, strict=True)]


def measure_visits(
    envs: VectorEnv,
    *,
    steps: int,
    waves: int,
    choose: Choose = admissible,
    resets: bool = True,
    prepare: Callable[[VectorEnv, int], None] = lambda envs, seed: None,
    seed: int = 0,
    clock: Callable[[], float] = time.process_time,
) -> Visits:
    """Measure first visits and their replays, each wave in other tasks; with autoreset, steps include restarts.

    `prepare` is called before a wave with its seed, untimed; each measurement of a process has another `seed`.
    """
    found: tuple[list[Speed], list[Speed]] = ([], [])
    for wave in range(waves + 1):
        first = seed * _WAVES + wave * _APART
        prepare(envs, first)
        watch, again = Stopwatch(clock), Stopwatch(clock)
        visit = first_visit(envs, first, steps, choose, watch, resets)
        replay(envs, visit, again, resets)
        if wave:
            found[0].append(watch.speed(visit.steps))
            found[1].append(again.speed(visit.steps))
    return Visits(*map(median, found))


def first_visit(envs: VectorEnv, seed: int, steps: int, choose: Choose, watch: Stopwatch, resets: bool = True) -> Visit:
    """Reset to a seed and play; without autoreset only running sub-environments count."""
    rng = np.random.default_rng(seed)
    _, infos = watch.time(envs.reset, seed=seed) if resets else envs.reset(seed=seed)
    running = np.ones(envs.num_envs, np.bool_)
    off = envs.metadata["autoreset_mode"] is gym.vector.AutoresetMode.DISABLED
    plan, count = list[Sequence[str]](), 0
    for _ in range(steps):
        plan.append(choose(infos, rng))
        count += int(running.sum())
        _, _, terminated, truncated, infos = watch.time(envs.step, plan[-1])
        if off:
            running &= ~(terminated | truncated)
    return Visit(seed, plan, count)


def replay(envs: VectorEnv, visit: Visit, watch: Stopwatch, resets: bool = True) -> None:
    """Play a visit again."""
    _ = watch.time(envs.reset, seed=visit.seed) if resets else envs.reset(seed=visit.seed)
    for actions in visit.plan:
        watch.time(envs.step, actions)


def open_tasks(episodes: int) -> Callable[[VectorEnv, int], None]:
    """Return a function that makes the tasks of so many coming episodes, where only tasks are drawn."""

    def prepare(envs: VectorEnv, seed: int) -> None:
        for i, env in enumerate(envs.unwrapped.envs):  # type: ignore[attr-defined]  # of `TextVectorEnv`
            rng, _ = seeding.np_random(seed + i)
            for _ in range(episodes):
                choose_task(env.tasks, env.split, {}, rng)

    return prepare
