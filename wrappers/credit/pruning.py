"""Which steps changed the state, and between which states: invalid and no-change steps are bypassed."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypedDict

import numpy as np

from agentgym.trajectory import Bools, Ints, StepTable
from agentgym.trajectory.forks import counts_so_far, latest
from wrappers.credit.options import option

Invalid = Literal["bypass", "self_loop", "keep"]

#: First words of actions that only look: ALFWorld answers them with a text of its own and leaves the world as it is.
NO_CHANGE_ACTIONS = ("look", "inventory", "examine")


class PruningOptions(TypedDict, total=False):
    """What becomes of rows that did not change the state."""

    invalid: Annotated[
        Invalid,
        option(
            "bypass",
            'rows that did not change the state: "bypass", not in the graph and in no group; "self_loop", a '
            'transition from the state to itself; or "keep", every row as recorded',
            authors="keep",
        ),
    ]
    no_change_actions: Annotated[
        tuple[str, ...], option(NO_CHANGE_ACTIONS, 'first words of actions that only look; not for "keep"')
    ]
    noise_states: Annotated[
        tuple[str, ...],
        option(
            (),
            'states that are only shown, such as ("Nothing happens.",): rows that lead to one changed nothing; not '
            'for "keep"',
        ),
    ]


class Transitions(NamedTuple):
    """What each row did, as state ids of the table.

    source: int64 (N,), the state the row acted in, after bypassing.
    target: int64 (N,), the state it led to.
    scored: bool (N,), the row is a transition of the graph and member of its state's group.
    """

    source: Ints
    target: Ints
    scored: Bools


def transitions(
    table: StepTable,
    invalid: Invalid = "bypass",
    no_change_actions: tuple[str, ...] = NO_CHANGE_ACTIONS,
    noise_states: tuple[str, ...] = (),
) -> Transitions:
    """Return the transitions of a table.

    A text environment answers a refused action with a noise text ("Nothing happens.") and an action that only looks
    with a description. Taken as states these are hubs that join unrelated situations. The state an episode is in is
    therefore the one its last *changing* step led to, whatever was shown since. Where a row does not begin in the
    state that the row before it in the trajectory showed, rows are missing in between: it is taken as it is.

    Args:
        table: N rows.
        invalid: what becomes of rows that are not valid, whose action only looks, that show a noise state, or that
            lead back to the state they started in: "bypass": not in the graph, in no group; "self_loop": a transition
            from that state to itself, compared with the other actions there; "keep": every row as recorded, noise
            states included.
        no_change_actions: first words of actions that only look (compared as written).
        noise_states: states that are only shown, such as "Nothing happens.": a row that leads to one changed nothing,
            also where it counts as valid (published environments call every well-formed reply valid).
    """
    if invalid == "keep" or len(table) == 0:
        return Transitions(table.state, table.next_state, np.ones(len(table), np.bool_))
    looks = np.fromiter((_looks(a, no_change_actions) for a in table.actions), np.bool_, len(table.actions))
    changes = table.valid & ~looks[table.action]
    if noise_states:
        words = frozenset(noise_states)
        noise = np.fromiter((state in words for state in table.states), np.bool_, len(table.states))
        changes &= ~noise[table.next_state]
    previous, root = table.previous, table.previous < 0
    begins = root | (table.state != table.next_state[previous])
    start = latest(table, begins)
    # The last changing row before each row counts where it is of the same unbroken run.
    before = np.where(root, -1, latest(table, changes)[previous])
    turn = counts_so_far(table, np.ones(len(table), np.bool_))
    reached = (before >= 0) & (turn[before] >= turn[start])
    source = np.where(reached, table.next_state[before], table.state[start])
    moved = changes & (table.next_state != source)
    scored = moved if invalid == "bypass" else np.ones(len(table), np.bool_)
    return Transitions(source, np.where(moved, table.next_state, source), scored)


def _looks(action: object, words: tuple[str, ...]) -> bool:
    return isinstance(action, str) and action.startswith(words) and action.split(None, 1)[0] in words
