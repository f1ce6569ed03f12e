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
    """Return the named repairs as a set; "all" among them stands for every one.

    Raises:
        ValueError: on a name that is not in `REPAIRS`.

    >>> sorted(check_repairs(["look", "toggle"]))
    ['look', 'toggle']
    """
    given = (repairs,) if isinstance(repairs, str) or not isinstance(repairs, Iterable) else tuple(repairs)
    known = ("all", *REPAIRS)
    for name in given:
        if name not in known:
            raise ValueError(f"unknown repair {name!r}; {suggest(name, known)}")
    return frozenset(REPAIRS if "all" in given else given)
