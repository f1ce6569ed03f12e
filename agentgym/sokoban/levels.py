"""Level files by path: Boxoban and XSB collections, many levels per file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from agentgym.core import suggest
from agentgym.foreign_text import ForeignError, clean, read_text
from agentgym.sokoban.rules import Level, LevelError
from agentgym.sokoban.splits import BUCKETS, check_split, split_of
from agentgym.sokoban.text import MOST_SIDE, parse_level

SUFFIXES = (".txt", ".xsb", ".txt.xz", ".xsb.xz")
_FETCH = "levels are not downloaded: fetch a collection first, for example github.com/google-deepmind/boxoban-levels"


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a level stands: its file, the line of its first row (from 1), its rows."""

    task_id: str
    file: Path
    line: int
    rows: tuple[str, ...]


class LevelFiles:
    """The levels of a file, or of all level files in a folder (and its subfolders) in sorted order.

    A level is a run of lines whose first symbol is a wall; titles, comments (";") and empty lines separate levels.
    Levels are named "<file name>#<number in the file, from 0>". They are parsed when they are asked for, so that a
    collection of a million levels opens at once; the splits other than "all" need every level, to hash it.

    Args:
        path: a .txt or .xsb file, plain or .xz, or a folder.

    Raises:
        LevelError: when the path does not exist, cannot be read or holds no level; later, when a level is malformed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._entries: list[_Entry] = []
        names: set[str] = set()
        for file in self._files():
            name = clean(file.relative_to(self.path).as_posix() if self.path.is_dir() else file.name)
            if name in names:
                raise LevelError(f"{self.path}: two files are named {name!r}, one of them not in UTF-8: rename one")
            names.add(name)
            self._entries.extend(_read(file, name))
        if not self._entries:
            raise LevelError(f"{self.path}: found no Sokoban level; expected rows such as '#@$.#'; {_FETCH}")
        self._by_id = {entry.task_id: i for i, entry in enumerate(self._entries)}
        self._parsed: dict[int, Level] = {}

    def __len__(self) -> int:
        """Number of levels."""
        return len(self._entries)

    def __getitem__(self, number: int) -> Level:
        """Return a level by its number over all files.

        Raises:
            LevelError: when the level is malformed; names file, line and what is wrong.
        """
        level = self._parsed.get(number)
        if level is None:
            entry = self._entries[number]
            try:
                level = parse_level("\n".join(entry.rows))
            except LevelError as error:
                raise LevelError(f"{entry.file}, level starting at line {entry.line}: {error}") from error
            self._parsed[number] = level
        return level

    @cached_property
    def size(self) -> tuple[int, int]:
        """Rows and columns that hold every board of the collection that can be played."""
        sides = [(len(entry.rows), max(map(len, entry.rows))) for entry in self._entries]
        sides = [pair for pair in sides if max(pair) <= MOST_SIDE]
        return max((height for height, _ in sides), default=1), max((width for _, width in sides), default=1)

    def split(self, name: str) -> Sequence[int]:
        """Numbers of the levels in "train", "validation", "test" or "all".

        Raises:
            ValueError: on another name.
            LevelError: when a level is malformed (not for "all").
        """
        check_split(name, also=("all",))
        return range(len(self)) if name == "all" else self._hashed[name]

    @cached_property
    def _hashed(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {name: [] for name in BUCKETS}
        for i in range(len(self)):
            numbers[split_of(self[i])].append(i)
        return numbers

    def task_id(self, number: int) -> str:
        """Return the name of a level."""
        return self._entries[number].task_id

    def find(self, task_id: str) -> int:
        """Return the number of a level by its name.

        Raises:
            ValueError: when there is none of this name.
        """
        if task_id not in self._by_id:
            examples = f"'{self.task_id(0)}' to '{self.task_id(len(self) - 1)}'"
            raise ValueError(f"unknown task_id {task_id!r} in {self.path}; expected one of {len(self)}: {examples}")
        return self._by_id[task_id]

    def _files(self) -> list[Path]:
        if not self.path.exists():
            raise LevelError(f"{self.path}: no such file or folder; {_FETCH}")
        if self.path.is_dir():
            files = sorted(file for file in self.path.rglob("*") if file.name.endswith(SUFFIXES) and file.is_file())
            if not files:
                raise LevelError(f"{self.path}: the folder holds no file ending in {', '.join(SUFFIXES)}; {_FETCH}")
            return files
        if not self.path.name.endswith(SUFFIXES):
            raise LevelError(f"{self.path}: unknown kind of file; {suggest(''.join(self.path.suffixes), SUFFIXES)}")
        return [self.path]


def open_levels(path: str | Path) -> LevelFiles:
    """Return the levels at a path; many environments of one process share them until a file changes."""
    path = Path(path)
    files = [path] if not path.is_dir() else sorted(path.rglob("*"))
    stamp = tuple((str(file), file.stat().st_mtime_ns) for file in files if file.is_file())
    return _opened(str(path), stamp)


@lru_cache(maxsize=8)
def _opened(path: str, stamp: tuple[tuple[str, int], ...]) -> LevelFiles:
    return LevelFiles(path)


def _read(file: Path, name: str) -> list[_Entry]:
    try:
        text = read_text(file)
    except ForeignError as error:
        raise LevelError(str(error)) from error
    except OSError as error:
        raise LevelError(f"{file}: cannot be read ({error.strerror})") from error
    entries: list[_Entry] = []
    rows: list[str] = []
    # not `splitlines`: it breaks lines where no editor does, and the numbers of lines are told
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate([*lines, ""], start=1):
        if line.lstrip(" -_\t").startswith("#"):
            rows.append(line.rstrip())
        elif rows:
            entries.append(_Entry(f"{name}#{len(entries)}", file, number - len(rows), tuple(rows)))
            rows = []
    return entries
