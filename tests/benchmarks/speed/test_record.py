"""Figures, their ratios and their tables."""

import pytest

from benchmarks.machine import describe_machine
from benchmarks.report.page import markdown
from benchmarks.speed import throughput
from benchmarks.speed.record import Comparison, Measurement, SpeedConfig, Speeds, ratios
from benchmarks.speed.throughput import STUDY
from benchmarks.speed.timing import Speed


def measured(key: str, value: float, unit: str = "steps/s") -> Measurement:
    return Measurement(key, key.split("_")[0], key, True, value, unit)


def test_ratios_and_pages() -> None:
    speed = Speed(1000.0, 0.45)
    assert Measurement.of("k", "steps", "words", speed).scaled == pytest.approx(500)
    assert measured("memory", 5.0, "MB").scaled is None
    found = [
        measured("steps_vector_128", 200.0), measured("steps_stock_128", 50.0),
        measured("telecom_reset_1", 0.5, "ms"), measured("telecom_package_reset", 5.0, "ms"),
        measured("telecom_calls", 30.0),
    ]  # fmt: skip
    assert {ratio.what: ratio.value for ratio in ratios(found, throughput.environments.COMPARISONS)} == {
        "make_vec, 128 envs, first visits / gymnasium SyncVectorEnv": 4.0, "a reset / tau2-bench's": 10.0,
    }  # fmt: skip
    # 1,234.5 steps/s where ten million additions take 1.8 s are 2,469 steps/s where they take 0.9 s.
    figures = [
        Measurement("k", "steps", "our steps", True, 1234.5, "steps/s", 1.8),
        Measurement("m", "steps", "our memory", True, 5.5, "MB"),
        Measurement("a", "sizes", "gigpo", True, 8.0, "ms", column="8 x 4 x 50"),
        Measurement("b", "sizes", "gigpo", True, 1625.0, "ms", column="16 x 8 x 50"),
        Measurement("c", "sizes", "grpo", True, 2.5, "µs", column="16 x 8 x 50"),
    ]
    found = Speeds(
        2, "2026-01-01 00:00 UTC", describe_machine(), SpeedConfig(["sokoban"], {"quick": True}), figures,
        ratios(figures, [Comparison("k", "k", "itself")]), ["left out"],
    )  # fmt: skip
    text = markdown(STUDY.shown(found))
    for words in (
        found.machine.cpu, found.machine.python, "| our steps | 1,230 steps/s | 1.80 s | 2,470 |",
        "| our memory | 5.5 MB |", "| gigpo | 8 ms | 1,620 ms |", "| grpo | - | 2.5 µs |", "itself: x 1", "left out",
    ):  # fmt: skip
        assert words in text
