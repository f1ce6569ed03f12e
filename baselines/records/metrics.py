"""The history of a run: one JSON line per iteration and, optionally, TensorBoard scalars."""

import json
import math
import os
from pathlib import Path
from typing import Any

from agentgym.outside.files import write_file
from agentgym.outside.packages import install
from agentgym.outside.text import DataError, read_json

Row = dict[str, float]

LOG_FILE = "log.jsonl"
#: Names of texts that the row of iteration 0 may hold beside its numbers: what the run plays.
ABOUT = ("data", "data_fingerprint")
_MOST_ITERATIONS = 10**9


class MetricsLog:
    """Rows of a run, in memory and, with a folder, in `<folder>/log.jsonl`.

    Every row has "iteration", the number of finished iterations. Numbers that are not finite become null.

    Args:
        folder: folder of the file; None: memory only.

    Raises:
        ImportError: `tensorboard=True`, and the package is not installed.
        ValueError: `tensorboard=True` without a folder.

    Attributes:
        about: texts under names in `ABOUT`, written into the row of iteration 0; set before the run, or read from the
        log.
    """

    def __init__(self, folder: Path | None, *, tensorboard: bool = False) -> None:
        self.rows: list[Row] = []
        self.about: dict[str, str] = {}
        self._path = None if folder is None else folder / LOG_FILE
        self._folder = folder
        self._writer: Any = None
        if tensorboard:
            if folder is None:
                raise ValueError("TensorBoard files need a folder: give the trainer one, or tensorboard=False")
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise ImportError(
                    f"TensorBoard logs need the package tensorboard: {install('train')}, or tensorboard=False"
                ) from error
            self._make_writer = SummaryWriter
        self._tensorboard = tensorboard

    def resume(self, iteration: int) -> None:
        """Keep the rows up to an iteration and drop the later ones, which will be played again.

        Raises:
            ValueError: the file holds a line that is not one of its rows, or lacks a row up to the iteration.
        """
        self.close()
        if self._path is not None:
            self.rows = read_log(self._path) if self._path.exists() else []
            self.about = self.about or (read_about(self._path) if self._path.exists() else {})
        self.rows = [row for row in self.rows if row["iteration"] <= iteration]
        if self._path is not None:
            there = [row["iteration"] for row in self.rows]
            if there != list(range(iteration + 1)):
                lost = sorted(set(range(iteration + 1)) - set(there)) or there
                raise ValueError(
                    f"{self._path} does not belong to its checkpoint of iteration {iteration}: wrong or missing "
                    f"rows, the first is {lost[0]}; train into an empty folder"
                )
        self._rewrite()
        if self._tensorboard:
            # purge_step hides what an earlier, interrupted process wrote past the checkpoint.
            self._writer = self._make_writer(str(self._folder / "tensorboard"), purge_step=iteration + 1)  # type: ignore[operator]

    def amend(self, row: Row) -> None:
        """Replace the newest row, in memory and file."""
        self.rows[-1] = row
        self._rewrite()

    def _rewrite(self) -> None:
        if self._path is not None:
            write_file(self._path, "".join(self._line(row) for row in self.rows).encode())

    def append(self, row: Row) -> None:
        """Add a row to memory, file and TensorBoard; it is on disk when the call returns."""
        self.rows.append(row)
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(self._line(row))
                file.flush()
                os.fsync(file.fileno())
        if self._writer is not None:
            for key, value in row.items():
                if key != "iteration":
                    self._writer.add_scalar(key, value, int(row["iteration"]))
            for key, text in self.about.items() if not row["iteration"] else ():
                self._writer.add_text(key, text, 0)
            self._writer.flush()

    def close(self) -> None:
        """Close the TensorBoard files, if any."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _line(self, row: Row) -> str:
        numbers = {key: value if value is not None and math.isfinite(value) else None for key, value in row.items()}
        return json.dumps(numbers | ({} if row["iteration"] else self.about)) + "\n"


def read_log(path: Path) -> list[Row]:
    """Read the rows of a log; a last line cut short by a crash is left out.

    Raises:
        DataError: another line is not a row, with file and line number.
    """
    rows: list[Row] = []
    *lines, cut = path.read_bytes().split(b"\n")
    for number, line in enumerate([*lines, cut] if cut else lines, 1):
        try:
            rows.append(_row(read_json(line)))
        except DataError as error:
            if number > len(lines):
                break
            raise DataError(f"{path}, line {number}: not a row of a training log ({error})") from None
    return rows


def read_about(path: Path) -> dict[str, str]:
    """Return the texts under names in `ABOUT` from the first line of a log: where its tasks come from.

    Raises:
        DataError: the line is not a row.
    """
    with open(path, "rb") as file:
        line = file.readline()
    value = read_json(line) if line.endswith(b"\n") else {}
    return {key: text for key, text in value.items() if key in ABOUT} if isinstance(value, dict) else {}


def _row(value: Any) -> Row:
    if not isinstance(value, dict):
        raise DataError(f"expected an object of numbers, got {type(value).__name__}")
    if value.get("iteration") == 0:
        value = {key: text for key, text in value.items() if not (key in ABOUT and isinstance(text, str))}
    for key, number in value.items():
        if number is not None and type(number) not in (int, float):
            raise DataError(f"{key[:100]!r} must be a number or null, got {type(number).__name__}")
    iteration = value.get("iteration")
    if iteration is None or iteration != int(iteration) or not 0 <= iteration <= _MOST_ITERATIONS:
        raise DataError(f"'iteration' must be a whole number in 0..{_MOST_ITERATIONS}, got {iteration}")
    return {**value, "iteration": int(iteration)}
