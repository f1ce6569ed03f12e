"""A state key for `wrappers.canonical.CanonicalStates(envs, key=...)`; ends are states of their own."""

from collections.abc import Mapping
from typing import Any


def documents_key(observation: Any, info: Mapping[str, Any]) -> str:
    """Return the question and the sorted ids of all passages found so far; at the end also the outcome."""
    key = f"{info['task_id']} | {sorted(info['retrieved_ids'])!r}"
    return key if len(info["admissible_actions"]) else f"{key} | {observation}"
