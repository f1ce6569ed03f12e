import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentgym.outside.text import clean_json
from agentgym.webshop.official import json_stream
from agentgym.webshop.official.json_stream import entries
from tests.refusals import refuses

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(data=[0.0], chunk=1, indented=False)
@example(data=[1e-7, -1.5e300], chunk=1, indented=False)
@given(
    data=st.lists(VALUES, max_size=5) | st.dictionaries(st.text(), VALUES, max_size=5),
    chunk=st.integers(1, 9),
    indented=st.booleans(),
)
def test_entries_are_those_of_the_whole_file(
    data: Any, chunk: int, indented: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the length of the pieces that are read: here down to one character."""
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    path = tmp_path / "data.json"
    path.write_text(json.dumps(data, indent=2 if indented else None, ensure_ascii=False), encoding="utf-8", newline="")
    listed = enumerate(data) if isinstance(data, list) else data.items()
    expected = [tuple(clean_json(list(pair))) for pair in listed]
    assert list(entries(path)) == expected


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file ends before '\\[' or '{'"),
        ("7", "expected '\\[' or '{', found '7'"),
        ("[1, 2", "the file ends before ',' or ']'"),
        ("[1 2]", "expected ',' or ']', found '2' at character 3"),
        ('[{"a": }]', "in the entry that begins at character 1"),
        ('{"a" 1}', "expected ':', found '1'"),
        ("{1: 2}", 'expected a name in "quotes"'),
        ("[1,]", "in the entry that begins at character 3"),
        ("[1] [2]", "text after the outermost value"),
    ],
)
def test_damaged_files_are_explained(
    content: str, message: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    path = tmp_path / "data.json"
    path.write_text(content)
    refuses(ValueError, message, list, entries(path))


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(b'["a", "\xff"]')
    refuses(ValueError, "not UTF-8", list, entries(path))


def test_a_damaged_entry_does_not_read_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_CHUNK", 10)
    monkeypatch.setattr(json_stream, "_LONGEST_ENTRY", 100)
    path = tmp_path / "data.json"
    path.write_text('["' + "a" * 10_000)
    read = []
    real = json_stream._Text._more
    monkeypatch.setattr(json_stream._Text, "_more", lambda text: read.append(len(text._buffer)) or real(text))
    refuses(ValueError, "character 1", list, entries(path))
    assert max(read) < 400
