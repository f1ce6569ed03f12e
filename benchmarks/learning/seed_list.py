"""Training seeds as they are written on a command line."""

from __future__ import annotations

_MOST = 1000


def parse_seeds(text: str) -> list[int]:
    """Read numbers and ranges, separated by commas.

    Raises:
        ValueError: something else, a number twice, nothing, or more than a thousand.

    >>> parse_seeds("0,1,5"), parse_seeds("0-2,7")
    ([0, 1, 5], [0, 1, 2, 7])
    """
    found: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), min(int(last or first), int(first) + _MOST) + 1)
    except ValueError:
        found = []
    if not found or len(set(found)) < len(found) or len(found) > _MOST:
        raise ValueError(f"expected at most {_MOST} distinct numbers such as 0,1,2 or 0-2, got {text!r}")
    return found
