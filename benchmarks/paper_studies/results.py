"""What a study found: one JSON file, from which its tables, its picture and its page are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks import json_files
from benchmarks.head_to_head.results import Study as Trainings
from benchmarks.head_to_head.results import check
from benchmarks.json_files import ResultsError
from benchmarks.truth.papers import AgainstFound

VERSION = 1


@dataclass(frozen=True)
class Found:
    """The whole file.

    Attributes:
        version: of the format.
        study: its name.
        against: the part without training; None: not run.
        trained: the part with training, per environment; without settings that belong to other studies.
    """

    version: int
    study: str
    against: AgainstFound | None
    trained: list[Trainings]


def save(found: Found, path: Path) -> None:
    """Write; the file appears whole or not at all."""
    json_files.write_json(found, path)


def load(path: Path) -> Found:
    """Read and check.

    Raises:
        ResultsError: no such file, not JSON, or not what `save` writes; names the file.
    """
    found = json_files.load(Found, path)
    if found.version != VERSION:
        raise ResultsError(f"{path}: this code reads version {VERSION}, got {found.version}; run the study again")
    for trained in found.trained:
        try:
            check(trained)
        except ResultsError as error:
            raise ResultsError(f"{path}: {error}") from None
    return found
