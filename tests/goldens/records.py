"""Records of what the project answers, small enough to be kept, and how two of them differ.

A record is nested dicts and lists of numbers and texts. It is kept as columns: the values of one path, list indices
left out, in order. Of a long column the first values are kept, and three sums of all of them, by which any change is
noticed that is larger than a millionth of the column.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"
#: Values of a column that are kept as they are; of a longer one the first few.
WHOLE, FIRST = 24, 6
#: Two numbers are the same up to this part of the larger one, and up to this where both are nearly 0.
RELATIVE, ABSOLUTE = 1e-6, 1e-9
#: Likewise of `approx_kl`, where float32 numbers near 1 cancel: 2e-8 from one processor to another.
_CANCELLED = 1e-7
#: Keys of what a clock, a machine or a path says.
_ASIDE = re.compile(
    r"seconds|^shares?$|^share_|created|^machine$|versions?$|^memory|per_second|^python$|^cpu$|^cores$|^generation$|path|folder|^out$"
)

Column = dict[str, Any]


@dataclass(frozen=True)
class Golden:
    """One thing that stays as it is.

    Attributes:
        name: its file below `data/`, such as "credit/gigpo".
        make: returns the record.
        dear: takes more than some twelve seconds of processor time.
        learned: holds what a network computed, whose last digits are another processor's or library's own.
    """

    name: str
    make: Callable[[], Any]
    dear: bool = False
    learned: bool = False

    @property
    def file(self) -> Path:
        """Where it is kept."""
        return DATA / f"{self.name}.jsonl"


def without_clock(record: Any) -> Any:
    """Return a record without the keys of times, versions, machines and paths."""
    if isinstance(record, Mapping):
        return {key: without_clock(value) for key, value in record.items() if not _ASIDE.search(str(key))}
    return [without_clock(value) for value in record] if isinstance(record, list | tuple) else record


def shape_of(record: Any) -> Any:
    """Return a record with the kind of every value in its place, for figures that are times."""
    if isinstance(record, Mapping):
        return {key: shape_of(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [shape_of(value) for value in record]
    return "number" if isinstance(record, int | float) and not isinstance(record, bool) else type(record).__name__


def columns(record: Any) -> dict[str, list[Any]]:
    """Return the values of every path, in order."""
    found: dict[str, list[Any]] = {}
    for path, value in _leaves(record, ""):
        found.setdefault(path, []).append(value)
    return found


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        if not value:
            yield path, "{}"
        for key, item in value.items():
            yield from _leaves(item, f"{path}/{key}" if path else str(key))
    elif isinstance(value, np.ndarray):
        yield from ((path, item) for item in value.ravel().tolist())
    elif isinstance(value, list | tuple):
        if not value:
            yield path, "[]"
        for item in value:
            yield from _leaves(item, path)
    else:
        yield path, value.item() if isinstance(value, np.generic) else value


def encode(values: list[Any]) -> Column:
    """Return a column as it is kept."""
    if all(value is None or isinstance(value, int | float) for value in values):
        numbers = np.array([math.nan if value is None else float(value) for value in values])
        column: Column = {
            "numbers": [_rounded(value) for value in (numbers if len(numbers) <= WHOLE else numbers[:FIRST])]
        }
        if len(numbers) > WHOLE:
            column |= {"count": len(numbers), "sums": [_rounded(value, 12) for value in _sums(numbers)]}
        return column
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    if len(texts) <= WHOLE:
        return {"texts": texts}
    return {"texts": texts[:FIRST], "count": len(texts), "digest": digest(texts)}


def _sums(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """The Euclidean length, a weighted sum in which every value and place counts, and the same of what is missing."""
    weights = np.cos(1.0 + 0.6180339887498949 * np.arange(len(numbers)))
    known = np.isfinite(numbers)
    finite = np.where(known, numbers, 0.0)
    scale = float(np.abs(finite).max(initial=0.0)) or 1.0
    length = scale * float(np.sqrt(((finite / scale) ** 2).sum()))
    return [length, float((weights * finite).sum()), float((weights * ~known).sum())]


def _rounded(value: float, digits: int = 9) -> float | str:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else str(float(value))


def digest(value: Any) -> str:
    """Return a short digest of texts and numbers, nested."""
    text = json.dumps(value, sort_keys=True, default=_plain, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return value.tolist()
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    return value.item() if isinstance(value, np.generic) else repr(value)


def differences(kept: Mapping[str, Column], found: Mapping[str, Column]) -> list[str]:
    """Return a line for every path at which two sets of columns differ."""
    lines = []
    for path in sorted({*kept, *found}):
        before, now = kept.get(path), found.get(path)
        if before is None or now is None:
            lines.append(f"{path}: {'is new' if before is None else 'is gone'}: {_short(now or before)}")
        elif not _same(before, now, _CANCELLED if path.endswith("approx_kl") else ABSOLUTE):
            lines.append(f"{path}:\n    was {_short(before)}\n    is  {_short(now)}")
    return lines


def _short(column: Any) -> str:
    text = json.dumps(column, ensure_ascii=False)
    return text if len(text) < 600 else f"{text[:600]}..."


def _same(before: Column, now: Column, absolute: float) -> bool:
    if before.keys() != now.keys() or before.get("count") != now.get("count"):
        return False
    if "numbers" not in before:
        return before == now
    if "sums" in before:
        near = RELATIVE * max(map(float, (before["sums"][0], now["sums"][0]))) + absolute
        if any(abs(float(a) - float(b)) > near for a, b in zip(before["sums"][:2], now["sums"][:2], strict=True)):
            return False
        if abs(float(before["sums"][2]) - float(now["sums"][2])) > absolute:
            return False
    return len(before["numbers"]) == len(now["numbers"]) and all(
        _near(float(a), float(b), absolute) for a, b in zip(before["numbers"], now["numbers"], strict=True)
    )


def _near(a: float, b: float, absolute: float) -> bool:
    if not (math.isfinite(a) and math.isfinite(b)):
        return str(a) == str(b)
    return abs(a - b) <= max(RELATIVE * max(abs(a), abs(b)), absolute)


def computed(golden: Golden) -> dict[str, Column]:
    """Make a golden anew, as it would be kept."""
    return {path: encode(values) for path, values in columns(golden.make()).items()}


def circumstances(golden: Golden) -> dict[str, str]:
    """Return what the last digits of a learned golden depend on."""
    if not golden.learned:
        return {}
    import torch

    return {"torch": torch.__version__, "processor": torch.backends.cpu.get_cpu_capability()}


def write(golden: Golden, found: Mapping[str, Column]) -> None:
    """Keep a golden: a line that says what it was made with, and one for each path."""
    golden.file.parent.mkdir(parents=True, exist_ok=True)
    lines = [circumstances(golden), *({"path": path, **column} for path, column in found.items())]
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    golden.file.write_text(text, encoding="utf-8", newline="\n")


def read(golden: Golden) -> tuple[dict[str, Column], dict[str, str]]:
    """Return the columns that are kept, and what they were made with."""
    first, *others = [json.loads(line) for line in golden.file.read_text(encoding="utf-8").split("\n") if line]
    return {line.pop("path"): line for line in others}, first
