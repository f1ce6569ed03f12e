from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.run import app
from benchmarks.speed import lanes, rollouts, updates
from benchmarks.speed.lanes import BANDWIDTH, Decoding, measure_decoding, play

pytest.importorskip("aiohttp")


def test_the_clock_is_the_bytes_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # Replies of 2 and 3 tokens after prompts of 10: steps read 100 + 10 + 10, 100 + 11 + 11 and, alone, 100 + 12 bytes.
    policy = Decoding(100.0, 1.0)
    monkeypatch.setattr(lanes, "PROMPT", 10)
    for name, length in enumerate((2, 3)):
        monkeypatch.setattr(lanes, "REPLY", (float(length), 0.0, 512))
        policy.put([name], ["x"], {}, [np.random.default_rng(0)])
    assert [name for name, _ in policy.get()] == [0]
    assert [name for name, _ in policy.get()] == [1]
    assert policy.seconds * BANDWIDTH == pytest.approx(120 + 122 + 112)


def test_lanes_decode_faster_than_lock_step_and_equal_replies_gain_nothing_by_their_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = [measure_decoding("7B", 32, places, 1) for places in (32, 8, 1)]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] / seconds[-1] > 1.5
    monkeypatch.setattr(lanes, "REPLY", (50.0, 0.0, 512))
    monkeypatch.setattr(lanes, "TURNS", (4, 4))
    # Nobody waits: every step of lock-step ends at once.
    one, many = (Decoding(1.0, 1.0) for _ in range(2))
    play(one, 8, 8, 0)
    play(many, 8, 1, 0)
    assert one.seconds == pytest.approx(many.seconds)


def test_the_command_writes_its_figures(tmp_path: Path) -> None:
    options = ["--episodes", "8", "--delay", "0.001", "--repeats", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["lanes", *options])
    assert result.exit_code == 0, result.output
    found = lanes.STUDY.load(tmp_path / "lanes.json").measurements
    seconds = {(each.what, each.column): each.value for each in found if each.unit == "s"}
    rows = ("decoding, 1.5B", "decoding, 7B", "endpoint, 1 ms")
    assert list(seconds) == [
        (row, column) for row in rows for column in ("lock-step, 8", "lanes of 4", "lanes of 2", "lanes of 1")
    ]
    ratio = next(each for each in found if each.key == "7B_1_ratio")
    assert ratio.value == pytest.approx(seconds[rows[1], "lock-step, 8"] / seconds[rows[1], "lanes of 1"])


def test_rollouts_that_keep_keys_read_less(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["speed", "rollouts", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    found = {each.key: each.value for each in rollouts.STUDY.load(tmp_path / "rollouts.json").measurements}
    assert found["kept_of_all_prompts"] == found["whole_of_all_prompts"]
    assert found["kept_read"] + found["kept_written"] <= found["kept_distinct"] < found["whole_read"]
    assert found["generate_seconds"] > 0


def test_updates_of_the_same_rows_are_timed_and_what_is_not_installed_is_said(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["speed", "updates", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    found = updates.STUDY.load(tmp_path / "updates.json")
    ways = dict.fromkeys(each.key.rpartition("_")[0].split("_")[0] for each in found.measurements)
    assert list(ways) == list(updates.PARTS)
    assert all(each.value is not None and each.value > 0 for each in found.measurements)
    assert bool(found.skipped) != bool(find_spec("trl"))
    result = CliRunner().invoke(app, ["speed", "updates", "--parts", "nothing", "--out", str(tmp_path / "b")])
    assert result.exit_code == 2
