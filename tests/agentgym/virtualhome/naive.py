"""The actions of the simulator as the originals have them, on sets: slow and literal (see `naive_graph`)."""

from functools import partialmethod

from agentgym.virtualhome.actions import BEDS, SEATS, SQUEEZED_ALSO
from agentgym.virtualhome.commands import Line
from agentgym.virtualhome.household import OriginalError, Refused
from tests.agentgym.virtualhome.naive_graph import NaiveGraph


class Naive(NaiveGraph):
    """One episode."""

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
        takes = self.can(node, "GRABBABLE") or self.is_a(node, "water", "child")
        self.need(takes, f"{self.show(node)} is not grabbable")
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
        liquid = self.can(node, "POURABLE") or self.can(node, "DRINKABLE")
        self.need(liquid, f"{self.show(node)} is not pourable or drinkable")
        vessel = self.can(target, "RECIPIENT") or self.is_a(target, "hands_both", "sponge", "face")
        self.need(vessel, f"{self.show(target)} is not recipient")
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
        opens = self.can(node, "CAN_OPEN") or self.is_a(node, "desk", "window")
        self.need(opens, f"{self.show(node)} can not be opened")
        self.need_close(node)
        self.need_hand()
        self.need("CLOSED" in self.states(node), f"{self.show(node)} is not closed")
        self.need("ON" not in self.states(node), f"{self.show(node)} is still on")
        self.exchange(node, "CLOSED", "OPEN")

    def do_close(self, node: int) -> None:
        opens = self.can(node, "CAN_OPEN") or self.is_a(node, "desk", "window")
        self.need(opens, f"{self.show(node)} can not be opened")
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

    def do_lookat(self, node: int) -> None:
        self.need(self.facing(node), f"{self.show(self.me)} does not face {self.show(node)}")
        self.begin()

    do_pointat = do_lookat

    def do_watch(self, node: int) -> None:
        mine, room = self.room(self.me), self.room(node)
        self.need(self.can(node, "LOOKABLE"), f"{self.show(node)} not lookable")
        if mine is None or room is None:
            raise OriginalError("AttributeError")
        self.need(mine == room, f"char room {self.show(mine)} is not node room {self.show(room)}")
        self.need(self.facing(node), f"{self.show(self.me)} does not face {self.show(node)}")
        rests = {"SITTING", "LYING"} & self.mine() and not self.is_a(node, "computer")
        faces = not rests or self.has(self.me, "FACING", node)
        self.need(faces, f"{self.show(self.me)} is not facing {self.show(node)} while sitting")
        if self.shut(node):
            self.said.append(f"{self.show(node)} is inside other closed thing")
        self.begin()

    def do_touch(self, node: int) -> None:
        self.need_close(node)
        self.need_open(node)
        self.begin()

    def do_move(self, node: int) -> None:
        moves = self.can(node, "MOVABLE") or self.is_a(node, "chair", "curtain", "button")
        self.need(moves, f"{self.show(node)} is not movable")
        self.do_push(node)

    do_pull = do_move

    def do_push(self, node: int) -> None:
        self.need_close(node)
        self.need_open(node)
        self.need_hand()
        self.begin()

    def do_type(self, node: int) -> None:
        self.need_close(node)
        types = self.is_a(node, "keyboard") or self.can(node, "HAS_SWITCH")
        self.need(types, f"{self.show(node)} does not have switch")
        self.begin()

    def do_squeeze(self, node: int) -> None:
        self.need_hand()
        self.need_close(node)
        soft = self.can(node, "CLOTHES") or self.is_a(node, *SQUEEZED_ALSO)
        self.need(soft, f"{self.show(node)} is not clothes")
        self.begin()

    def do_cut(self, node: int) -> None:
        self.need_hand()
        self.need_close(node)
        self.need(self.can(node, "EATABLE"), f"{self.show(node)} is not eatable")
        self.need(self.can(node, "CUTTABLE"), f"{self.show(node)} is not cuttable")
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

    def do_greet(self, node: int) -> None:
        self.need(self.can(node, "PERSON"), f"{self.show(node)} is not person")
        self.begin()

    def do_read(self, node: int) -> None:
        self.need(self.can(node, "READABLE"), f"{self.show(node)} is not readable")
        self.need_held(node)
        self.begin()

    def do_drink(self, node: int) -> None:
        drinks = self.can(node, "DRINKABLE") or self.can(node, "RECIPIENT")
        self.need(drinks, f"{self.show(node)} is not drinkable or not recipient")
        self.need_held(node)
        self.begin()
