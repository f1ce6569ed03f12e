"""The exact state as text.

The keys of papers are made of the observation and of what infos add to it, by `wrappers.canonical`: `observation_key`,
`rewardflow_key` (with `inventory`), `graphgpo_key` (with `location` and `inventory`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from agentgym.virtualhome.state import State

#: Beginnings of commands that only move the character, or what it looks at.
_MOVES: Final = ("walk to ", "run to ", "find ", "turn to ", "look at ", "point at ")


def something_done(state: Hashable, action: Hashable, next_state: Hashable) -> bool:
    """Say whether a step changed the house, what is held or worn, or the posture, or did a deed of the goal.

    For `wrappers.credit.segments.by_event`: coming closer to something and looking at it belong to what is done there.
    States are those of `state_key`, with or without the mark of an end.
    """
    if str(action).strip().startswith(_MOVES):
        return _deeds(state) != _deeds(next_state)
    return str(state) != _unmarked(next_state)


def _deeds(state: Hashable) -> str:
    return _unmarked(state).rpartition("; ")[2]


def _unmarked(state: Hashable) -> str:
    return str(state).removesuffix(" [success]").removesuffix(" [failure]")


def state_key(state: State, shown: str, known: int, done: int) -> str:
    """Return a text that two states of a task share only if they are equal.

    It holds `shown` (where the character is, what it holds), the fingerprint of the graph (128 bits, see
    `State.fingerprint`), the nodes that were discovered, where things were grabbed, and how many deeds are done.
    """
    places = ""
    if state.places:
        places = ",".join([f"{node}:{place}:{relation}" for node, (place, relation) in sorted(state.places.items())])
    return f"{shown}; {state.fingerprint():032x}; {known:x}; {places}; {done}"


def known_nodes(state: State) -> int:
    """Return the nodes that were discovered, as a set."""
    index, known = state.scene.index, 0
    for _, number in state.found:
        known |= 1 << index[number]
    return known
