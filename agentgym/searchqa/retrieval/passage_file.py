"""Millions of passages in one file, memory-mapped: a position is a slice of it, nothing is held in memory."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, overload

import numpy as np

from agentgym.outside.text import DataError
from agentgym.searchqa.retriever import Passage

_ROWS, _ENDS = PASSAGE_FILES = "passages.jsonl", "passages.ends"
_INT = np.dtype("<i8")


class PassageFile(Sequence[Passage]):
    """The passages in a folder that `PassageWriter` wrote, by position.

    Args:
        folder: holds `passages.jsonl` (a row per passage) and `passages.ends` (where each row ends, in bytes: one
            64-bit little-endian integer each).

    Raises:
        OSError: when a file is missing.
        DataError: when the two files do not belong together.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with open(folder / _ENDS, "rb") as ends, open(folder / _ROWS, "rb") as rows:
            size = os.fstat(ends.fileno()).st_size
            if size == 0 or size % _INT.itemsize:
                raise DataError(f"{folder / _ENDS} is damaged: {size} bytes")
            self._ends = np.frombuffer(mmap.mmap(ends.fileno(), 0, access=mmap.ACCESS_READ), _INT)
            expected, found = int(self._ends[-1]), os.fstat(rows.fileno()).st_size
            if found != expected:
                raise DataError(f"{folder / _ROWS} is damaged: {found} bytes, expected {expected}")
            self._rows = mmap.mmap(rows.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, position: int) -> Passage: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Passage]: ...
    def __getitem__(self, position: int | slice) -> Passage | Sequence[Passage]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        if not -len(self) <= position < len(self):
            raise IndexError(f"passage {position} of {len(self)}")
        position %= len(self)
        start = int(self._ends[position - 1]) if position else 0
        try:
            named, contents = json.loads(self._rows[start : int(self._ends[position])])
            if not (isinstance(named, str) and isinstance(contents, str)):
                raise TypeError(f"{type(named).__name__} and {type(contents).__name__}")
            return Passage(named, contents)
        except (ValueError, TypeError, RecursionError) as error:
            raise DataError(f"{self.folder} is damaged: passage {position} is no row of two texts ({error})") from None

    def __iter__(self) -> Iterator[Passage]:
        return (self[position] for position in range(len(self)))


class PassageWriter:
    """Appends passages to the files in a folder; writing can go on where an earlier writer stopped.

    Args:
        folder: where to write.
        keep: how many passages of an earlier writer stay; what it wrote after them is cut off.
    """

    def __init__(self, folder: Path, keep: int = 0) -> None:
        self._ends = _open(folder / _ENDS)
        self._rows = _open(folder / _ROWS)
        self._ends.truncate(keep * _INT.itemsize)
        self._end = 0
        if keep:
            self._ends.seek((keep - 1) * _INT.itemsize)
            self._end = int.from_bytes(self._ends.read(_INT.itemsize), "little")
        self._rows.truncate(self._end)
        for stream in (self._ends, self._rows):
            stream.seek(0, os.SEEK_END)

    def append(self, passage: Passage) -> None:
        """Write a passage at the end."""
        row = json.dumps(passage, ensure_ascii=False).encode() + b"\n"
        self._rows.write(row)
        self._end += len(row)
        self._ends.write(self._end.to_bytes(_INT.itemsize, "little"))

    def flush(self) -> None:
        """Bring everything onto the disk."""
        for stream in (self._rows, self._ends):
            stream.flush()
            os.fsync(stream.fileno())

    def close(self) -> None:
        """Flush and close the files."""
        self.flush()
        self._rows.close()
        self._ends.close()


def _open(path: Path) -> IO[bytes]:
    return open(path, "r+b" if path.exists() else "w+b")
