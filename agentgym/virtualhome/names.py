"""What things are called in texts and commands: the class, and a number by the order of ids, as in `chair 2`."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.virtualhome.scene import Scene, positions


class Names:
    """The names of a scene's nodes.

    Args:
        scene: the scene.

    Attributes:
        of: name of each node, by position: "kitchen counter 1"; the character is "you".
        position: the way back, for all but the character.
    """

    __slots__ = ("_rank", "of", "position")

    def __init__(self, scene: Scene) -> None:
        names = [""] * scene.size
        seen: dict[str, int] = {}
        keys: list[tuple[str, int, int]] = []
        for node in sorted(scene.index):
            position = scene.index[node]
            words = scene.names[position].replace("_", " ")
            number = seen[words] = seen.get(words, 0) + 1
            names[position] = f"{words} {number}"
            keys.append((words, number, position))
        names[scene.character] = "you"
        ranks = [0] * scene.size
        for rank, (_, _, position) in enumerate(sorted(keys)):
            ranks[position] = rank
        self.of = tuple(names)
        self._rank = tuple(ranks)
        self.position = {name: position for position, name in enumerate(names) if position != scene.character}

    def in_order(self, nodes: int) -> list[int]:
        """Return the members of a set in the alphabetical order of their names, numbers as numbers."""
        found = positions(nodes)
        if len(found) > 1:
            found.sort(key=self._rank.__getitem__)
        return found

    def listed(self, nodes: int) -> str:
        """Return the names of a set in that order, with commas between them."""
        if not nodes & (nodes - 1):
            return self.of[nodes.bit_length() - 1] if nodes else ""
        return ", ".join([self.of[node] for node in self.in_order(nodes)])

    def together(self, nodes: Sequence[int]) -> str:
        """Return the names of nodes as a sentence lists them, in the order given: "mug 1, mug 2 and plate 1"."""
        names = [self.of[node] for node in nodes]
        return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
