"""State keys for graph credit in Search-QA: which situations of a question count as the same.

Use one with `wrappers.canonical.CanonicalStates(envs, key=...)`. Whichever it is, success and failure are states of
their own, and so is the end without an answer.

* `text_key`: the observation, as published: the first one is the question, and the same passages in another order
  are another state.
* `documents_key`: the question and the set of passages found so far, in no order; what the agent can know.

Clusters of similar texts (`wrappers.similar_states.merge_similar_states` at 0.9) are made of tables with `text_key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def text_key(observation: Any, info: Mapping[str, Any]) -> str:
    """Return the observation's text; at the end how it went, which is said there.

    >>> text_key("Who wrote Emma?", {})
    'Who wrote Emma?'
    """
    return str(observation)


def documents_key(observation: Any, info: Mapping[str, Any]) -> str:
    """Return the question and the ids of all passages found so far, sorted; at the end how it went too.

    >>> info = {"task_id": "7", "retrieved_ids": ("b", "a"), "admissible_actions": ("<answer>yes</answer>",)}
    >>> documents_key("...", info)
    "7 | ['a', 'b']"
    """
    key = f"{info['task_id']} | {sorted(info['retrieved_ids'])!r}"
    return key if len(info["admissible_actions"]) else f"{key} | {observation}"
