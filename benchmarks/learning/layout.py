"""Where the nodes of a state graph are drawn: layers by depth, ordered so that few edges cross."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.learning.results import Graph

#: Sweeps of the barycentre ordering; orders settle after a handful.
_SWEEPS = 12


def layered_positions(graph: Graph) -> list[tuple[float, float]]:
    """Place every node: x is its layer (steps from the start), y its place within the layer.

    The order within layers follows the barycentre heuristic of layered graph drawing (Sugiyama, Tagawa, Toda 1981):
    sweep to and fro, and sort each layer by the mean position of the neighbours in the layers beside it. Sorting is
    stable and starts from the node order, so that the same graph is always drawn alike.

    Returns:
        One (x, y) per node, both in 0..1; a single layer or node lies at 0.5.
    """
    layers: list[list[int]] = []
    for i, node in enumerate(graph.nodes):
        while len(layers) <= node.depth:
            layers.append([])
        layers[node.depth].append(i)
    neighbours: list[set[int]] = [set() for _ in graph.nodes]
    for edge in graph.edges:
        if edge.source != edge.target:
            neighbours[edge.source].add(edge.target)
            neighbours[edge.target].add(edge.source)
    y = _spread(layers, len(graph.nodes))
    for sweep in range(_SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for number in range(len(layers))[::step]:
            beside = number - step
            layers[number].sort(key=lambda i: _barycentre(i, neighbours, y, graph, beside))
            for place, i in enumerate(layers[number]):
                y[i] = (place + 0.5) / len(layers[number])
    last = max(len(layers) - 1, 1)
    return [(node.depth / last if len(layers) > 1 else 0.5, y[i]) for i, node in enumerate(graph.nodes)]


def _spread(layers: Sequence[Sequence[int]], count: int) -> list[float]:
    y = [0.5] * count
    for layer in layers:
        for place, i in enumerate(layer):
            y[i] = (place + 0.5) / len(layer)
    return y


def _barycentre(node: int, neighbours: Sequence[set[int]], y: Sequence[float], graph: Graph, beside: int) -> float:
    near = [y[other] for other in sorted(neighbours[node]) if graph.nodes[other].depth == beside]
    return sum(near) / len(near) if near else y[node]
