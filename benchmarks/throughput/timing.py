"""Timing by processor seconds, best of several repetitions, and the record of one measurement."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
