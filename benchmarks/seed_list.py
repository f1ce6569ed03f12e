"""Training seeds as they are written on a command line."""

from __future__ import annotations


def parse_seeds(text: str) -> list[int]:
    """Read numbers and ranges, separated by commas.

    Raises:
        ValueError: something else, a number twice, or nothing.

    >>> parse_seeds("0,1,5"), parse_seeds("0-2,7")
    ([0, 1, 5], [0, 1, 2, 7])
    """
    found: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += list(range(int(first), int(last or first) + 1))
    except ValueError:
        found = []
    if not found or len(set(found)) < len(found):
        raise ValueError(f"expected distinct numbers such as 0,1,2 or 0-2, got {text!r}")
    return found
