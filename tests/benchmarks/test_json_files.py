"""Files of results: what is read is checked, what is written can be read, and a folder is one process's at a time."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from agentgym.outside.files import LockedError
from benchmarks.json_files import ResultsError, claimed, load, read_json, write_json
from tests.cases import cases
from tests.refusals import refuses

GOOD = {"name": "grpo", "points": [{"step": 0, "value": 0.5}, {"step": 1, "value": None}]}


@dataclasses.dataclass(frozen=True)
class Point:
    step: int
    value: float | None


@dataclasses.dataclass(frozen=True)
class Curve:
    name: str
    points: list[Point]
    notes: dict[str, int] = dataclasses.field(default_factory=dict)


def written(path: Path, content: bytes | object) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def test_what_was_written_is_read_again(tmp_path) -> None:
    curve = Curve("grpo", [Point(0, 0.5), Point(1, None)])
    write_json(curve, tmp_path / "curve.json")
    assert load(Curve, tmp_path / "curve.json") == curve
    # What was added later has a default: older files lack it.
    assert load(Curve, written(tmp_path / "old.json", GOOD)) == curve


@cases(
    "content, expected",
    (b"{", r"Invalid JSON: EOF .* at line 1 column 1"),
    (b'{"name":\n"\xff"}', r"Invalid JSON: invalid unicode code point at line 2 column"),
    (b'{"name":\n"\\ud800"}', r"Invalid JSON: .* at line 2 column"),
    (b'{"points": ' + b"[" * 200_000, r"Invalid JSON: recursion limit exceeded at line 1 column"),
    (b'{"name": "a", "points": [{"step": ' + b"9" * 5000 + b"}]}", "number out of range at line 1 column"),
    (b'{"name": "a", "points": [{"step": 0, "value": 1e400}]}', r"points\[0\]\.value: .* finite number, got inf"),
    (b'{"name": "a", "points": [{"step": 0, "value": NaN}]}', r"points\[0\]\.value: .* finite number, got nan"),
    (b'{"name": "a", "points": [{"step": true, "value": 0}]}', r"points\[0\]\.step: .* integer, got True"),
    (b'{"name": "a", "points": [{"step": 1}]}', r"points\[0\]\.value: Field required"),
    (b'{"name": "a", "points": [], "nmae": 1}', r"nmae: Unexpected keyword argument"),
    (b'{"name": "a", "points": [], "notes": {"b": "\\u0007"}}', r"notes\.b: Input should be a valid integer"),
    (b'{"name": ' + b'"x"' + b', "points": "' + b"y" * 10_000 + b'"}', r"points: .* got 'y{76}\.\.\.; delete"),
    (b"", "Invalid JSON: EOF"),
    (b"[]", "Input should be an object"),
)
def test_a_damaged_file_is_named_with_the_place_of_the_damage(tmp_path, content, expected) -> None:
    path = written(tmp_path / "curve.json", content)
    refuses(ResultsError, rf"^{path}: .*{expected}", load, Curve, path)


@pytest.mark.parametrize("content", [b"{", b'"\xff"', b"[" * 200_000, b"NaN", b"1e400", b"9" * 5000])
def test_a_damaged_file_of_any_json_is_named(tmp_path, content) -> None:
    path = written(tmp_path / "any.json", content)
    refuses(ResultsError, f"^{path}: ", read_json, path)


def test_texts_are_cleaned_and_numbers_that_are_not_finite_leave_the_old_file(tmp_path) -> None:
    foul = "</script>\ud800\x00\x1b[31m"
    write_json({"found": [Curve(foul, [])], foul: foul}, tmp_path / "curve.json")
    shown = "</script>\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[31m"
    assert read_json(tmp_path / "curve.json") == {
        "found": [{"name": shown, "points": [], "notes": {}}], shown: shown,
    }  # fmt: skip
    write_json({"old": 1}, tmp_path / "curve.json")
    with pytest.raises(ResultsError, match=r"curve\.json: not written: Out of range float"):
        write_json(Curve("a", [Point(0, float("nan"))]), tmp_path / "curve.json")
    assert read_json(tmp_path / "curve.json") == {"old": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["curve.json"]


def test_a_second_benchmark_in_a_folder_is_told_who_is_there(tmp_path) -> None:
    words = f"{tmp_path} is in use by process {os.getpid()}"
    with claimed(tmp_path, {}), pytest.raises(LockedError, match=words), claimed(tmp_path, {}):
        pass
    with claimed(tmp_path, {}):
        pass
