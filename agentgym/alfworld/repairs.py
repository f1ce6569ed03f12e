"""Named repairs of the original's quirks; none is on by default."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.core import suggest

#: What each repair changes. By default the household behaves exactly as the original, quirks included.
REPAIRS: dict[str, str] = {
    "colocated": (
        "`go to` works for receptacles that share the agent's place (the original answers 'Nothing happens.', so that "
        "the second of two receptacles is never arrived at)"
    ),
    "examine": "`examine` works for every object in sight here, not only for the one in hand",
    "ghosts": "taking an object removes it from every receptacle that lists it (some objects are listed in two)",
    "look": "`look` before the first move lists the receptacles of the room instead of 'nothing'",
    "status": "every observation ends with a line that says where the agent is and what it carries, in what condition",
    "toggle": "`use` turns a lamp that is on off again",
}


def check_repairs(repairs: Iterable[str] | str) -> frozenset[str]:
    """Return the named repairs as a set; "all" stands for every one of them.

    Raises:
        ValueError: on a name that is not in `REPAIRS`.

    >>> sorted(check_repairs(["look", "toggle"]))
    ['look', 'toggle']
    """
    if isinstance(repairs, str):
        repairs = REPAIRS if repairs == "all" else (repairs,)
    names = frozenset(repairs)
    for name in sorted(names, key=str):
        if name not in REPAIRS:
            raise ValueError(f"unknown repair {name!r}; {suggest(name, ('all', *REPAIRS))}")
    return names
