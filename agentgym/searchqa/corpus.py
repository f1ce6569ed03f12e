"""Passages read from corpus files: JSON lines with `id` and `contents`, plain or compressed, one at a time."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from agentgym.searchqa.retriever import Passage

_FORMATS = ".jsonl, .jsonl.xz or .jsonl.gz"


class CorpusError(ValueError):
    """A corpus file that cannot be read, or a row of it that is no passage."""


class PassageReader:
    """The passages of a corpus file, in its order, read as they are asked for.

    A row is an object with `id` (a string or an integer) and `contents` (the title in the first line, the text in
    the others), as in Search-R1's corpus files; other fields are ignored, and so are blank lines.

    Args:
        path: a file of JSON lines; `.xz` and `.gz` are unpacked on the way.
        start: number of passages at the beginning that are passed over unread.

    Attributes:
        fraction: share of the file (of its bytes on disk) that has been read, 0 to 1.

    Raises:
        CorpusError: while iterating, on a file that cannot be read and on a row that is no passage; the message
            names the file, the line and the field.
    """

    def __init__(self, path: str | os.PathLike[str], start: int = 0) -> None:
        self.path = Path(path).expanduser()
        self._start = start
        self.fraction = 0.0

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages."""
        number = seen = 0
        try:
            with _open(self.path) as (raw, stream):
                size = max(os.fstat(raw.fileno()).st_size, 1)
                for number, line in enumerate(stream, 1):
                    if line.isspace():
                        continue
                    seen += 1
                    if seen > self._start:
                        self.fraction = raw.tell() / size
                        yield self._passage(line, number)
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            after = f" after line {number}" if number else ""
            raise CorpusError(
                f"corpus {self.path} cannot be read{after} ({error or 'it ends too early'}); expected a file of JSON "
                f"lines ({_FORMATS}) with the fields 'id' and 'contents'"
            ) from error

    def _passage(self, line: bytes, number: int) -> Passage:
        where = f"corpus {self.path}, line {number}"
        try:
            row: Any = json.loads(line)
        except ValueError as error:
            raise CorpusError(f"{where}: not JSON ({error}); expected an object with 'id' and 'contents'") from error
        if not isinstance(row, dict):
            raise CorpusError(f"{where}: expected an object with 'id' and 'contents', got {type(row).__name__}")
        for field, kinds, words in (("id", (str, int), "a string or an integer"), ("contents", (str,), "a string")):
            if field not in row:
                raise CorpusError(f"{where}: no field {field!r}; the row has {sorted(row)}")
            value = row[field]
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise CorpusError(f"{where}: field {field!r} must be {words}, got {value!r:.100}")
            if not str(value).strip():
                raise CorpusError(f"{where}: field {field!r} is blank")
            if isinstance(value, str) and not value.isascii():
                try:
                    value.encode()
                except UnicodeEncodeError as error:
                    raise CorpusError(f"{where}: field {field!r} is not valid Unicode ({error.reason})") from error
        return Passage(str(row["id"]), row["contents"])


def read_passages(path: str | os.PathLike[str]) -> tuple[Passage, ...]:
    """Return all passages of a corpus file that fits into memory.

    Raises:
        CorpusError: as `PassageReader`, on a file without passages, and when two passages have the same id.
    """
    passages = tuple(PassageReader(path))
    check_passages(passages, str(path))
    return passages


def check_passages(passages: tuple[Passage, ...], name: str) -> None:
    """Raise a CorpusError unless there are passages and their ids are unique."""
    if not passages:
        raise CorpusError(f"corpus {name} holds no passages; expected rows with 'id' and 'contents'")
    positions: dict[str, int] = {}
    for position, passage in enumerate(passages):
        first = positions.setdefault(passage.id, position)
        if first != position:
            raise CorpusError(
                f"corpus {name}: passages {first} and {position} (from 0) have the same id {passage.id!r}; "
                "ids must be unique"
            )


def corpus_state(corpus: Path) -> dict[str, Any]:
    """Return what identifies a file and its state: its name, its size in bytes, when it was last written.

    Raises:
        CorpusError: when there is no such file.
    """
    try:
        status = corpus.stat()
    except OSError as error:
        raise CorpusError(f"corpus {corpus} cannot be read ({error.strerror})") from error
    return {"name": corpus.name, "bytes": status.st_size, "written": status.st_mtime_ns}


@contextmanager
def _open(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file; give its bytes on disk and its unpacked bytes."""
    with open(path, "rb") as raw:
        if path.suffix == ".xz":
            with lzma.open(raw) as stream:
                yield raw, stream
        elif path.suffix == ".gz":
            with gzip.open(raw) as stream:
                yield raw, cast(IO[bytes], stream)
        else:
            yield raw, raw
