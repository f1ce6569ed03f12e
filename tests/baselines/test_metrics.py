"""MetricsLog: rows on disk are the rows in memory, whatever happened before."""

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from baselines.metrics import MetricsLog, read_log, replace_file, without_times


def test_rows_survive_and_the_repeated_part_is_dropped(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.resume(-1)
    for iteration in range(4):
        log.append({"iteration": iteration, "success": iteration / 4})
    other = MetricsLog(tmp_path)
    other.resume(2)
    other.append({"iteration": 3, "success": 1.0})
    assert [row["success"] for row in read_log(tmp_path / "log.jsonl")] == [0.0, 0.25, 0.5, 1.0]
    assert other.rows == read_log(tmp_path / "log.jsonl")


def test_numbers_that_json_does_not_know_are_null(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.resume(-1)
    log.append({"iteration": 1, "kl": float("nan"), "loss": float("inf")})
    assert json.loads((tmp_path / "log.jsonl").read_text()) == {"iteration": 1, "kl": None, "loss": None}


def test_a_cut_last_line_is_left_out_and_a_wrong_line_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"iteration": 0}\n{"iterat')
    assert read_log(path) == [{"iteration": 0}]
    path.write_text('{"iteration": 0}\nhello\n{"iteration": 1}\n')
    with pytest.raises(ValueError, match=r"log.jsonl, line 2: not a row"):
        read_log(path)


def test_without_a_folder_rows_stay_in_memory() -> None:
    log = MetricsLog(None)
    log.append({"iteration": 1})
    log.append({"iteration": 2})
    log.resume(1)
    assert log.rows == [{"iteration": 1}]


def test_tensorboard_asks_for_folder_and_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="need a folder"):
        MetricsLog(None, tensorboard=True)
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("torch.utils.tensorboard"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match="pip install tensorboard, or tensorboard=False"):
        MetricsLog(tmp_path, tensorboard=True)


def test_replace_file_leaves_the_old_content_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old")

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"


def test_only_clock_readings_are_taken_out() -> None:
    row = {"iteration": 1, "seconds": 1.0, "seconds_update": 1.0, "share_update": 50.0, "tokens_per_second": 9.0}
    assert without_times({**row, "success": 0.5, "steps_per_row": 2.0}) == {
        "iteration": 1, "success": 0.5, "steps_per_row": 2.0
    }  # fmt: skip


def test_a_log_without_the_rows_before_its_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for text, first in (("", 0), ('{"iteration": 0}\n{"iteration": 2}\n', 1), ('{"iteration": 0}\n' * 4, 1)):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"its checkpoint of iteration 3: wrong or missing rows, .*is {first};"):
            MetricsLog(tmp_path).resume(3)
        assert path.read_text() == text
