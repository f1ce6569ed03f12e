"""Where nodes are drawn."""

import numpy as np

from benchmarks.learning.layout import layered_positions
from benchmarks.learning.results import Edge, Graph, Node


def graph(depths, edges):
    nodes = [Node("", None, depth, 1, success=False, start=depth == 0) for depth in depths]
    return Graph("m", "clone", 0, "t", 1, 0, 0.9, nodes, [Edge(a, b, "x", 0.0, 1, None) for a, b in edges])


def crossings(found, edges):
    """Naive count: pairs of edges between the same two columns whose ends are in opposite order."""
    count = 0
    for i, (a, b) in enumerate(edges):
        for c, d in edges[i + 1 :]:
            if found[a][0] == found[c][0] and found[b][0] == found[d][0]:
                count += (found[a][1] - found[c][1]) * (found[b][1] - found[d][1]) < 0
    return count


def test_columns_are_steps_from_the_start():
    found = layered_positions(graph([0, 1, 1, 2], [(0, 1), (0, 2), (1, 3)]))
    assert [x for x, _ in found] == [0, 0.5, 0.5, 1]
    assert found[0][1] == found[3][1] == 0.5
    assert sorted(found[i][1] for i in (1, 2)) == [0.25, 0.75]


def test_crossed_edges_are_uncrossed():
    # Drawn in node order, 1-4 and 2-3 would cross.
    edges = [(0, 1), (0, 2), (1, 4), (2, 3)]
    assert crossings(layered_positions(graph([0, 1, 1, 2, 2], edges)), edges) == 0


def test_random_graphs_cross_no_more_than_in_node_order_on_the_whole():
    rng = np.random.default_rng(0)
    drawn = given = 0
    for _ in range(20):
        depths = [0, *sorted(rng.integers(1, 5, 20).tolist())]
        edges = [(a, b) for a in range(21) for b in range(21) if depths[b] == depths[a] + 1 and rng.random() < 0.25]
        by_layer = {depth: [i for i in range(21) if depths[i] == depth] for depth in set(depths)}
        plain = [(depths[i], (by_layer[depths[i]].index(i) + 0.5) / len(by_layer[depths[i]])) for i in range(21)]
        drawn += crossings(layered_positions(graph(depths, edges)), edges)
        given += crossings(plain, edges)
    assert drawn < 0.7 * given


def test_the_same_graph_is_drawn_alike_and_a_lone_node_in_the_middle():
    one = graph([0, 1, 1, 1], [(0, 3), (0, 1), (2, 1)])
    assert layered_positions(one) == layered_positions(one)
    assert layered_positions(graph([0], [])) == [(0.5, 0.5)]
