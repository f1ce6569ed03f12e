"""Graphs as they are given: what a scene makes of them, and what it says of those that cannot be played."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.virtualhome.scene import ON, WIDTH, Node, Scene, members
from tests.agentgym.virtualhome.micro_house import CHARACTER, CUP, EDGES, KITCHEN, KNIFE, NODES, TABLE, house
from tests.cases import cases
from tests.refusals import refuses

GRAPH = {
    "nodes": [{**node._asdict(), "prefab_name": None} for node in NODES],
    "edges": [{"from_id": a, "relation_type": relation, "to_id": b} for a, relation, b in EDGES],
}


def test_a_scene_knows_its_graph_in_both_directions() -> None:
    scene = Scene.from_graph(GRAPH)
    assert sorted(scene.edges()) == sorted(EDGES)
    assert tuple(scene.node(position) for position in range(scene.size)) == tuple(
        node._replace(states=tuple(sorted(node.states))) for node in NODES
    )
    assert scene.shown[scene.index[CUP]] == "<cup> (6)"
    assert [scene.ids[node] for node in members(scene.rooms)] == [KITCHEN, 2]
    assert scene.ids[scene.character] == CHARACTER
    assert [scene.ids[node] for node in members(scene.having["CLOTHES"])] == [12]
    assert sorted(house(*EDGES[:3]).edges()) == sorted(EDGES)
    extra = [(CHARACTER, "CLOSE", node) for node in (TABLE, KITCHEN, KNIFE)]
    scene = house(*extra)
    assert scene.order(scene.index[CHARACTER], 3) == (TABLE, KITCHEN, KNIFE)
    later = scene.changed(add=[(CHARACTER, "CLOSE", CUP)], remove=[(CHARACTER, "CLOSE", KITCHEN)])
    assert later.order(scene.index[CHARACTER], 3) == (TABLE, KNIFE, CUP)
    scene = house()
    table, cup, knife = (scene.index[each] for each in (TABLE, CUP, KNIFE))
    assert scene.cells[table * WIDTH + 8 + ON] == 1 << cup | 1 << knife


def test_differences_are_the_graph_rebuilt() -> None:
    spoon = Node(40, "spoon", "Props", ("GRABBABLE",), ("CLEAN",))
    base = house()
    scene = base.changed([spoon], {TABLE: ["CLEAN"]}, [(40, "ON", TABLE), (CUP, "ON", TABLE)], [(CUP, "ON", TABLE)])
    edges = [edge for edge in EDGES if edge != (CUP, "ON", TABLE)]
    nodes = [node._replace(states=("CLEAN",)) if node.id == TABLE else node for node in (*NODES, spoon)]
    whole = Scene(nodes, [*edges, (40, "ON", TABLE), (CUP, "ON", TABLE)])
    for name in ("cells", "ids", "having", "classes"):
        assert getattr(scene, name) == getattr(whole, name)
    assert list(scene.edges()) == list(whole.edges())
    assert sorted(base.edges()) == sorted(EDGES)
    assert base.size == len(NODES)


@cases(
    "nodes, edges, said",
    ([Node(1, "kitchen", "Rooms")], [], "exactly one node of the class 'character', got 0"),
    ([*NODES, Node(99, "character", "")], [], "got 2"),
    ([*NODES, Node(1, "cup", "")], [], "two nodes have the id 1"),
    ([*NODES, Node(True, "cup", "")], [], "as the id of a node"),
    ([*NODES, Node(-3, "cup", "")], [], "as the id of a node"),
    ([*NODES, Node(99, "", "")], [], "class_name of node 99"),
    ([*NODES, Node(99, "cup", "", ("GRABABLE",))], [], "did you mean 'GRABBABLE'"),
    ([*NODES, Node(99, "cup", "", (), ("OPENED",))], [], "did you mean 'OPEN'"),
    (NODES, [(1, "NEAR", 2)], "unknown relation"),
    (NODES, [(1, "ON", 77)], "(1, 'ON', 77) has an id that no node has"),
    (NODES, [([], "ON", 1)], "that no node has"),
    ([*NODES, *(Node(100 + n, "cup", "") for n in range(5000))], [], "at most 5000 nodes"),
)
def test_graphs_that_cannot_be_played(nodes: list[Node], edges: list[Any], said: str) -> None:
    with pytest.raises(ValueError, match="Scene") as error:
        Scene(nodes, edges)
    assert said in str(error.value)


@cases(
    "call, said",
    (lambda: house().changed([Node(99, "character", "")]), "second node of the class 'character'"),
    (lambda: house().changed(states={77: ["OPEN"]}), "id 77"),
    (lambda: house().changed(remove=[(CUP, "INSIDE", TABLE)]), "no edge"),
    (lambda: Scene.from_graph([]), "expected a graph"),
    (lambda: Scene.from_graph({"nodes": []}), "list of 'edges'"),
    (lambda: Scene.from_graph({"nodes": [5], "edges": []}), "node 0 is not a node"),
    (lambda: Scene.from_graph({"nodes": [{"id": 1}], "edges": []}), "node 0 is not a node"),
    (lambda: Scene.from_graph({**GRAPH, "edges": [{"from_id": 1}]}), "edge 0 is not an edge"),
    (
        lambda: Scene.from_graph({**GRAPH, "edges": [{"from_id": {}, "relation_type": "on", "to_id": 1}]}),
        "that no node has",
    ),
)
def test_what_is_no_difference_and_no_graph(call: Callable[[], object], said: str) -> None:
    refuses(ValueError, said, call)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
keys = ("id", "class_name", "category", "properties", "states", "from_id", "relation_type", "to_id")
rows = st.dictionaries(st.sampled_from(keys), values | st.sampled_from(["ON", ["OPEN"], "character"]))


def refusal(graph: Any) -> str:
    """What is said of a graph; "" where it can be played."""
    try:
        Scene.from_graph(graph)
    except ValueError as error:
        return str(error)
    return ""


@given(st.dictionaries(st.sampled_from(["nodes", "edges"]), st.lists(rows | values, max_size=4) | values) | values)
def test_any_graph_is_played_or_refused_with_words(graph: Any) -> None:
    assert "Scene" in (refusal(graph) or "Scene")


@given(st.integers(0, len(GRAPH["nodes"]) - 1), st.sampled_from(keys), values)
def test_one_foul_value_is_refused_with_words(number: int, key: str, value: Any) -> None:
    nodes = [dict(row) for row in GRAPH["nodes"]]
    nodes[number][key] = value
    assert "Scene" in (refusal({"nodes": nodes, "edges": GRAPH["edges"]}) or "Scene")
