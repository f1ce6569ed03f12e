"""Passages read from corpus files: JSON lines with `id` and `contents`, plain or compressed, one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentgym.outside.text import DataError, Unpacked, clean, read_json
from agentgym.searchqa.retriever import MOST_CONTENTS, MOST_ID, Passage

_FORMATS = ".jsonl, .jsonl.xz, .jsonl.gz or .jsonl.bz2"
#: Field, its types, their name, its longest text in characters.
_FIELDS: tuple[tuple[str, tuple[type, ...], str, int], ...] = (
    ("id", (str, int), "a string or an integer", MOST_ID),
    ("contents", (str,), "a string", MOST_CONTENTS),
)


class PassageReader:
    """The passages of a corpus file, in its order, read as they are asked for.

    A row is an object with `id` (a string or an integer) and `contents` (the title in the first line, the text in
    the others), as in Search-R1's corpus files; other fields are ignored, and so are blank lines. Texts are `clean`.

    Args:
        path: a file of JSON lines; `.xz`, `.gz` and `.bz2` are unpacked on the way.
        start: number of passages at the beginning that are passed over unread.

    Attributes:
        fraction: share of the file (of its bytes on disk) that has been read, 0 to 1.
        line: number of the line that has been read last, from 1.

    Raises:
        DataError: while iterating, on a file that cannot be read and on a row that is no passage; the message
            names the file, the line and the field.
    """

    def __init__(self, path: str | os.PathLike[str], start: int = 0) -> None:
        self.path = Path(path).expanduser()
        self._start = start
        self.fraction = 0.0
        self.line = 0

    def __iter__(self) -> Iterator[Passage]:
        return map(self._passage, self._rows())

    def _rows(self) -> Iterator[bytes]:
        self.line = seen = 0
        try:
            with Unpacked(self.path) as stream:
                for self.line, line in enumerate(stream, 1):
                    if line.isspace():
                        continue
                    seen += 1
                    if seen > self._start:
                        self.fraction = stream.fraction
                        yield line
        except (OSError, DataError) as error:
            after = f" after line {self.line}" if self.line else ""
            raise DataError(
                f"corpus {self.path} cannot be read{after} ({error}); expected a file of JSON lines ({_FORMATS}) with "
                "the fields 'id' and 'contents'"
            ) from error

    def lines(self, positions: Sequence[int]) -> list[int]:
        """Return the lines on which some passages stand, by their positions from 0."""
        with Unpacked(self.path) as stream:
            filled = [number for number, line in enumerate(stream, 1) if not line.isspace()]
        return [filled[position] for position in positions]

    def _passage(self, line: bytes) -> Passage:
        where = f"corpus {self.path}, line {self.line}"
        try:
            row: Any = read_json(line)
        except DataError as error:
            raise DataError(f"{where}: {error}; expected an object with 'id' and 'contents'") from error
        if not isinstance(row, dict):
            raise DataError(f"{where}: expected an object with 'id' and 'contents', got {type(row).__name__}")
        for field, kinds, words, most in _FIELDS:
            if field not in row:
                raise DataError(f"{where}: no field {field!r}; the row has {sorted(row)!r:.300}")
            value = row[field]
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise DataError(f"{where}: field {field!r} must be {words}, got {value!r:.100}")
            if not str(value).strip():
                raise DataError(f"{where}: field {field!r} is blank")
            if len(str(value)) > most:
                raise DataError(
                    f"{where}: field {field!r} has {len(str(value)):,} characters, at most {most:,} are read"
                )
        return Passage(str(row["id"]), row["contents"])


def read_passages(path: str | os.PathLike[str]) -> tuple[Passage, ...]:
    """Return all passages of a corpus file that fits into memory.

    Raises:
        DataError: as `PassageReader`, on a file without passages, and when two passages have the same id.
    """
    lines: dict[str, int] = {}
    passages = []
    reader = PassageReader(path)
    for passage in reader:
        first = lines.setdefault(passage.id, reader.line)
        if first != reader.line:
            raise same_id(f"{path}: lines {first} and {reader.line}", passage.id)
        passages.append(passage)
    check_some(len(passages), str(path))
    return tuple(passages)


def check_passages(passages: Sequence[Any]) -> tuple[Passage, ...]:
    """Return passages that were given as objects, `clean`.

    Raises:
        DataError: unless there are passages with texts and with unique ids.
    """
    check_some(len(passages), "of passages given")
    positions: dict[str, int] = {}
    checked = []
    for position, each in enumerate(passages):
        if not (isinstance(each, Passage) and isinstance(each.id, str) and isinstance(each.contents, str)):
            raise DataError(f"passage {position} (from 0) must be a Passage of two texts, got {each!r:.100}")
        passage = Passage(clean(each.id, MOST_ID), clean(each.contents, MOST_CONTENTS))
        first = positions.setdefault(passage.id, position)
        if first != position:
            raise same_id(f"of passages given: passages {first} and {position} (from 0)", passage.id)
        checked.append(passage)
    return tuple(checked)


def check_some(count: int, name: str) -> None:
    """Raise a DataError when there are no passages."""
    if not count:
        raise DataError(f"corpus {name} holds no passages; expected rows with 'id' and 'contents'")


def same_id(where: str, named: str) -> DataError:
    """Return the error of two passages with one id."""
    return DataError(f"corpus {where} have the same id {named!r}; ids must be unique")


def corpus_state(corpus: Path) -> dict[str, Any]:
    """Return what identifies a file and its state: its name, its size in bytes, when it was last written.

    Raises:
        DataError: when there is no such file.
    """
    try:
        status = corpus.stat()
    except OSError as error:
        raise DataError(f"corpus {corpus} cannot be read ({error.strerror})") from error
    return {"name": corpus.name, "bytes": status.st_size, "written": status.st_mtime_ns}
