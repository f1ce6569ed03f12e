"""State keys for graph credit in SOTOPIA: which situations of a dialogue count as the same.

A dialogue in free text hardly ever comes to the same place twice: `info["state_key"]` is the whole transcript, so two
dialogues share states only as long as every word is the same. Credit that looks for states visited again finds next to
none there, and step rewards that are learned are the method. Where a game can be read from the dialogue, `deal_key`
keeps what matters for its outcome: how the game stands.

Use it with `wrappers.canonical.CanonicalStates(envs, key=deal_key)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: So many turns are one step of the clock.
BUCKET = 4


def deal_key(observation: Any, info: Mapping[str, Any]) -> str:
    """Return task and role, how the game stands, how late it is in steps of `BUCKET` turns, and how it ended.

    How the game stands is the standing offers, who moved last and how, what was agreed, and what was brought up, see
    `games.game.Standing`; without a game only who acted last and how.

    >>> info = {"task_id": "bargain-0-7", "role": 0, "standing": ((55.0, 70.0), 1, "offer"), "turn": 6, "ended": ""}
    >>> deal_key("...", info)
    "bargain-0-7 | 0 | ((55.0, 70.0), 1, 'offer') | 1 | "
    """
    return f"{info['task_id']} | {info['role']} | {info['standing']!r} | {info['turn'] // BUCKET} | {info['ended']}"
