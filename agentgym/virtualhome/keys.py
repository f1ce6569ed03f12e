"""The exact state as text. `wrappers.canonical` makes the keys of papers from observations and infos."""

from collections.abc import Hashable
from typing import Final

from agentgym.virtualhome.state import State

#: Prefixes of commands that only move the character, or its gaze.
_MOVES: Final = ("walk to ", "run to ", "find ", "turn to ", "look at ", "point at ")


def something_done(state: Hashable, action: Hashable, next_state: Hashable) -> bool:
    """Return whether a step changed the house, what is held or worn, or the posture, or did a deed of the goal.

    For `wrappers.credit.segments.by_event`: steps that only approach or look belong to the event that follows.
    """
    if str(action).strip().startswith(_MOVES):
        return _deeds(state) != _deeds(next_state)
    return str(state) != _unmarked(next_state)


def _deeds(state: Hashable) -> str:
    return _unmarked(state).rpartition("; ")[2]


def _unmarked(state: Hashable) -> str:
    return str(state).removesuffix(" [success]").removesuffix(" [failure]")


def state_key(state: State, shown: str, known: int, done: int) -> str:
    """Return a text that is equal only for equal states of a task.

    Parts: `shown` (location, inventory), the graph's fingerprint, discovered nodes, places of grabbed things, deeds
    done.
    """
    places = ""
    if state.places:
        places = ",".join([f"{node}:{place}:{relation}" for node, (place, relation) in sorted(state.places.items())])
    return f"{shown}; {state.fingerprint():032x}; {known:x}; {places}; {done}"


def known_nodes(state: State) -> int:
    """Return the discovered nodes, as a set."""
    index, known = state.scene.index, 0
    for _, number in state.found:
        known |= 1 << index[number]
    return known
