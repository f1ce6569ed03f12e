"""Plans from any state, found piece by piece; each line is executed in the episode itself and undone at the end.

A plan carries things (two at a time if possible), then handles devices, then clothes, and sits or lies down last; deeds
are done as soon as their conditions hold. It works but need not be shortest; `least` is a lower bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentgym.virtualhome.actions import TAKEN_ALSO
from agentgym.virtualhome.goals import Test
from agentgym.virtualhome.household import OriginalError
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import CLOSE, FACING, HOLDS_LH, HOLDS_RH, INSIDE, IS, ON, STATES, WIDTH, members

if TYPE_CHECKING:
    from agentgym.virtualhome.activity import Activity

#: Maximum number of lines of a plan, and of attempts at one condition.
_MOST_LINES, _MOST_TRIES = 100, 60
#: States in the order in which they are achieved.
_STATE_ORDER: Final = (IS.CLEAN, IS.DIRTY, IS.OPEN, IS.CLOSED, IS.PLUGGED_IN, IS.ON, IS.OFF, IS.PLUGGED_OUT)
#: The action that gives an object a state, with its precondition: (action, state).
_MAKING: Final[dict[int, tuple[str, int]]] = {
    IS.CLEAN: ("WASH", 0), IS.PLUGGED_IN: ("PLUGIN", 0), IS.PLUGGED_OUT: ("PLUGOUT", 0), IS.OFF: ("SWITCHOFF", 0),
    IS.ON: ("SWITCHON", IS.PLUGGED_IN), IS.OPEN: ("OPEN", IS.OFF), IS.CLOSED: ("CLOSE", 0),
}  # fmt: skip
#: Deeds with a held object.
_IN_HAND: Final = frozenset(("READ", "DRINK", "DROP", "RELEASE", "PUTON"))
#: Deeds with an object that is known or faced, but not necessarily near.
_FROM_AFAR: Final = frozenset(("WATCH", "LOOKAT", "POINTAT", "TURNTO", "GREET"))
#: Deeds that need a sitting or lying character.
_RESTING: Final = frozenset(("SLEEP", "WAKEUP", "STANDUP"))


class _StuckError(Exception):
    """No further line can be found."""


def plan(activity: Activity, world: World, done: int = 0) -> tuple[str, ...] | None:
    """Return commands that achieve the goal from here, () when it is achieved; None when no plan is found.

    `world` has dialect "v1" and is unchanged on return; `done` is the number of deeds done.
    """
    mark = world.mark()
    attempt = _Attempt(activity, world, done)
    try:
        attempt.run()
    except (_StuckError, OriginalError):
        return None
    finally:
        world.undo(mark)
    return tuple([activity.lexicon.words.say(*line) for line in attempt.lines])


class _Attempt:
    def __init__(self, activity: Activity, world: World, done: int) -> None:
        self.lines: list[tuple[str, *tuple[int, ...]]] = []
        self._activity = activity
        self._tests = activity.tests
        self._world = world
        self._done = done
        self._me = world.scene.character

    def run(self) -> None:
        for _ in range(_MOST_TRIES):
            if not self._tests.missing(self._world.cells, self._done):
                return
            self._progress()
        raise _StuckError

    def _progress(self) -> None:
        missing = self._missing(self._tests.cells)
        deed = self._tests.deeds[self._done] if self._done < len(self._tests.deeds) else None
        resting = [test for test in missing if self._rests(test)]
        others = [test for test in missing if not self._rests(test)]
        if deed is not None:
            before = self._missing(deed[2])
            if not before and not (resting and deed[0] & _RESTING):
                return self._do(*self._deed(deed))
            if before and not others and not any(map(self._rests, before)):
                return self._bring_about(before)
        if others:
            return self._bring_about(others)
        if resting:
            return self._settle(resting, deed)
        if deed is not None:
            return self._bring_about(self._missing(deed[2]))
        raise _StuckError

    def _missing(self, tests: tuple[Test, ...]) -> list[Test]:
        cells = self._world.cells
        return [test for test in tests if cells[test[0]] & test[1] != test[2]]

    def _rests(self, test: Test) -> bool:
        return test[0] // WIDTH == self._me and test[0] % WIDTH in (STATES, ON)

    # Achieving conditions.

    def _bring_about(self, missing: list[Test]) -> None:
        me = self._me
        carried = [test for test in missing if test[0] % WIDTH in (ON, INSIDE) and test[2] and test[0] // WIDTH != me]
        worn = [test for test in carried if test[1] == 1 << me]
        carried = [test for test in carried if test[1] != 1 << me]
        if carried:
            return self._carry(carried)
        gone = [test for test in missing if not test[2] and test[0] % WIDTH in (ON, INSIDE) and test[0] // WIDTH != me]
        if gone:
            return self._hold(gone[0][0] // WIDTH)
        cells = self._world.cells
        changes = [(slot // WIDTH, want & ~cells[slot]) for slot, _, want in missing if slot % WIDTH == STATES]
        changes.sort(key=lambda change: not (self._known(change[0]) and self._world.near(change[0])))
        for node, states in changes:
            for state in _STATE_ORDER:
                if states & state:
                    return self._make(node, state)
        if worn:
            thing = worn[0][0] // WIDTH
            self._hold(thing)
            return self._do("PUTON", thing)
        return self._place_oneself(missing)

    def _carry(self, missing: list[Test]) -> None:
        target = missing[0][1].bit_length() - 1
        for _, bit, _ in missing:  # the place of a held thing, if there is one
            if any(slot // WIDTH in self._held() for slot, other, _ in missing if other == bit):
                target = bit.bit_length() - 1
        mine = [(slot // WIDTH, slot % WIDTH) for slot, bit, _ in missing if bit == 1 << target]
        if self._world.scene.having["GRABBABLE"] >> target & 1 and mine[0][1] == INSIDE:
            self._fill(mine[0][0], target)
            return
        mine.sort(key=lambda each: each[0] not in self._held())
        shut = any(relation == INSIDE for _, relation in mine) and not self._world.takes_in(target)
        load = mine[: 1 if shut else 2]
        for thing, _ in load:
            if thing not in self._held():  # afterwards a condition that comes first may be possible
                self._hold(thing, keep=[other for other, _ in load])
                return
        self._reach(target)
        if shut:
            self._make(target, IS.OPEN)
        for thing, relation in load:
            if thing in self._held():  # opening a door on the way may have dropped it
                self._do("PUTIN" if relation == INSIDE else "PUTBACK", thing, target)

    def _fill(self, thing: int, vessel: int) -> None:
        self._hold(vessel, keep=[thing])
        self._hold(thing, keep=[vessel])
        if vessel not in self._held():
            return
        able = self._world.scene.having
        pours = (able["POURABLE"] | able["DRINKABLE"]) >> thing & able["RECIPIENT"] >> vessel & 1
        self._do("POUR" if pours else "PUTIN", thing, vessel)

    def _make(self, node: int, state: int) -> None:
        if state not in _MAKING:
            raise _StuckError
        action, before = _MAKING[state]
        self._reach(node)
        bits = self._world.cells[node * WIDTH + STATES]
        if before == IS.PLUGGED_IN and bits & IS.PLUGGED_OUT:
            self._free_a_hand()
            self._do("PLUGIN", node)
        if before == IS.OFF and bits & IS.ON:
            self._do("SWITCHOFF", node)
        if action in ("OPEN", "PLUGIN", "PLUGOUT"):
            self._free_a_hand()
        self._do(action, node)

    def _place_oneself(self, missing: list[Test]) -> None:
        me = self._me * WIDTH
        for relation in (HOLDS_RH, HOLDS_LH, INSIDE, CLOSE, FACING):
            for slot, bit, wanted in missing:
                if slot == me + relation and wanted:
                    node = bit.bit_length() - 1
                    if relation in (HOLDS_RH, HOLDS_LH):
                        return self._hold(node)
                    return self._do("TURNTO", node) if relation == FACING and self._known(node) else self._reach(node)
        raise _StuckError

    def _settle(self, missing: list[Test], deed: tuple[frozenset[str], int, tuple[Test, ...]] | None) -> None:
        cells, me = self._world.cells, self._me
        wanted = next((bits for slot, bits, value in missing if slot % WIDTH == STATES and value), 0)
        posture = wanted or cells[me * WIDTH + STATES] & (IS.SITTING | IS.LYING)
        seat = next((bit.bit_length() - 1 for slot, bit, value in missing if slot % WIDTH == ON and value), -1)
        if not posture & (IS.SITTING | IS.LYING):
            self._do("STANDUP")
            return
        if deed is not None:
            self._prepare(deed)
        if seat < 0:
            seat = self._any_seat(posture)
        if cells[me * WIDTH + STATES] & posture:
            self._do("STANDUP")
        self._reach(seat)
        self._do("SIT" if posture & IS.SITTING else "LIE", seat)

    def _prepare(self, deed: tuple[frozenset[str], int, tuple[Test, ...]]) -> None:
        actions, node, _ = deed
        if node < 0:
            return
        if actions & _IN_HAND or (not actions & _FROM_AFAR and self._world.scene.having["GRABBABLE"] >> node & 1):
            self._hold(node)
        elif not self._known(node):
            self._reach(node)

    def _any_seat(self, posture: int) -> int:
        having = self._world.scene.having["SITTABLE" if posture & IS.SITTING else "LIEABLE"]
        for seat in members(having):
            if not self._world.sources(seat, ON):
                return seat
        raise _StuckError

    def _deed(self, deed: tuple[frozenset[str], int, tuple[Test, ...]]) -> tuple[str, *tuple[int, ...]]:
        actions, node, _ = deed
        action = min(actions)
        if actions & _RESTING:
            if not self._world.seated():
                bed = self._any_seat(IS.LYING)
                self._reach(bed)
                self._do("LIE", bed)
            return (action,)
        nodes: tuple[int, ...] = (node,)
        if node < 0 or action == "POUR":
            action, nodes = self._as_in_program(actions, node)
            node = nodes[0]
        if action in _IN_HAND:
            self._hold(node)
        elif action == "POUR":
            self._hold(node)
            self._reach(nodes[1])
        elif action == "WIPE":
            if not self._held():
                self._hold(self._something())
            self._reach(node)
        elif action in _FROM_AFAR:
            if not self._known(node):
                self._reach(node)
            if action in ("WATCH", "LOOKAT", "POINTAT") and not self._world.faces(node):
                self._do("TURNTO", node)
        elif action in ("CLOSE", "OPEN"):
            self._reach(node)
            if not self._world.cells[node * WIDTH + STATES] & (IS.OPEN if action == "CLOSE" else IS.CLOSED):
                self._make(node, IS.OPEN if action == "CLOSE" else IS.CLOSED)
        else:
            self._reach(node)
        return action, *nodes

    def _as_in_program(self, actions: frozenset[str], node: int) -> tuple[str, tuple[int, ...]]:
        for command in self._activity.program:
            line = self._activity.lexicon.words.line(command)
            if line is None or line.action not in actions or not line.things:
                continue
            nodes = tuple([self._world.scene.index[thing] for _, thing in line.things])
            if node in (-1, nodes[0]):
                return line.action, nodes
        raise _StuckError

    # Hands and feet.

    def _hold(self, thing: int, keep: list[int] | None = None) -> None:
        if thing in self._held():
            return
        self._free_a_hand(keep or [])
        inside = self._world.cells[thing * WIDTH + INSIDE] & ~self._world.scene.rooms
        for box in members(inside):
            if self._world.cells[box * WIDTH + STATES] & IS.CLOSED:
                self._make(box, IS.OPEN)
        self._reach(thing)
        self._do("GRAB", thing)

    def _reach(self, node: int) -> None:
        world = self._world
        if world.near(node):
            if not self._known(node):
                self._do("FIND", node)
            return
        if world.cells[self._me * WIDTH + STATES] & (IS.SITTING | IS.LYING):
            self._do("STANDUP")
        for _ in range(_MOST_TRIES):
            start, room = world.room(self._me), world.room(node)
            if start is None or room is None:
                raise _StuckError
            if world.passable_door(node, start):
                break
            doors = world.closed_doors(start, room)
            if doors is None:
                raise _StuckError
            if not doors or doors[-1] == node:
                break
            self._do("WALK", doors[-1])
            self._free_a_hand()
            self._do("OPEN", doors[-1])
        self._do("WALK", node)

    def _free_a_hand(self, keep: list[int] | tuple[()] = ()) -> None:
        held = self._held()
        if len(held) < 2:
            return
        wanted = {slot // WIDTH for slot, _, _ in self._tests.cells} | {node for _, node, _ in self._tests.deeds}
        loose = sorted((thing for thing in held if thing not in keep), key=lambda thing: thing in wanted)
        if not loose:
            raise _StuckError
        if not self._known(loose[0]):
            self._do("FIND", loose[0])
        self._do("DROP", loose[0])

    def _something(self) -> int:
        world = self._world
        able = world.scene.having["GRABBABLE"]
        free = [node for node in members(able) if not world.shut(node) and node not in self._held()]
        near = [node for node in free if world.near(node)]
        for nodes in ([node for node in near if self._known(node)], near, free):
            if nodes:
                return nodes[0]
        raise _StuckError

    def _held(self) -> list[int]:
        return list(members(self._world.in_hands()))

    def _known(self, node: int) -> bool:
        return self._world.scene.things[node] in self._world.found

    def _do(self, action: str, *nodes: int) -> None:
        if len(self.lines) >= _MOST_LINES or not self._world.perform(action, nodes).ok:
            raise _StuckError
        self.lines.append((action, *nodes))
        self._done = self._tests.advance(self._world.cells, self._done, action, nodes[0] if nodes else -1)


#: Synonyms, counted once.
_SAME = {
    "RINSE": "WASH", "SCRUB": "WASH", "WIPE": "WASH", "LIE": "SIT", "RELEASE": "DROP", "PUTBACK": "PUT", "PUTIN": "PUT",
    "PUTOBJBACK": "PUT", "POUR": "PUT", "RUN": "WALK", "FIND": "WALK",
}  # fmt: skip


def least(activity: Activity, world: World, known: int, done: int) -> int:
    """Return a lower bound of the number of commands to the goal; `known` is the set of discovered nodes.

    It counts the different actions that the goal needs, and each thing to discover (one per walk or `find`).
    """
    return _Needs(activity, world, known, done).count()


class _Needs:
    """The certain needs of a goal from one state on.

    `acts`: actions with their nodes (-1: any or none); `nodes`: nodes that must be known; `near`: and near; `boxes`:
    closed containers of needed things, to be opened or taken in hand (which empties them); `missing`: at least one
    change or deed is needed; `faces`: the character has to turn; `wipes`: any thing has to be in hand.
    """

    def __init__(self, activity: Activity, world: World, known: int, done: int) -> None:
        self._world = world
        self._known = known
        self._me = world.scene.character
        self._held = world.in_hands()
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
        for actions, node, _ in sorted(deeds, key=lambda deed: deed[1] < 0):  # these may be among the known actions
            self._deed(actions, node)

    def count(self) -> int:
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
            if target == self._me:  # taken off or grabbed; walking removes what is inside the character
                if relation == ON:
                    self._need(node, near=False)
            elif not (self._taken | self._world.scene.rooms) >> target & 1:
                self._hold(node)

    def _states(self, node: int, wanted: int) -> None:
        if node == self._me:
            if wanted & (IS.SITTING | IS.LYING):
                self.acts.add(("SIT", -1, -1))
            return
        bits = self._world.cells[node * WIDTH + STATES]
        for state, (action, _) in _MAKING.items():
            if wanted & state:
                self._act(action, node)
        if wanted & IS.ON and bits & IS.PLUGGED_OUT:
            self._act("PLUGIN", node)
        if wanted & IS.OPEN and bits & IS.ON:
            self._act("SWITCHOFF", node)

    def _own(self, relation: int, bits: int, wanted: int) -> None:
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
        shut = able["CAN_OPEN"] & ~able["RECIPIENT"] & 1 << target and not world.states(target) & IS.OPEN
        if relation == INSIDE and shut:
            self._open(target)

    def _hold(self, thing: int) -> None:
        self._need(thing)
        if self._held >> thing & 1:
            return
        self.acts.add(("GRAB", thing, -1))
        for box in members(self._world.related(thing, INSIDE) & ~self._world.scene.rooms):
            if self._world.states(box) & IS.CLOSED:
                if not self._taken >> box & 1:
                    self._open(box)
                elif not self._held >> box & 1:
                    self.boxes.add(box)
                    self._need(box)

    def _open(self, box: int) -> None:
        self._act("OPEN", box)
        if self._world.states(box) & IS.ON:
            self._act("SWITCHOFF", box)

    def _deed(self, actions: frozenset[str], node: int) -> None:
        names = {_SAME.get(action, action) for action in actions}
        if "WALK" in names:  # each thing to discover is counted already
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
        if names == {"CLOSE"} and self._world.states(node) & IS.CLOSED:
            self._open(node)

    def _act(self, action: str, node: int) -> None:
        self.acts.add((action, node, -1))
        self._need(node)

    def _need(self, node: int, near: bool = True) -> None:
        self.nodes |= 1 << node
        if near:
            self.near |= 1 << node
