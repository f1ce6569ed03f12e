"""The simulator as the originals have it: every relation a few Python sets, every question a walk through them.

Slow, and as literal as its source allows (the files that `agentgym.virtualhome.household` names): which sets are looked
up, in which order and how often is part of it, because a lookup changes them.
"""

import copy

from agentgym.virtualhome.household import OriginalError, Refused
from agentgym.virtualhome.scene import Edge, Node, Scene


class NaiveGraph:
    """The graph of one episode, and what the rules ask of it."""

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

    def need_close(self, node: int) -> None:
        self.need(self.close(node), f"{self.show(self.me)} is not close to {self.show(node)}")

    def need_held(self, node: int) -> None:
        self.need(node in self.held(), f"{self.show(self.me)} is not holding {self.show(node)}")

    def need_hand(self) -> str:
        hand = self.hand()
        self.need(hand, f"{self.show(self.me)} does not have a free hand")
        return hand or ""

    def need_open(self, node: int) -> None:
        self.need(not self.shut(node), f"{self.show(node)} is inside other closed thing")

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
