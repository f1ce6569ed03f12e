"""Level collections: generated levels, Boxoban and XSB files, and levels given as text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.checks import suggest
from agentgym.outside.text import DataError, clean, read_text
from agentgym.sokoban.generated import GeneratedLevels
from agentgym.sokoban.text import BUCKETS, MOST_SIDE, Level, board_text, parse_level, split_of
from agentgym.tasks import choose, given

SUFFIXES = (".txt", ".xsb", ".txt.xz", ".xsb.xz")
_FETCH = "levels are not downloaded: fetch a collection first, for example github.com/google-deepmind/boxoban-levels"


@dataclass(frozen=True, slots=True)
class _Entry:
    task_id: str
    file: Path
    line: int
    rows: tuple[str, ...]


class LevelFiles:
    """The levels of a .txt or .xsb file (plain or .xz), or of all such files in a folder in sorted order.

    A level is a run of lines that start with a wall. Its name is "<file name>#<number in the file, from 0>". Levels are
    parsed on access; the splits other than "all" parse all of them. A `DataError` names the malformed part.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = f"the levels of {path}"
        self.splits = (*BUCKETS, "all")
        self._entries: list[_Entry] = []
        names: set[str] = set()
        for file in self._files():
            name = clean(file.relative_to(self.path).as_posix() if self.path.is_dir() else file.name)
            if name in names:
                raise DataError(f"{self.path}: two files are named {name!r}, one of them not in UTF-8: rename one")
            names.add(name)
            self._entries.extend(_read(file, name))
        if not self._entries:
            raise DataError(f"{self.path}: found no Sokoban level; expected rows such as '#@$.#'; {_FETCH}")
        self._by_id = {entry.task_id: i for i, entry in enumerate(self._entries)}
        self._parsed: dict[int, Level] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, number: int) -> Level:
        """Return a level by its number over all files; a `DataError` names file, line and error of a malformed one."""
        level = self._parsed.get(number)
        if level is None:
            entry = self._entries[number]
            try:
                level = parse_level("\n".join(entry.rows))
            except DataError as error:
                raise DataError(f"{entry.file}, level starting at line {entry.line}: {error}") from error
            self._parsed[number] = level
        return level

    @cached_property
    def first(self) -> str:
        """The default split: "train", or "all" if "train" has no level."""
        try:
            return "train" if any(split_of(self[i]) == "train" for i in range(len(self))) else "all"
        except DataError:  # raised when the level is played
            return "train"

    @cached_property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the smallest board that contains every level."""
        sides = [(len(entry.rows), max(map(len, entry.rows))) for entry in self._entries]
        sides = [pair for pair in sides if max(pair) <= MOST_SIDE]
        return max((height for height, _ in sides), default=1), max((width for _, width in sides), default=1)

    def numbers(self, split: str) -> Sequence[int]:
        """Return the numbers of the levels in "train", "validation", "test" (this parses all levels) or "all"."""
        return range(len(self)) if split == "all" else self._hashed[split]

    def count(self, split: str) -> int:
        return len(self.numbers(split))

    def by_index(self, split: str, index: int) -> tuple[str, Level]:
        number = self.numbers(split)[index]
        return self._entries[number].task_id, self[number]

    def by_id(self, task_id: str, split: str | None) -> tuple[str, Level]:
        number = self._by_id.get(task_id)
        if number is None:
            examples = f"'{self._entries[0].task_id}' to '{self._entries[-1].task_id}'"
            raise ValueError(
                f"unknown task_id {task_id!r:.200} in {self.path}; expected one of {len(self)}: {examples}"
            )
        level = self[number]
        if split not in (None, "all", split_of(level)):
            raise ValueError(f"the level {task_id!r:.200} belongs to split {split_of(level)!r}, not to {split!r}")
        return task_id, level

    def ids(self, split: str) -> Iterator[str]:
        return (self._entries[number].task_id for number in self.numbers(split))

    @cached_property
    def _hashed(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {name: [] for name in BUCKETS}
        for i in range(len(self)):
            numbers[split_of(self[i])].append(i)
        return numbers

    def _files(self) -> list[Path]:
        if not self.path.exists():
            raise DataError(f"{self.path}: no such file or folder; {_FETCH}")
        if self.path.is_dir():
            files = sorted(file for file in self.path.rglob("*") if file.name.endswith(SUFFIXES) and file.is_file())
            if not files:
                raise DataError(f"{self.path}: the folder contains no file ending in {', '.join(SUFFIXES)}; {_FETCH}")
            return files
        if not self.path.name.endswith(SUFFIXES):
            raise DataError(f"{self.path}: unknown kind of file; {suggest(''.join(self.path.suffixes), SUFFIXES)}")
        return [self.path]


def open_levels(path: str | Path) -> LevelFiles:
    """Return the levels at a path, shared by the environments of a process until a file changes."""
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
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from error
    entries: list[_Entry] = []
    rows: list[str] = []
    # not `splitlines`: it breaks lines where editors do not, and error messages name lines
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate([*lines, ""], start=1):
        if line.lstrip(" -_\t").startswith("#"):
            rows.append(line.rstrip())
        elif rows:
            entries.append(_Entry(f"{name}#{len(entries)}", file, number - len(rows), tuple(rows)))
            rows = []
    return entries


_TEXT_PREFIX = "level:"


#: A collection of (task_id, level).
Levels = GeneratedLevels | LevelFiles


def find_levels(path: str | Path | None, generator: Mapping[str, Any]) -> Levels:
    """Return the levels of a file or folder, see `LevelFiles`, or generated ones without a path."""
    return GeneratedLevels(**generator) if path is None else open_levels(path)


def choose_level(levels: Levels, split: str, options: Mapping[str, Any], rng: np.random.Generator) -> tuple[str, Level]:
    """Return (task_id, level) for the options of a reset: `level` (text) alone, or those of `agentgym.tasks.choose`."""
    options = given(options)
    task_id = options.get("task_id")
    written = isinstance(task_id, str) and task_id.startswith(_TEXT_PREFIX)
    if "level" not in options and not written:
        return choose(levels, split, options, rng)
    if len(options) > 1:
        raise ValueError(
            f"reset options {sorted(options)} name the level in more than one way: give either 'level', or 'task_id', "
            "or 'split' and 'index'"
        )
    text = options["level"] if task_id is None else task_id.removeprefix(_TEXT_PREFIX).replace("/", "\n")
    if not isinstance(text, str):
        raise ValueError(f"option 'level' must be a level as text, got {type(text).__name__}")
    level = parse_level(text)
    return level_id(level), level


def level_id(level: Level) -> str:
    """Return the task_id that contains the whole level."""
    return _TEXT_PREFIX + board_text(level).replace("\n", "/")
