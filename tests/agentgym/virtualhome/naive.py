"""The simulator as the originals have it: every relation a few Python sets, every question a walk through them.

Slow, and as literal as its source allows (the files that `agentgym.virtualhome.household` names): which sets are looked
up, in which order and how often is part of it, because a lookup changes them.
"""

import copy
from functools import partialmethod

from agentgym.virtualhome.actions import BEDS, SEATS, SQUEEZED_ALSO
from agentgym.virtualhome.commands import Line
from agentgym.virtualhome.household import OriginalError, Refused
from agentgym.virtualhome.scene import Edge, Node, Scene


class Naive:
    """One episode: its graph, what the rules ask of it, and the actions."""

    def __init__(self, scene: Scene, dialect: str) -> None:
        self.v1 = dialect == "v1"
        self.nodes: dict[int, Node] = {scene.ids[p]: scene.node(p) for p in range(scene.size)}
        self.base: dict[tuple[int, str], dict[int, None]] = {}
        for a, relation, b in scene.edges():
            self.base.setdefault((a, relation), {})[b] = None
        self.new: dict[tuple[int, str], set[int]] = {}
        self.removed: dict[tuple[int, str], set[int]] = {}
        self.changed: dict[int, set[str]] = {}
        self.grabbed: dict[int, tuple[int, str]] = {}
        self.found: set[tuple[str, int]] = set()
        self.me = scene.ids[scene.character]
        self.said: list[str] = []

    # The graph.

    def get(self, node: int, relation: str) -> list[int]:
        ids = self.new.get((node, relation), set())
        ids.update(self.base.get((node, relation), {}).keys())
        ids.difference_update(self.removed.get((node, relation), set()))
        return list(ids)

    def has(self, a: int, relation: str, b: int) -> bool:
        return b in self.get(a, relation)

    def add(self, a: int, relation: str, b: int) -> None:
        if b in self.removed.get((a, relation), ()):
            self.removed[a, relation].remove(b)
        elif b not in self.base.get((a, relation), ()):
            self.new.setdefault((a, relation), set()).add(b)

    def delete(self, a: int, relation: str, b: int) -> None:
        if b in self.base.get((a, relation), ()):
            self.removed.setdefault((a, relation), set()).add(b)
        elif (a, relation) in self.new:
            self.new[a, relation].discard(b)

    def delete_all(self, node: int, relations: str) -> None:
        for relation in relations.split():
            for other in self.all():
                self.delete(node, relation, other)
                self.delete(other, relation, node)

    def both(self, a: int, b: int) -> None:
        self.add(a, "CLOSE", b)
        self.add(b, "CLOSE", a)

    def all(self) -> list[int]:
        return [*self.changed, *(node for node in self.nodes if node not in self.changed)]

    def states(self, node: int) -> set[str]:
        return self.changed.get(node, set(self.nodes[node].states))

    def mine(self) -> set[str]:
        return self.states(self.me) if self.v1 else set(self.nodes[self.me].states)

    def is_a(self, node: int, *names: str) -> bool:
        return self.nodes[node].class_name in names

    def can(self, node: int, name: str) -> bool:
        return name in self.nodes[node].properties

    def edges(self) -> set[Edge]:
        found = set()
        for a, relation in {*self.base, *self.new}:
            ids = self.new.get((a, relation), set()) | set(self.base.get((a, relation), ()))
            found |= {(a, relation, b) for b in ids - self.removed.get((a, relation), set())}
        return found

    def show(self, node: int) -> str:
        return f"<{self.nodes[node].class_name}> ({node})"

    def begin(self) -> None:
        """A new state: in dialect "head" a deep copy."""
        if not self.v1:
            self.new, self.removed = copy.deepcopy(self.new), copy.deepcopy(self.removed)

    def write(self, node: int, states: set[str]) -> None:
        self.changed[node] = states

    # Questions.

    def close(self, node: int) -> bool:
        if self.has(self.me, "CLOSE", node):
            return True
        return any(self.has(k, "CLOSE", node) or self.has(node, "ON", k) for k in self.get(self.me, "CLOSE"))

    def facing(self, node: int) -> bool:
        if self.has(self.me, "FACING", node):
            return True
        return any(self.has(k, "FACING", node) for k in self.get(self.me, "FACING"))

    def is_room(self, node: int) -> bool:
        return self.nodes[node].category == "Rooms"

    def shut(self, node: int) -> bool:
        return any("CLOSED" in self.states(k) and not self.is_room(k) for k in self.get(node, "INSIDE"))

    def room(self, node: int) -> int | None:
        if self.is_room(node):
            return node
        inside = self.get(node, "INSIDE")
        if self.v1 or len(inside) > 1:
            inside = inside if self.v1 else self.get(node, "INSIDE")
            return next((k for k in inside if self.is_room(k)), None)
        for _ in range(1000):
            if not inside:
                return None
            if self.is_room(inside[0]):
                return inside[0]
            inside = self.get(inside[0], "INSIDE")
        raise OriginalError("endless loop")

    def hand(self) -> str | None:
        return next((hand for hand in ("HOLDS_RH", "HOLDS_LH") if not self.get(self.me, hand)), None)

    def held(self) -> list[int]:
        return self.get(self.me, "HOLDS_LH") + self.get(self.me, "HOLDS_RH")

    def need(self, holds: object, message: str) -> None:
        if not holds:
            raise Refused(message)

    def wants(self, node: int, said: str, *names: str) -> None:
        """Refuse a thing that has none of these properties, in capitals, and is of none of these classes."""
        self.need(any(self.can(node, name) or self.is_a(node, name) for name in names), f"{self.show(node)} {said}")

    def need_close(self, node: int) -> None:
        self.need(self.close(node), f"{self.show(self.me)} is not close to {self.show(node)}")

    def need_held(self, node: int) -> None:
        self.need(node in self.held(), f"{self.show(self.me)} is not holding {self.show(node)}")

    def need_hand(self, node: int = 0) -> str:
        hand = self.hand()
        self.need(hand, f"{self.show(self.me)} does not have a free hand")
        return hand or ""

    def need_open(self, node: int) -> None:
        self.need(not self.shut(node), f"{self.show(node)} is inside other closed thing")

    def need_facing(self, node: int) -> None:
        self.need(self.facing(node), f"{self.show(self.me)} does not face {self.show(node)}")

    def check_doors(self, start: int, room: int | None, node: int) -> None:
        passages: dict[int, list[tuple[int, int]]] = {}
        for kind in ("door", "doorjamb"):
            for door in (each for each in self.nodes if self.is_a(each, kind)):
                rooms = self.get(door, "BETWEEN")
                if len(rooms) > 1:
                    passages.setdefault(rooms[0], []).append((rooms[1], door))
                    passages.setdefault(rooms[1], []).append((rooms[0], door))
        if start not in passages:
            raise OriginalError("KeyError")
        if room is None:
            raise OriginalError("AttributeError")
        ways = []
        for closed_too in (False, True):
            before: dict[int, tuple[int, int]] = {start: (0, 0)}
            queue = [start]
            for here in queue:
                for there, door in passages[here]:
                    if there not in before and (closed_too or "CLOSED" not in self.states(door)):
                        before[there] = here, door
                        queue.append(there)
            ways.append(before)
        if room in ways[0]:
            return
        names = self.show(start), self.show(room)
        self.need(room in ways[1], "No path between between {} and {}".format(*names))
        closed = []
        while room != start:
            room, door = ways[1][room]
            closed += [door] if "CLOSED" in self.states(door) else []
        doors = ", ".join(map(self.show, closed))
        self.need(node == closed[-1], "Door(s) {} between {} and {} is (are) closed".format(doors, *names))

    # Actions.

    def step(self, line: Line) -> tuple[bool, tuple[str, ...], str | None]:
        self.said = []
        action, things = line
        for name, number in things:
            if action in ("WALK", "RUN", "FIND"):
                if number not in self.nodes:
                    return False, (), "AttributeError"
            elif number not in self.nodes or (self.v1 and (name, number) not in self.found):
                return False, (f"<{name}> ({number}) cannot be found",), None
        try:
            getattr(self, f"do_{action.lower()}")(*[number for _, number in things])
        except Refused as refused:
            return False, (*self.said, *refused.args), None
        except OriginalError as error:
            return False, tuple(self.said), str(error)
        if action in ("WALK", "RUN", "FIND"):
            self.found.add(things[0])
        return True, tuple(self.said), None

    def check_walk(self, node: int) -> tuple[int, int]:
        room = self.room(node)
        self.need(not {"SITTING", "LYING"} & self.mine(), f"{self.show(self.me)} is sitting")
        start = self.room(self.me)
        if start is None:
            raise OriginalError("AttributeError" if self.v1 else "AssertionError")
        self.room(node)
        door = self.is_a(node, "door", "doorjamb")
        if self.v1 and not (door and (self.has(node, "BETWEEN", start) or self.has(start, "BETWEEN", node))):
            self.check_doors(start, room, node)
        if room is None:
            raise Refused
        self.room(self.me)
        return room, start

    def do_walk(self, node: int) -> None:
        room, start = self.check_walk(node)
        held = self.held()
        self.begin()
        self.delete_all(self.me, "INSIDE CLOSE FACING")
        if not self.v1:
            self.add(self.me, "INSIDE", room)
        if self.v1 or room != node:
            for box in self.get(node, "INSIDE"):
                if not self.is_room(box):
                    self.both(self.me, box)
            for part in self.all():
                if self.can(part, "BODY_PART"):
                    self.both(self.me, part)
        if self.v1:
            self.add(self.me, "INSIDE", room)
        if self.v1 or room != node:
            self.both(self.me, node)
        for thing in held:
            self.delete_all(thing, "INSIDE CLOSE FACING")
        for thing in held:
            self.both(self.me, thing)
            self.add(thing, "INSIDE", start)
        relation = "ON" if self.v1 else "INSIDE"
        if self.can(node, "SURFACES" if self.v1 else "CAN_OPEN"):
            for thing in self.all():
                if self.has(thing, relation, node):
                    self.both(self.me, thing)
        if not self.v1:
            for surface in self.get(node, "ON"):
                self.both(self.me, surface)

    do_run = do_walk

    def do_find(self, node: int) -> None:
        here = self.has(node, "ON", self.me) or self.can(node, "BODY_PART") or self.close(node)
        if not here and not {"SITTING", "LYING"} & self.mine():
            if not self.v1:
                raise OriginalError("TypeError")
            try:
                return self.do_walk(node)
            except Refused as refused:
                self.said += refused.args
        self.need_close(node)
        self.begin()
        for other in self.all():
            self.delete(self.me, "FACING", other)
        return self.both(self.me, node)

    def do_turnto(self, node: int) -> None:
        self.begin()
        for other in self.all():
            self.delete(self.me, "FACING", other)
        self.add(self.me, "FACING", node)

    def settle(self, node: int, state: str, wanted: str, limits: dict[str, int]) -> None:
        self.need_close(node)
        self.need(state not in self.mine(), f"{self.show(self.me)} is {state.lower()}")
        self.need(self.can(node, wanted), f"{self.show(node)} is not {wanted.lower()}")
        count, most = 0, limits.get(self.nodes[node].class_name, 1)
        for each in self.all():
            count += self.has(each, "ON", node)
            self.need(count < most, f"Too many things on {self.show(node)}")
        self.begin()
        self.add(self.me, "ON", node)
        if state == "SITTING":
            for each in self.get(node, "FACING"):
                self.add(self.me, "FACING", each)
        self.write(self.me, (self.mine() - {"SITTING", "LYING"}) | {state})

    do_sit = partialmethod(settle, state="SITTING", wanted="SITTABLE", limits=SEATS)
    do_lie = partialmethod(settle, state="LYING", wanted="LIEABLE", limits=BEDS)

    def do_standup(self) -> None:
        self.need({"SITTING", "LYING"} & self.mine(), f"{self.show(self.me)} is not sitting")
        self.begin()
        self.write(self.me, self.mine() - {"SITTING", "LYING"})

    def do_sleep(self) -> None:
        self.need({"SITTING", "LYING"} & self.mine(), f"{self.show(self.me)} is not lying or sitting")
        self.begin()

    do_wakeup = do_sleep

    def do_grab(self, node: int) -> None:
        self.wants(node, "is not grabbable", "GRABBABLE", "water", "child")
        self.need(self.v1 or node not in self.grabbed, f"{self.show(node)} already grabbed")
        self.need_close(node)
        self.need_open(node)
        hand = self.need_hand()
        room = self.room(self.me)
        if room is None:
            raise OriginalError("AttributeError")
        place = None
        for relation in ("ON", "INSIDE", "CLOSE"):
            place = next(((each, relation) for each in self.get(node, relation) if not self.is_room(each)), None)
            if place is not None:
                break
        self.begin()
        self.delete_all(node, "ON INSIDE CLOSE" if self.v1 else "ON INSIDE CLOSE HOLDS_LH HOLDS_RH")
        self.both(self.me, node)
        self.add(self.me, hand, node)
        self.add(node, "INSIDE", room)
        if place is not None:
            self.both(self.me, place[0])
            self.grabbed[node] = place

    def put(self, node: int, target: int, relation: str) -> None:
        self.need_held(node)
        self.need_close(target)
        shut = relation == "INSIDE" and self.can(target, "CAN_OPEN") and "OPEN" not in self.states(target)
        self.need(not shut, f"{self.show(target)} is not open or is not openable")
        self.begin()
        self.let_go(node)
        self.both(self.me, target)
        self.both(node, target)
        self.add(node, relation, target)
        self.grabbed.pop(node, None)

    def let_go(self, node: int) -> None:
        self.delete(self.me, "HOLDS_LH", node)
        self.delete(self.me, "HOLDS_RH", node)

    do_putback = partialmethod(put, relation="ON")
    do_putin = partialmethod(put, relation="INSIDE")

    def do_putobjback(self, node: int) -> None:
        self.need(node in self.grabbed, f"{self.show(node)} not grabbed")
        try:
            self.put(node, *self.grabbed[node])
        except Refused as refused:
            if self.v1:
                raise
            self.said += refused.args

    def do_drop(self, node: int) -> None:
        self.need_held(node)
        room = self.room(self.me)
        if room is None:
            raise OriginalError("AttributeError")
        self.begin()
        self.let_go(node)
        self.add(node, "INSIDE", room)
        self.grabbed.pop(node, None)

    do_release = do_drop

    def do_pour(self, node: int, target: int) -> None:
        self.wants(node, "is not pourable or drinkable", "POURABLE", "DRINKABLE")
        self.wants(target, "is not recipient", "RECIPIENT", "hands_both", "sponge", "face")
        self.need_held(node)
        self.need_close(target)
        self.begin()
        self.add(node, "INSIDE", target)
        if self.is_a(node, "water"):
            self.let_go(node)

    def do_puton(self, node: int) -> None:
        self.need_held(node)
        self.need(self.can(node, "CLOTHES"), f"{self.show(node)} is not clothes")
        self.begin()
        self.add(node, "ON", self.me)
        self.let_go(node)

    def do_putoff(self, node: int) -> None:
        if not self.v1:
            raise OriginalError("TypeError")
        self.need(self.has(node, "ON", self.me), f"{self.show(node)} is not on {self.show(self.me)}")
        self.need(self.can(node, "CLOTHES"), f"{self.show(node)} is not clothes")
        self.begin()
        self.delete(node, "ON", self.me)

    def exchange(self, node: int, gone: str, come: str) -> None:
        self.begin()
        self.write(node, (self.states(node) - {gone}) | {come})

    def do_open(self, node: int) -> None:
        self.wants(node, "can not be opened", "CAN_OPEN", "desk", "window")
        self.need_close(node)
        self.need_hand()
        self.need("CLOSED" in self.states(node), f"{self.show(node)} is not closed")
        self.need("ON" not in self.states(node), f"{self.show(node)} is still on")
        self.exchange(node, "CLOSED", "OPEN")

    def do_close(self, node: int) -> None:
        self.wants(node, "can not be opened", "CAN_OPEN", "desk", "window")
        self.need_close(node)
        self.need("OPEN" in self.states(node), f"{self.show(node)} is not open")
        self.exchange(node, "OPEN", "CLOSED")

    def switch(self, node: int, wanted: str, come: str) -> None:
        self.need(self.can(node, "HAS_SWITCH"), f"{self.show(node)} does not have a switch")
        self.need_close(node)
        self.need(wanted in self.states(node), f"{self.show(node)} is not {wanted.lower()}")
        if come == "ON":
            self.need("PLUGGED_OUT" not in self.states(node), f"{self.show(node)} is unplugged")
        self.exchange(node, wanted, come)

    do_switchon = partialmethod(switch, wanted="OFF", come="ON")
    do_switchoff = partialmethod(switch, wanted="ON", come="OFF")

    def plug(self, node: int, wanted: str, come: str) -> None:
        self.need(self.can(node, "HAS_PLUG"), f"{self.show(node)} does not have a plug")
        self.need_close(node)
        self.need_hand()
        self.need(wanted in self.states(node), f"{self.show(node)} is not {wanted.lower()}")
        if come == "PLUGGED_OUT" and "ON" in self.states(node):
            self.said.append(f"{self.show(node)} is still on")
        self.exchange(node, wanted, come)

    do_plugin = partialmethod(plug, wanted="PLUGGED_OUT", come="PLUGGED_IN")
    do_plugout = partialmethod(plug, wanted="PLUGGED_IN", come="PLUGGED_OUT")

    def do_wash(self, node: int) -> None:
        self.need_close(node)
        self.exchange(node, "DIRTY", "CLEAN")

    do_rinse = do_scrub = do_wash

    def do_wipe(self, node: int) -> None:
        self.need_close(node)
        self.need(self.held(), f"{self.show(self.me)} does not hold anything in hands")
        self.exchange(node, "DIRTY", "CLEAN")

    def do_watch(self, node: int) -> None:
        mine, room = self.room(self.me), self.room(node)
        self.wants(node, "not lookable", "LOOKABLE")
        if mine is None or room is None:
            raise OriginalError("AttributeError")
        self.need(mine == room, f"char room {self.show(mine)} is not node room {self.show(room)}")
        self.need_facing(node)
        rests = {"SITTING", "LYING"} & self.mine() and not self.is_a(node, "computer")
        faces = not rests or self.has(self.me, "FACING", node)
        self.need(faces, f"{self.show(self.me)} is not facing {self.show(node)} while sitting")
        if self.shut(node):
            self.said.append(f"{self.show(node)} is inside other closed thing")
        self.begin()

    def acted(self, node: int, needs: tuple[str | tuple[str, ...], ...]) -> None:
        """An action without an effect: its needs in turn, those of a kind of thing as `wants` takes them."""
        for need in needs:
            if isinstance(need, tuple):
                self.wants(node, *need)
            else:
                getattr(self, f"need_{need}")(node)
        self.begin()

    do_lookat = do_pointat = partialmethod(acted, needs=("facing",))
    do_touch = partialmethod(acted, needs=("close", "open"))
    do_push = partialmethod(acted, needs=("close", "open", "hand"))
    do_move = do_pull = partialmethod(
        acted, needs=(("is not movable", "MOVABLE", "chair", "curtain", "button"), "close", "open", "hand")
    )
    do_type = partialmethod(acted, needs=("close", ("does not have switch", "HAS_SWITCH", "keyboard")))
    do_squeeze = partialmethod(acted, needs=("hand", "close", ("is not clothes", "CLOTHES", *SQUEEZED_ALSO)))
    do_greet = partialmethod(acted, needs=(("is not person", "PERSON"),))
    do_read = partialmethod(acted, needs=(("is not readable", "READABLE"), "held"))
    do_drink = partialmethod(acted, needs=(("is not drinkable or not recipient", "DRINKABLE", "RECIPIENT"), "held"))

    def do_cut(self, node: int) -> None:
        self.need_hand()
        self.need_close(node)
        self.wants(node, "is not eatable", "EATABLE")
        self.wants(node, "is not cuttable", "CUTTABLE")
        knife = any("knife" in self.nodes[each].class_name for each in self.held())
        self.need(knife, f"{self.show(self.me)} is not holding a knife")
        self.begin()

    def do_eat(self, node: int) -> None:
        self.need_close(node)
        if not self.can(node, "EATABLE"):
            on_it = [each for each in self.all() if self.has(each, "ON", node)]
            self.need(on_it, f"{self.show(node)} is not eatable")
            food = any(self.can(each, "EATABLE") for each in on_it)
            self.need(food, f"none of object on {self.show(node)} is eatable")
        self.begin()
