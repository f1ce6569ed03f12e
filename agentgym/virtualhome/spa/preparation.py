"""The papers' houses: what their wrapper takes out of a graph before an episode."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.virtualhome.scene import Edge, Scene


def prepared(scene: Scene, *, removed: Iterable[Edge] | None = None, containment: bool = False) -> Scene:
    """Return a scene as an episode of the papers begins.

    Args:
        scene: the scene of a published task.
        removed: the edges that the wrapper took out of its file, where they are known; None: `taken_out` says which.
        containment: the repair: only pairs of things inside each other are taken out. The original takes the food out
            of the freezer with them.

    Raises:
        ValueError: for an edge in `removed` that the scene does not have.
    """
    if containment:
        edges = set(scene.edges())
        removed = [edge for edge in scene.edges() if edge[1] == "INSIDE" and (edge[2], "INSIDE", edge[0]) in edges]
    elif removed is None:
        removed = taken_out(scene.edges())
    return scene.changed(remove=removed)


def taken_out(edges: Iterable[Edge]) -> list[Edge]:
    """Return the edges that the wrapper takes out of a list of different edges.

    It goes through the list, takes (a, R, b) and (b, INSIDE, a) out where both are there, and steps over what then
    moves up: which ones it meets depends on the order of the list, that of the raw file in the original.

    >>> taken_out([(1, "CLOSE", 2), (3, "CLOSE", 4), (2, "INSIDE", 1), (4, "INSIDE", 3), (3, "FACING", 4)])
    [(1, 'CLOSE', 2), (2, 'INSIDE', 1), (3, 'FACING', 4), (4, 'INSIDE', 3)]
    """
    listed = list(edges)
    place = {edge: number for number, edge in enumerate(listed)}
    gone: dict[Edge, None] = {}
    steps_over = 0
    for number, edge in enumerate(listed):
        if edge in gone:
            continue
        if steps_over:
            steps_over -= 1
            continue
        inside = (edge[2], "INSIDE", edge[0])
        if inside in place and inside not in gone:
            steps_over = 1 + (place[inside] < number)
            gone |= {edge: None, inside: None}
    return list(gone)
