"""State keys for `wrappers.canonical.CanonicalStates(envs, key=deal_key)`; whole transcripts hardly ever repeat."""

from collections.abc import Mapping
from typing import Any

#: Turns per step of the clock.
BUCKET = 4


def deal_key(observation: Any, info: Mapping[str, Any]) -> str:
    """Return task, role, state of the game (`games.game.Standing`), number of `BUCKET` turns, and how it ended."""
    return f"{info['task_id']} | {info['role']} | {info['standing']!r} | {info['turn'] // BUCKET} | {info['ended']}"
