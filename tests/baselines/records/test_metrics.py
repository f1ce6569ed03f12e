"""MetricsLog: rows on disk are the rows in memory, whatever happened before."""

import builtins
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentgym.outside.text import DataError
from baselines.records.metrics import MetricsLog, read_about, read_log, without_times
from tests.refusals import refuses


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


def test_the_first_row_says_what_is_played_and_a_resumed_run_keeps_it(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, tensorboard=False)
    log.about = {"data": "data=/games", "data_fingerprint": "0123456789abcdef"}
    log.resume(-1)
    log.append({"iteration": 0, "success": 0.5})
    log.append({"iteration": 1, "success": 1.0})
    other = MetricsLog(tmp_path)
    other.resume(1)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines == [
        {"iteration": 0, "success": 0.5, "data": "data=/games", "data_fingerprint": "0123456789abcdef"},
        {"iteration": 1, "success": 1.0},
    ]
    assert other.rows == read_log(tmp_path / "log.jsonl") == [
        {"iteration": 0, "success": 0.5}, {"iteration": 1, "success": 1.0}
    ]  # fmt: skip
    assert other.about == read_about(tmp_path / "log.jsonl") == log.about


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
    refuses(ValueError, r"log.jsonl, line 2: not a row", read_log, path)


def test_folders_are_optional_and_clocks_taken_out() -> None:
    log = MetricsLog(None)
    log.append({"iteration": 1})
    log.append({"iteration": 2})
    log.resume(1)
    assert log.rows == [{"iteration": 1}]
    row = {"iteration": 1, "seconds": 1.0, "seconds_update": 1.0, "share_update": 50.0, "tokens_per_second": 9.0}
    assert without_times({**row, "success": 0.5, "steps_per_row": 2.0}) == {
        "iteration": 1, "success": 0.5, "steps_per_row": 2.0
    }  # fmt: skip


def test_tensorboard_asks_for_folder_and_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses(ValueError, "need a folder", MetricsLog, None, tensorboard=True)
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("torch.utils.tensorboard"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    refuses(ImportError, r"pip install .*\[train\]., or tensorboard=False", MetricsLog, tmp_path, tensorboard=True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"iteration": 1, "kl": NaN}', "NaN is not a JSON number"),
        (b'{"iteration": 1, "kl": 1e400}', "too large for a float"),
        (b'{"iteration": 1, "kl": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"iteration": 1, "kl": "0.5"}', "'kl' must be a number or null, got str"),
        (b'{"iteration": 1, "kl": [0.5]}', "'kl' must be a number or null, got list"),
        (b'{"iteration": 1, "kl": true}', "'kl' must be a number or null, got bool"),
        (b'{"iteration": "1"}', "'iteration' must be a number or null, got str"),
        (b'{"iteration": null}', "'iteration' must be a whole number in 0.."),
        (b'{"iteration": 1.5}', "'iteration' must be a whole number in 0.."),
        (b'{"iteration": -1}', "'iteration' must be a whole number in 0.."),
        (b'{"iteration": 1e300}', "'iteration' must be a whole number in 0.."),
        (b'{"iteration": 1' + b"0" * 400 + b"}", "an integer of 401 digits"),
        (b'{"kl": 1}', "'iteration' must be a whole number in 0.."),
        (b"[1]", "expected an object of numbers, got list"),
        (b"5", "expected an object of numbers, got int"),
        (b"", "not JSON"),
        (b'{"iteration": 1, "a\xff": 1}', "not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"iteration": 1, "kl": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, "nested too deeply"),
        (b"\x00" * 50, "not JSON"),
    ],
)
def test_every_damage_is_named_with_file_and_line(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"iteration": 0}\n' + line + b'\n{"iteration": 2}\n')
    refuses(DataError, rf"log\.jsonl, line 2: not a row of a training log \(.*{re.escape(words)}", read_log, path)
    path.write_bytes(b'{"iteration": 0}\n' + line)  # cut short by a crash
    assert read_log(path) == [{"iteration": 0}]


def test_a_log_without_the_rows_before_its_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for text, first in (("", 0), ('{"iteration": 0}\n{"iteration": 2}\n', 1), ('{"iteration": 0}\n' * 4, 1)):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"its checkpoint of iteration 3: wrong or missing rows, .*is {first};"):
            MetricsLog(tmp_path).resume(3)
        assert path.read_text() == text
