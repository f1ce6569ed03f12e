"""Graphs of small hand-made groups."""

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.report.state_graph import Edge, Graph, Node, build_graph, layered_positions, pick_group
from tests.playing import filled

# Group g, three episodes from s:
#   a: s -right-> u -right-> goal [success]
#   b: s -right-> u -left-> s -down-> pit
#   c: s -down-> pit, refused "up" there
ROWS = [
    ("a", 0, "s", "right", "u", True), ("a", 1, "u", "right", "goal [success]", True),
    ("b", 0, "s", "right", "u", True), ("b", 1, "u", "left", "s", True), ("b", 2, "s", "down", "pit", True),
    ("c", 0, "s", "down", "pit", True), ("c", 1, "pit", "up", "pit", False),
]  # fmt: skip
TEXTS = {"s": "board s", "u": "board u", "goal": "board goal", "pit": "board pit"}


def table(group="g", rows=ROWS, won=("a",)):
    names, t, state, action, next_state, valid = zip(*rows, strict=True)
    return filled(
        group=[group] * len(rows), trajectory=[group + name for name in names], won=[name in won for name in names],
        t=t, state=state, action=action, next_state=next_state, valid=valid,
    )  # fmt: skip


@pytest.fixture
def graph():
    advantages = np.array([3.0, 2.0, 1.0, -1.0, np.nan, np.nan, 5.0])
    return build_graph(table(), 0, TEXTS, advantages, method="grpo", stage="clone", seed=0, gamma=0.5)


def test_nodes_and_edges_by_hand(graph) -> None:
    found = {node.text: node for node in graph.nodes}
    assert {text: node.distance for text, node in found.items()} == {
        "board s": 2, "board u": 1, "board goal": 0, "board pit": None,
    }  # fmt: skip
    assert {text: node.depth for text, node in found.items()} == {
        "board s": 0, "board u": 1, "board goal": 2, "board pit": 1,
    }  # fmt: skip
    assert {text: node.visits for text, node in found.items()} == {
        "board s": 4, "board u": 2, "board goal": 0, "board pit": 1,
    }  # fmt: skip
    assert [node.text for node in graph.nodes if node.success] == ["board goal"]
    assert [node.text for node in graph.nodes if node.start] == ["board s"]
    assert (graph.task_id, graph.episodes, graph.won) == ("g", 3, 1)
    names = [node.text.removeprefix("board ") for node in graph.nodes]
    found = {(names[edge.source], edge.action, names[edge.target]): edge for edge in graph.edges}
    # Potentials with gamma 1/2: s 1/4, u 1/2, goal 1, pit 0. The refused step is no edge.
    assert {key: (edge.count, edge.gain) for key, edge in found.items()} == {
        ("s", "right", "u"): (2, 0.25),
        ("u", "right", "goal"): (1, 0.5),
        ("u", "left", "s"): (1, -0.25),
        ("s", "down", "pit"): (2, -0.25),
    }
    assert (found["s", "right", "u"].advantage, found["s", "down", "pit"].advantage) == (2.0, None)


def test_groups_by_hand() -> None:
    both = StepTable.concatenate([table("g"), table("h", ROWS[5:], won=())])
    graph = build_graph(both, 1, TEXTS, method="grpo", stage="trained", seed=0)
    assert (graph.task_id, len(graph.nodes), len(graph.edges), graph.won) == ("h", 2, 1, 0)
    # In h nobody succeeded, whatever is known about s from g.
    assert all(node.distance is None for node in graph.nodes)
    with pytest.raises(ValueError, match="group 2 holds no steps; the table has 2 groups"):
        build_graph(both, 2, TEXTS, method="grpo", stage="clone", seed=0)
    never, mixed = table("never", won=()), table("mixed")
    small = table("small", [ROWS[0], ROWS[1], ROWS[5]])
    assert pick_group(StepTable.concatenate([never, mixed])) == 1
    assert (pick_group(StepTable.concatenate([small, mixed])), pick_group(never)) == (1, 0)


def linked(depths, edges):
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


def test_layouts_cross_no_more_than_in_node_order() -> None:
    found = layered_positions(linked([0, 1, 1, 2], [(0, 1), (0, 2), (1, 3)]))
    assert [x for x, _ in found] == [0, 0.5, 0.5, 1]
    assert found[0][1] == found[3][1] == 0.5
    assert sorted(found[i][1] for i in (1, 2)) == [0.25, 0.75]
    # Drawn in node order, 1-4 and 2-3 would cross.
    edges = [(0, 1), (0, 2), (1, 4), (2, 3)]
    assert crossings(layered_positions(linked([0, 1, 1, 2, 2], edges)), edges) == 0
    one = linked([0, 1, 1, 1], [(0, 3), (0, 1), (2, 1)])
    assert (layered_positions(one), layered_positions(linked([0], []))) == (layered_positions(one), [(0.5, 0.5)])
    rng = np.random.default_rng(0)
    drawn = given = 0
    for _ in range(20):
        depths = [0, *sorted(rng.integers(1, 5, 20).tolist())]
        edges = [(a, b) for a in range(21) for b in range(21) if depths[b] == depths[a] + 1 and rng.random() < 0.25]
        by_layer = {depth: [i for i in range(21) if depths[i] == depth] for depth in set(depths)}
        plain = [(depths[i], (by_layer[depths[i]].index(i) + 0.5) / len(by_layer[depths[i]])) for i in range(21)]
        drawn += crossings(layered_positions(linked(depths, edges)), edges)
        given += crossings(plain, edges)
    assert drawn < 0.7 * given
