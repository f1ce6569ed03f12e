"""The adapter of `replay_check.py`, which lies beside the recordings: the project's VirtualHome as it asks for it.

`load` and `wrap` are what the header of that checker says.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from agentgym.virtualhome.goals import Goal
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import RELATION_NAMES, STATES, WIDTH, Edge, Scene, members, states_of
from agentgym.virtualhome.spa.episode import Sight, SpaEpisode


class Watched(World):
    """The simulator, asked what the last line changed."""

    last = 0

    def step(self, line: str) -> Any:
        self.last = self.mark()
        return super().step(line)

    def changes(self) -> tuple[list[Edge], list[Edge], list[tuple[int, list[str]]]]:
        """Return the edges that were added and removed, and (id, sorted states) of nodes with changed states."""
        ids = self.scene.ids
        added, removed, states = list[Edge](), list[Edge](), list[tuple[int, list[str]]]()
        for slot, old in self.changes_since(self.last).items():
            node, cell = divmod(slot, WIDTH)
            now = self.cells[slot]
            if cell == STATES and now != old:
                states.append((ids[node], states_of(now)))
            elif cell < STATES:
                for nodes, edges in ((now & ~old, added), (old & ~now, removed)):
                    edges += ((ids[node], RELATION_NAMES[cell], ids[other]) for other in members(nodes))
        return added, removed, states


def load(graph: dict[str, Any], dialect: str) -> Watched:
    """Return an episode of the simulator."""
    return Watched(Scene.from_graph(graph), dialect)


class Replayed(SpaEpisode):
    """An episode of the papers' protocol."""

    def step(self, reply: str) -> tuple[str, set[str], list[str], bool, str | None]:
        """Play a reply, and return what the checker compares."""
        turn = self.reply(reply)
        sight = turn.sight or Sight((), (), ())
        return turn.kind, {*sight.things, *sight.relations}, list(sight.held), turn.reached, turn.line


def wrap(
    graph: dict[str, Any], object_ids: dict[str, int], goal: dict[str, Any], choose: Callable[[Sequence[int]], int]
) -> Replayed:
    """Return an episode of the papers' protocol, on the simulator as it was: without the repair that the papers had."""
    scene = Scene.from_graph(graph)
    revised = Goal(
        exact=tuple((node["id"], frozenset(node["states"])) for node in goal["nodes"]),
        edges=tuple(map(triple, goal["revised_add_edges"])),
        without=tuple(map(triple, goal["revised_nodes"])),
    ).tests(scene)
    return Replayed(World(scene, "head"), lambda cells: not revised.missing(cells, 0), object_ids, choose)


def triple(edge: dict[str, Any]) -> Edge:
    """Return an edge as the project writes it."""
    return edge["from_id"], edge["relation_type"], edge["to_id"]
