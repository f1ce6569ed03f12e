"""Processor seconds of what is measured, and of a fixed loop in between that tells how fast the processor is.

Shared machines and other processors are slower or faster by the hour. So pieces of one pure Python loop run in turns
with every measurement, in the same process; its time is printed beside the figure, and the figure is given once more
for a machine on which ten million additions of that loop take `REFERENCE_SECONDS`. The loop is that of a script, its
names global (in a function it takes less than half the time); by hand:

    python -c "total = 0
    for number in range(10_000_000):
        total += number"
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

#: Seconds of ten million additions on the machine to which figures are scaled.
REFERENCE_SECONDS = 0.9
_TEN_MILLION = 10_000_000
#: Additions of one piece of the loop, the measured seconds after which one is due, and most pieces at a time.
_PIECE, _EVERY, _MOST = 100_000, 0.01, 20
_LOOP = compile(f"total = 0\nfor number in range({_PIECE}):\n    total += number", "the loop", "exec")


@dataclass(frozen=True)
class Speed:
    """Units per processor second.

    Attributes:
        value: as measured.
        loop_seconds: what ten million additions took meanwhile.
    """

    value: float
    loop_seconds: float

    @property
    def scaled(self) -> float:
        """What it would be where ten million additions take `REFERENCE_SECONDS`.

        >>> Speed(1000.0, 1.8).scaled
        2000.0
        """
        return self.value * self.loop_seconds / REFERENCE_SECONDS


@dataclass(frozen=True)
class Measurement:
    """One figure of the report.

    Attributes:
        key: short name, unique in a report.
        section: "steps", "levels", "households", "homes", "shops", "searches", "dialogues", "branches", "credit" or
            "clusters".
        what: what was measured, in words.
        ours: whether it is this project's code (otherwise a peer or a limit).
        value: as measured, in `unit`.
        unit: "steps/s", "levels/s", "searches/s", "queries/s", "passages/s" (more is better), "ms", "s" or "MB" (less
            is better).
        loop_seconds: what ten million additions took meanwhile; None where no loop ran.
    """

    key: str
    section: str
    what: str
    ours: bool
    value: float
    unit: str
    loop_seconds: float | None = None

    @classmethod
    def of_speed(
        cls, key: str, section: str, what: str, ours: bool, speed: Speed, unit: str = "steps/s"
    ) -> Measurement:
        """Return the measurement of a speed, with its loop."""
        return cls(key, section, what, ours, speed.value, unit, speed.loop_seconds)

    @property
    def scaled(self) -> float | None:
        """A speed as it would be where ten million additions take `REFERENCE_SECONDS`; None where no loop ran."""
        return None if self.loop_seconds is None else Speed(self.value, self.loop_seconds).scaled


class Stopwatch:
    """Sums the processor seconds of some calls, and runs the loop between them: a piece for every 10 ms.

    Args:
        clock: returns seconds; the processor's by default.
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.seconds = 0.0
        self._clock = clock
        self._due = _EVERY
        self._pieces = 0
        self._loop = 0.0

    def time(self, work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function, add the seconds it took, and return its result."""
        begin = self._clock()
        result = work(*args, **options)
        spent = self._clock() - begin
        self.seconds += spent
        self._due += spent
        pieces = min(int(self._due / _EVERY), _MOST)
        if pieces:
            self._due = 0.0
            for _ in range(pieces):
                self._run_piece()
        return result

    def speed(self, units: float) -> Speed:
        """Return the speed at which the calls did so many units.

        Raises:
            ValueError: when nothing was timed.
        """
        if not self.seconds:
            raise ValueError("Stopwatch.speed: nothing was timed; call time() first")
        return Speed(units / self.seconds, self._loop * _TEN_MILLION / (self._pieces * _PIECE))

    def _run_piece(self) -> None:
        begin = self._clock()
        exec(_LOOP, {})
        self._loop += self._clock() - begin
        self._pieces += 1


def median(speeds: Sequence[Speed]) -> Speed:
    """Return the speed in the middle of some, by their scaled values; the slower one of two."""
    return sorted(speeds, key=lambda speed: speed.scaled)[(len(speeds) - 1) // 2]


def best_rate(
    work: Callable[[int], int],
    *,
    start: int,
    seconds: float,
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> Speed:
    """Best speed of several repetitions.

    Args:
        work: does about n units and returns how many.
        start: first n; it is raised until one call takes `seconds` / 2.
        seconds: processor seconds of one repetition, roughly.
        repeats: repetitions, the best one (scaled) counts.
        clock: returns seconds.
    """
    count, speeds = start, list[Speed]()
    while len(speeds) < repeats:
        watch = Stopwatch(clock)
        done = watch.time(work, count)
        if not speeds and watch.seconds < seconds / 2:
            count = int(count * max(2.0, min(10.0, seconds / max(watch.seconds, 1e-6))))
        else:
            speeds.append(watch.speed(done))
    return max(speeds, key=lambda speed: speed.scaled)


def best_milliseconds(work: Callable[[], Any], repeats: int) -> float:
    """Fewest processor milliseconds of one call, after one call to warm up."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times) * 1e3
