"""Where imported data and built indices are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

#: Names the folder, or "off".
VARIABLE = "AGENTGYM_CACHE"


def cache_folder(given: str | Path | bool | None = None) -> Path | None:
    """Return the folder of cache files, or None when caching is off.

    Args:
        given: a folder; "off" or False for no cache; None or True for the default: the variable AGENTGYM_CACHE (a
            folder, or "off"), else "agentgym" in the user's cache folder, if there is one.

    Raises:
        ValueError: when `given` is something else.
    """
    if given is None or given is True:
        given = os.environ.get(VARIABLE) or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "agentgym"
    if given is False or given == "off":
        return None
    if not isinstance(given, (str, os.PathLike)):
        raise ValueError(f"cache must be a folder, 'off', True, False or None, got {given!r}")
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError:  # the user has no home folder
        return None
