"""What is shown, and the key of a state, from a plain set of edges: nothing is remembered (see `naive_graph`)."""

from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import Edge, Scene

#: States that are mentioned, in this order.
_WORDS = {"OPEN": "open", "CLOSED": "closed", "ON": "on", "OFF": "off", "PLUGGED_OUT": "unplugged", "DIRTY": "dirty"}


class NaiveView:
    """The texts of a state that is not going to change.

    Args:
        world: the state.
    """

    def __init__(self, world: World) -> None:
        self.scene: Scene = world.scene
        self.edges: set[Edge] = set(world.edges())
        self.states = {node: names for node, _, names in world.nodes()}
        self.me = self.scene.ids[self.scene.character]
        self.names: dict[int, tuple[str, int]] = {}
        for node in sorted(self.scene.ids):
            words = self.scene.names[self.scene.index[node]].replace("_", " ")
            self.names[node] = words, 1 + sum(words == other for other, _ in self.names.values())

    def is_a(self, node: int, name: str) -> bool:
        return name in self.scene.properties[self.scene.index[node]]

    def is_room(self, node: int) -> bool:
        return self.scene.categories[self.scene.index[node]] == "Rooms"

    def get(self, node: int, relation: str) -> list[int]:
        return [b for a, name, b in self.edges if (a, name) == (node, relation)]

    def listed(self, nodes: list[int]) -> str:
        # the character has a number too, where it is sorted
        said = {node: "you" if node == self.me else "{} {}".format(*self.names[node]) for node in nodes}
        return ", ".join(said[node] for node in sorted(nodes, key=self.names.__getitem__))

    def look(self, node: int, held: bool) -> str:
        text = self.listed([node])
        states = [word for name, word in _WORDS.items() if name in self.states[node]]
        if states:
            text += f" ({', '.join(states)})"
        if held:
            return text
        if self.get(node, "ON"):
            text += f" on {self.listed(self.get(node, 'ON'))}"
        boxes = [box for box in self.get(node, "INSIDE") if not self.is_room(box)]
        if boxes:
            text += f" in {self.listed(boxes)}"
        if self.is_a(node, "CONTAINERS") and "OPEN" in self.states[node]:
            content = [a for a, name, b in self.edges if (name, b) == ("INSIDE", node)]
            text += f" with {self.listed(content) or 'nothing'} in it"
        return text

    def location(self) -> str:
        rooms = [room for room in self.get(self.me, "INSIDE") if self.is_room(room)]
        where = self.listed([min(rooms)]) if rooms else "no room"
        posture = next((name.lower() for name in ("SITTING", "LYING") if name in self.states[self.me]), "")
        return f"{where}, {posture}" if posture else where

    def surroundings(self) -> str:
        where = self.location()
        if "," in where and self.get(self.me, "ON"):
            where += f" on {self.listed(self.get(self.me, 'ON'))}"
        held = {*self.get(self.me, "HOLDS_RH"), *self.get(self.me, "HOLDS_LH")}
        near = [
            node
            for node in self.get(self.me, "CLOSE")
            if node not in held and node != self.me and not self.is_room(node) and not self.is_a(node, "BODY_PART")
        ]
        looks = [self.look(node, False) for node in sorted(near, key=self.names.__getitem__)]
        hands = [self.look(node, True) for node in sorted(held, key=self.names.__getitem__)]
        worn = [a for a, name, b in self.edges if (name, b) == ("ON", self.me) and self.is_a(a, "CLOTHES")]
        wearing = f" You wear {self.listed(worn)}." if worn else ""
        return (
            f"You are in {where}.\nNear you: {'; '.join(looks) or 'nothing'}.\n"
            f"You hold {', '.join(hands) or 'nothing'}.{wearing}"
        )
