"""How many commands are needed at least: what has certainly to be done, and what has certainly to be gone to."""

from __future__ import annotations

from agentgym.virtualhome.activity import Activity
from agentgym.virtualhome.goals import Test
from agentgym.virtualhome.handling import TAKEN_ALSO
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import (
    CLEAN,
    FACING,
    HOLDS_LH,
    HOLDS_RH,
    INSIDE,
    IS_CLOSED,
    IS_OFF,
    IS_ON,
    IS_OPEN,
    LYING,
    ON,
    PLUGGED_IN,
    PLUGGED_OUT,
    SITTING,
    STATES,
    WIDTH,
    members,
)  # fmt: skip

#: The action that gives an object a state; others that do so too stand for it.
_MAKERS = {
    CLEAN: "WASH", IS_ON: "SWITCHON", IS_OFF: "SWITCHOFF", IS_OPEN: "OPEN", IS_CLOSED: "CLOSE", PLUGGED_IN: "PLUGIN",
    PLUGGED_OUT: "PLUGOUT",
}  # fmt: skip
_FROM_AFAR = frozenset(("WATCH", "LOOKAT", "POINTAT", "TURNTO", "GREET"))
#: Different words for what is counted once.
_SAME = {
    "RINSE": "WASH", "SCRUB": "WASH", "WIPE": "WASH", "LIE": "SIT", "RELEASE": "DROP", "PUTBACK": "PUT", "PUTIN": "PUT",
    "PUTOBJBACK": "PUT", "POUR": "PUT", "RUN": "WALK", "FIND": "WALK",
}  # fmt: skip


def least(activity: Activity, world: World, known: int, done: int) -> int:
    """Return a number of commands that no plan from here on falls short of.

    Counted are different actions that the goal needs, and each thing that must be discovered for them: one walk, or one
    `find`, discovers one thing.

    Args:
        activity: what is to be done.
        world: the episode, with dialect "v1".
        known: the nodes that were discovered, as a set.
        done: deeds that have been done.
    """
    return _Needs(activity, world, known, done).count()


class _Needs:
    """What is certainly needed from one state on.

    Attributes:
        acts: actions with their nodes; -1 where it may be any, or there is none.
        nodes: what has to be known for them, as a set.
        near: which of them has to be near as well.
        boxes: closed things to get something out of: they are opened, or taken in hand, which empties them.
        missing: something has to change, or to be done.
        faces: the character has to face something that it does not.
        wipes: something, whatever it is, has to be in hand.
    """

    def __init__(self, activity: Activity, world: World, known: int, done: int) -> None:
        self._world = world
        self._known = known
        self._me = world.scene.character
        me = self._me * WIDTH
        self._held = world.cells[me + HOLDS_RH] | world.cells[me + HOLDS_LH]
        self.acts: set[tuple[str, int, int]] = set()
        self.nodes = self.near = 0
        self.boxes: set[int] = set()
        self.faces = self.wipes = False
        having = world.scene.having
        self._taken = having["GRABBABLE"] | sum(world.scene.classes.get(name, 0) for name in TAKEN_ALSO)
        deeds = activity.tests.deeds[done:]
        tests = [*activity.tests.cells, *(test for _, _, given in deeds for test in given)]
        missing = dict.fromkeys(test for test in tests if world.cells[test[0]] & test[1] != test[2])
        for test in missing:
            self._test(test)
        self.missing = bool(missing or deeds)
        for actions, node, _ in sorted(deeds, key=lambda deed: deed[1] < 0):  # what is done anyway may be one of these
            self._deed(actions, node)

    def count(self) -> int:
        """Return how many commands that makes."""
        found = len(self.acts) + (self.nodes & ~self._known).bit_count()
        acts = {action for action, _, _ in self.acts}
        for box in self.boxes:
            found += not any(name in ("OPEN", "GRAB") and node in (box, -1) for name, node, _ in self.acts)
        if self.faces and not acts & {"SIT", "TURNTO"}:
            found += 1
        if self.wipes and not self._held and "GRAB" not in acts:
            found += 1 + (not self._taken & (self._known | self.nodes))
        if self.near and not self.nodes & ~self._known and not any(map(self._world.near, members(self.near))):
            found += 1
        return max(found, self.missing)

    def _test(self, test: Test) -> None:
        slot, bits, wanted = test
        node, relation = divmod(slot, WIDTH)
        if relation == STATES:
            self._states(node, wanted & ~self._world.cells[slot])
        elif node == self._me:
            self._own(relation, bits, wanted)
        elif relation in (ON, INSIDE) and wanted:
            self._put(node, relation, bits.bit_length() - 1)
        elif relation in (ON, INSIDE):
            target = bits.bit_length() - 1
            if target == self._me:  # taken off, or taken in hand; walking leaves what is inside oneself
                if relation == ON:
                    self._need(node, near=False)
            elif not (self._taken | self._world.scene.rooms) >> target & 1:
                self._hold(node)

    def _states(self, node: int, wanted: int) -> None:
        if node == self._me:
            if wanted & (SITTING | LYING):
                self.acts.add(("SIT", -1, -1))
            return
        bits = self._world.cells[node * WIDTH + STATES]
        for state, action in _MAKERS.items():
            if wanted & state:
                self._act(action, node)
        if wanted & IS_ON and bits & PLUGGED_OUT:
            self._act("PLUGIN", node)
        if wanted & IS_OPEN and bits & IS_ON:
            self._act("SWITCHOFF", node)

    def _own(self, relation: int, bits: int, wanted: int) -> None:
        """What is needed for an edge of the character."""
        node = bits.bit_length() - 1
        if not wanted:
            return
        if relation in (HOLDS_RH, HOLDS_LH):
            self._hold(node)
        elif relation == ON:
            self.acts.add(("SIT", -1, -1))
            self._need(node)
        elif relation == FACING:
            self.faces = True

    def _put(self, thing: int, relation: int, target: int) -> None:
        world = self._world
        if world.scene.rooms >> target & 1:
            return
        self._hold(thing)
        if target == self._me:
            self._act("PUTON", thing)
            return
        self.acts.add(("PUT", thing, target * WIDTH + relation))
        if world.places.get(thing) != (target, relation):
            self._need(target)
        able = world.scene.having
        shut = able["CAN_OPEN"] & ~able["RECIPIENT"] & 1 << target and not world.states(target) & IS_OPEN
        if relation == INSIDE and shut:
            self._open(target)

    def _hold(self, thing: int) -> None:
        self._need(thing)
        if self._held >> thing & 1:
            return
        self.acts.add(("GRAB", thing, -1))
        for box in members(self._world.related(thing, INSIDE) & ~self._world.scene.rooms):
            if self._world.states(box) & IS_CLOSED:
                if not self._taken >> box & 1:
                    self._open(box)
                elif not self._held >> box & 1:
                    self.boxes.add(box)
                    self._need(box)

    def _open(self, box: int) -> None:
        self._act("OPEN", box)
        if self._world.states(box) & IS_ON:
            self._act("SWITCHOFF", box)

    def _deed(self, actions: frozenset[str], node: int) -> None:
        names = {_SAME.get(action, action) for action in actions}
        if "WALK" in names:  # to get to know something is one
            if node >= 0:
                self._need(node, near=False)
            return
        if not any(action in names and node in (each, -1) for action, each, _ in self.acts):
            self.acts.add((min(names), -1 if "SIT" in names else node, -1))
        if node < 0:
            return
        self._need(node, near=not names & _FROM_AFAR)
        if names <= {"READ", "DRINK"}:
            self._hold(node)
        self.wipes |= actions == {"WIPE"}
        if names == {"CLOSE"} and self._world.states(node) & IS_CLOSED:
            self._open(node)

    def _act(self, action: str, node: int) -> None:
        self.acts.add((action, node, -1))
        self._need(node)

    def _need(self, node: int, near: bool = True) -> None:
        self.nodes |= 1 << node
        if near:
            self.near |= 1 << node
