"""Named repairs of the original's quirks; none is on by default."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.core import suggest

#: What each repair changes. By default the shop behaves exactly as the original, quirks included.
REPAIRS: dict[str, str] = {
    "brackets": (
        "the argument of a command begins behind its first '[' instead of the last one, so that an option value with "
        "a bracket can be clicked and a query may hold brackets"
    ),
    "options": (
        "a product's page and the pages below it end with a line that says which options are chosen; the plain text "
        "does not show them otherwise"
    ),
    "winnable": (
        "goals that buying exactly the wished product with exactly the wished options does not score 1.0 are left out"
    ),
}


def check_repairs(repairs: Iterable[str] | str) -> frozenset[str]:
    """Return the named repairs as a set; "all" stands for every one of them.

    Raises:
        ValueError: on a name that is not in `REPAIRS`.

    >>> sorted(check_repairs(["options", "brackets"]))
    ['brackets', 'options']
    """
    if isinstance(repairs, str):
        repairs = REPAIRS if repairs == "all" else (repairs,)
    names = frozenset(repairs)
    for name in sorted(names, key=str):
        if name not in REPAIRS:
            raise ValueError(f"unknown repair {name!r}; {suggest(name, ('all', *REPAIRS))}")
    return names
