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
from agentgym.virtualhome.scene import Edge, Scene
from agentgym.virtualhome.spa.episode import Sight, SpaEpisode


def load(graph: dict[str, Any], dialect: str) -> World:
    """Return an episode of the simulator."""
    return World(Scene.from_graph(graph), dialect)


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
