"""The exact state as text.

The keys of papers are made of the observation and of what infos add to it, by `wrappers.canonical`: `observation_key`,
`rewardflow_key` (with `inventory`), `graphgpo_key` (with `location` and `inventory`).
"""

from __future__ import annotations

from agentgym.virtualhome.state import State


def state_key(state: State, shown: str, known: int, done: int) -> str:
    """Return a text that two states of a task share only if they are equal.

    It holds what is given to begin with, the fingerprint of the graph (128 bits, see `State.fingerprint`), what was
    discovered, where things were grabbed, and how many deeds are done.

    Args:
        state: of an episode with `set_order="lowest id"`.
        shown: something about the state that tells it from others at a glance.
        known: the nodes that were discovered, as a set.
        done: deeds that have been done.
    """
    places = ",".join([f"{node}:{place}:{relation}" for node, (place, relation) in sorted(state.places.items())])
    return f"{shown}; {state.fingerprint():032x}; {known:x}; {places}; {done}"


def known_nodes(state: State) -> int:
    """Return the nodes that were discovered, as a set."""
    index, known = state.scene.index, 0
    for _, number in state.found:
        known |= 1 << index[number]
    return known
