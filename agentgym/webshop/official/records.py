"""Hidden prices and goals of a running original, written down."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.outside.text import DataError, read_file, read_json
from agentgym.webshop.goals import Goal
from agentgym.webshop.official.files import LONGEST_TEXT, LONGEST_VALUE, MOST_WISHES


@dataclass(frozen=True)
class Record:
    """Hidden prices and goals of a running shop, written down.

    Attributes:
        prices: asin -> price.
        goals: in the order served; None when only prices were written down.
    """

    prices: dict[str, float]
    goals: tuple[Goal, ...] | None


def read_record(path: str | os.PathLike[str]) -> Record:
    """Read a file with the keys `prices` (asin -> price) and, optionally, `goals` (as the original holds them).

    Args:
        path: JSON file, or the same packed by xz, gzip or bzip2.

    Raises:
        DataError: when the file is not as expected; the message names file, goal and field.
        OSError: when it cannot be read.
    """
    path = Path(path).expanduser()
    try:
        data = read_json(read_file(path), unique=True)
    except DataError as error:
        raise DataError(f"{path} cannot be read as JSON ({error})") from error
    prices = data.get("prices") if isinstance(data, dict) else None
    if not isinstance(prices, dict):
        raise DataError(f"{path}: expected an object with 'prices' (asin -> price) and, optionally, 'goals'")
    for asin, price in prices.items():
        if isinstance(price, bool) or not isinstance(price, (int, float)):
            raise DataError(f"{path}: the price of {asin!r} must be a number, got {price!r:.200}")
    goals = data.get("goals")
    if goals is not None and not isinstance(goals, list):
        raise DataError(f"{path}: 'goals' must be a list, got {goals!r:.200}")
    return Record(prices, None if goals is None else tuple([_goal(path, i, goal) for i, goal in enumerate(goals)]))


def _goal(path: Path, number: int, data: Any) -> Goal:
    def get(name: str, kind: type | tuple[type, ...]) -> Any:
        value = data.get(name) if isinstance(data, dict) else None
        if not isinstance(value, kind) or isinstance(value, bool) or not texts_fit(value):
            raise DataError(f"{path}: goal {number}: field {name!r} is not as expected, got {value!r:.200}")
        return value

    def texts_fit(value: Any) -> bool:
        if isinstance(value, (list, dict)):
            texts = value if isinstance(value, list) else [*value, *value.values()]
            return len(value) <= MOST_WISHES and all(
                isinstance(text, str) and len(text) <= LONGEST_VALUE for text in texts
            )
        return not isinstance(value, str) or len(value) <= LONGEST_TEXT

    options = get("goal_options", (dict, list))
    texts = ("asin", "name", "category", "query", "product_category", "instruction_text")
    wishes = tuple(options.items()) if isinstance(options, dict) else tuple(options)
    values: list[Any] = [get(name, str) for name in texts]
    return Goal(*values, *[tuple(get("attributes", list)), wishes, float(get("price_upper", (int, float)))])
