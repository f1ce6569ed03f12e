"""What the papers' agents are shown: all things of the classes that are close and visible, and what is held."""

from __future__ import annotations

from typing import NamedTuple

from agentgym.virtualhome.household import Household
from agentgym.virtualhome.scene import (
    BETWEEN,
    CLOSE,
    HOLDS_LH,
    HOLDS_RH,
    INSIDE,
    IS_OPEN,
    ON,
    RELATION_NAMES,
    members,
    states_of,
)  # fmt: skip


class Sight(NamedTuple):
    """What is shown.

    Attributes:
        things: `<class> is <STATE> and <STATE>`, or only the class; sorted, states too.
        relations: `<class> ON <class>` and `<class> BETWEEN <class>`; sorted.
        held: classes of what is held, in the original's order.
    """

    things: tuple[str, ...]
    relations: tuple[str, ...]
    held: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as the papers print it, but for the order, which the original leaves to chance."""
        seen = ", ".join((*self.things, *self.relations))
        return (f"{seen}. " if seen else "") + (f"You have {', '.join(self.held)}. " if self.held else "")


def look(home: Household) -> Sight | None:
    """Return what is shown, None where the character is in nothing (the original breaks on that)."""
    scene, me = home.scene, home.scene.character
    close = home.related(me, CLOSE)
    seen = visible(home, close)
    if seen is None:
        return None
    classes = {scene.names[node] for node in members(seen)}
    alike = 0
    for name in classes:
        alike |= scene.classes[name]
    things = set()
    for node in members(alike):
        states = states_of(home.states(node))
        things.add(f"{scene.names[node]} is {' and '.join(states)}" if states else scene.names[node])
    near = close & alike
    relations = {
        f"{scene.names[node]} {RELATION_NAMES[relation]} {scene.names[other]}"
        for node in members(near)
        for relation in (ON, BETWEEN)
        for other in members(home.related(node, relation) & near)
    }
    hands = home.related(me, HOLDS_LH) | home.related(me, HOLDS_RH)
    held = tuple(scene.names[node] for node in home.listed(hands))
    return Sight(tuple(sorted(things)), tuple(sorted(relations)), held)


def visible(home: Household, among: int) -> int | None:
    """Return which nodes of a set can be seen; None where the character is in nothing.

    Seen are all rooms, what is held, and what is inside the character's room, at any depth, unless what it lies in is
    no room and not open. What is inside itself, directly or not, is looked at once; the original never ends there.
    """
    scene, me = home.scene, home.scene.character
    room = _lies_in(home, me)
    if room is None:
        return None
    inside, new = 0, home.sources(room, INSIDE)
    while new:
        inside |= new
        deeper = 0
        for node in members(new):
            deeper |= home.sources(node, INSIDE)
        new = deeper & ~inside
    seen = among & (scene.rooms | home.related(me, HOLDS_LH) | home.related(me, HOLDS_RH))
    for node in members(among & inside & ~seen):
        box = _lies_in(home, node)
        if box is not None and (scene.rooms >> box & 1 or home.states(box) & IS_OPEN):
            seen |= 1 << node
    return seen


def _lies_in(home: Household, node: int) -> int | None:
    """Return the last of what a node is inside of."""
    boxes = home.related(node, INSIDE)
    if boxes & (boxes - 1):
        return home.listing(node, INSIDE)[-1]
    return boxes.bit_length() - 1 if boxes else None
