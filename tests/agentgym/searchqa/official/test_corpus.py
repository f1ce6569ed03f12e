import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.outside.text import DataError
from agentgym.searchqa.official.corpus import PassageReader, check_passages, read_passages
from agentgym.searchqa.retriever import Passage
from tests.agentgym.searchqa.corpus_files import find

ROWS = b"""{"id": "a", "contents": "\\"Caf\\u00e9\\"\\nCoffee."}

{"id": 7, "contents": "No text", "source": "x"}
"""
PASSAGES = (Passage("a", '"Café"\nCoffee.'), Passage("7", "No text"))


@pytest.mark.parametrize(("name", "pack"), [("c.jsonl", bytes), ("c.jsonl.xz", lzma.compress), ("c.gz", gzip.compress)])
def test_rows_of_all_formats_are_read_in_order(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(pack(ROWS))
    assert read_passages(path) == PASSAGES
    assert (PASSAGES[0].title, PASSAGES[0].text, PASSAGES[1].title, PASSAGES[1].text) == (
        '"Café"', "Coffee.", "No text", "",
    )  # fmt: skip
    reader = PassageReader(path, start=1)
    assert tuple(reader) == PASSAGES[1:]
    assert reader.fraction == 1.0


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (b"{", "line 3: not JSON"),
        (b"\xff\xfe", "line 3: not UTF-8"),
        (b'{"id": 1e400, "contents": "x"}', "line 3: the number 1e400 is beyond"),
        (b'{"id": NaN, "contents": "x"}', "line 3: NaN is not a JSON number"),
        (b'{"id": ' + b"1" * 5000 + b', "contents": "x"}', "line 3: an integer of 5000 digits"),
        (b'{"id": 1.5, "contents": "x"}', "line 3: field 'id' must be a string or an integer, got 1.5"),
        (b"[" * 200_000, "line 3: nested too deeply"),
        (b'{"id": "%s", "contents": "x"}' % (b"i" * 1001), "line 3: field 'id' has 1,001 characters, at most 1,000"),
        (b'{"id": "b", "contents": "%s"}' % (b"x" * 1_000_001), "line 3: field 'contents' has 1,000,001 characters"),
        (b'["a", "b"]', "line 3: expected an object with 'id' and 'contents', got list"),
        (b'{"contents": "x"}', "line 3: no field 'id'; the row has \\['contents'\\]"),
        (b'{"id": "b"}', "line 3: no field 'contents'"),
        (b'{"id": true, "contents": "x"}', "line 3: field 'id' must be a string or an integer, got True"),
        (b'{"id": null, "contents": "x"}', "line 3: field 'id' must be a string or an integer, got None"),
        (b'{"id": "b", "contents": ["x"]}', "line 3: field 'contents' must be a string"),
        (b'{"id": "b", "contents": " \\n"}', "line 3: field 'contents' is blank"),
    ],
)
def test_a_bad_row_is_named_by_line_and_field(tmp_path: Path, row: bytes, words: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": "a", "contents": "A"}\n\n' + row + b"\n")
    with pytest.raises(DataError, match=words):
        read_passages(path)


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_passages(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="Is a directory"):
        read_passages(tmp_path)
    for name, content in (
        ("short.xz", lzma.compress(ROWS * 99)[:-20]),
        ("short.gz", gzip.compress(ROWS * 99)[:-20]),
        ("none.xz", ROWS),
        ("none.gz", ROWS),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="cannot be read"):
            list(PassageReader(tmp_path / name))
    for name in ("empty.jsonl", "blank.jsonl"):
        (tmp_path / name).write_bytes(b"\n" * (name == "blank.jsonl"))
        with pytest.raises(DataError, match="holds no passages"):
            read_passages(tmp_path / name)


def test_an_id_belongs_to_one_passage(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "1", "contents": "A"}\n{"id": 1, "contents": "B"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="lines 1 and 2 have the same id '1'"):
        read_passages(path)


def test_the_recorded_corpus_is_read_whole() -> None:
    passages = read_passages(find("corpus.jsonl.xz"))
    assert len(passages) == 31_182
    assert passages[1].title == '"Triplemanía VII"'
    assert json.dumps(passages[1].contents)


def test_surrogates_and_control_characters_are_cleaned(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": "\\udfff", "contents": "T\\n\\ud800 \\u001b[2J \\u0000"}\n')
    assert read_passages(path) == (Passage("\ufffd", "T\n\ufffd \ufffd[2J \ufffd"),)
    with open(path, "ab") as stream:
        stream.write(b'\n{"id": "\\udffe", "contents": "B"}\n')  # the same id once it is clean
    with pytest.raises(DataError, match="lines 1 and 3 have the same id"):
        read_passages(path)
    assert check_passages([Passage("\ud800", "a\udfff")]) == (Passage("\ufffd", "a\ufffd"),)


@pytest.mark.parametrize("given", [[Passage("1", 2)], [Passage(None, "x")], ["text"], [("1", "x")]])  # type: ignore[arg-type]
def test_passages_given_are_texts(given: list[Any]) -> None:
    with pytest.raises(DataError, match="passage 0 \\(from 0\\) must be a Passage of two texts"):
        check_passages(given)


@pytest.mark.parametrize(("name", "pack"), [("c.xz", lzma.compress), ("c.gz", gzip.compress), ("c.bz2", bz2.compress)])
def test_what_a_small_file_unpacks_to_is_limited(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(pack(ROWS + b" " * 80_000_000))
    with pytest.raises(DataError, match="unpacks to more than"):
        read_passages(path)
    path.write_bytes(pack(ROWS * 1000)[:-9] + b"?" * 9)
    with pytest.raises(DataError, match=r"lines 1 and 4|cannot be read"):
        read_passages(path)
