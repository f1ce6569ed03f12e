"""Model answers on disk, by the key of their request."""

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym.outside.text import DataError, read_json

#: Seconds to wait while another process writes.
_PATIENCE = 60.0
#: Keys per query; SQLite's oldest limit is 999.
_MOST_KEYS = 500


class AnswerCache:
    """JSON values by text keys in the SQLite file `answers.sqlite3` of a folder, shared by any number of processes."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder).expanduser().absolute() / "answers.sqlite3"
        self._lock = threading.Lock()
        self._base: sqlite3.Connection | None = None
        self._process = 0

    def load(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values of the keys that are present; DataError if the file is foreign or damaged."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Any] = {}
        with self._reading():
            for start in range(0, len(wanted), _MOST_KEYS):
                part = wanted[start : start + _MOST_KEYS]
                marks = ",".join("?" * len(part))
                rows = self._run(f"SELECT key, value FROM answers WHERE key IN ({marks})", part)
                found.update((key, read_json(value)) for key, value in rows)
        return found

    def store(self, values: Mapping[str, Any]) -> None:
        """Store values in one transaction; an existing key keeps its value, so that all processes agree."""
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        if rows:
            with self._lock, self._open() as base:
                base.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", rows)

    def values(self) -> list[Any]:
        """Return all values in the order of their keys; errors are those of `load`."""
        with self._reading():
            return [read_json(value) for (value,) in self._run("SELECT value FROM answers ORDER BY key", ())]

    def __len__(self) -> int:
        with self._lock:
            return int(self._run("SELECT COUNT(*) FROM answers", ())[0][0])

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.path.parent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except (sqlite3.DatabaseError, DataError, TypeError) as error:
            raise DataError(f"{self.path} is damaged ({error}): remove it") from error

    def _run(self, query: str, values: Iterable[Any]) -> list[tuple[Any, ...]]:
        return self._open().execute(query, tuple(values)).fetchall()

    def _open(self) -> sqlite3.Connection:
        """Return this process's connection, because SQLite's must not be used after a fork."""
        if self._base is None or self._process != os.getpid():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                base = sqlite3.connect(self.path, timeout=_PATIENCE, check_same_thread=False)
            except sqlite3.OperationalError as error:  # not writable or readable, but perhaps undamaged
                raise OSError(f"{self.path}: {error}; name a folder that can be written to") from error
            try:
                with base:
                    base.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
                    base.execute("SELECT key, value FROM answers LIMIT 1")
            except sqlite3.DatabaseError as error:
                base.close()
                raise DataError(f"{self.path} cannot be used as a cache of answers ({error}): remove it") from error
            self._base, self._process = base, os.getpid()
        return self._base
