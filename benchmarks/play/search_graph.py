"""A search as a graph: states that it met, steps that it simulated."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from benchmarks.training.state_graph import Edge, Graph, Node, depths
from policies.search.tree import Node as Found
from policies.search.tree import Tree

#: More states than this nobody reads.
MOST_STATES = 400


def search_graph(tree: Tree, method: str, budget: int, seed: int) -> Graph | None:
    """Return the graph of a search, or None where it has too many states to be drawn.

    Nodes are the states of the tree, or of all simulations where the method grows none, and those of the best
    simulation; edges the steps between them. A node's visits are the simulations that it was judged by. An edge's count
    is that of the state it leads to, its gain the potential difference of `benchmarks.learning.results.Edge`, and its
    advantage the value of the step minus that of the state it begins in.

    Args:
        tree: the search.
        method: its name.
        budget: of simulated steps.
        seed: of the search.
    """
    steps = list(_steps(tree))
    names = {_name(tree.root): 0}
    for node in steps:
        names.setdefault(_name(node), len(names))
    if len(names) > MOST_STATES:
        return None
    texts, visits = [""] * len(names), [0] * len(names)
    goals: set[int] = set()
    for node in (tree.root, *steps):
        i = names[_name(node)]
        texts[i] = texts[i] or _text(node.observation)
        visits[i] += node.visits
        if node.won:
            goals.add(i)
    found: dict[tuple[int, int, str], list[Found]] = defaultdict(list)
    for node in steps:
        found[names[_name(node.before)], names[_name(node)], node.action].append(node)
    pairs = [(source, target) for source, target, _ in found]
    distance = _distances(len(names), pairs, goals)
    potential = [0.0 if hops is None else tree.worth.gamma**hops for hops in distance]
    edges = [
        Edge(source, target, action, potential[target] - potential[source], _count(nodes), _advantage(tree, nodes))
        for (source, target, action), nodes in found.items()
    ]
    depth = depths(len(names), pairs, [0])
    nodes = [
        Node(texts[i], distance[i], depth[i], visits[i], success=i in goals, start=i == 0) for i in range(len(names))
    ]
    won = sum(end.won for end in tree.ends)
    stage = f"{budget} steps"
    return Graph(method, stage, seed, tree.task, tree.cost.simulations, won, tree.worth.gamma, nodes, edges)


def _steps(tree: Tree) -> Iterator[Found]:
    """States that a step led to: those of the tree and of the best simulation, or of all where no tree has grown."""
    seen: set[int] = {id(tree.root)}
    grown = list(tree.root.walk()) if tree.root.children else [node for end in tree.ends for node in end.path]
    for node in (*grown, *tree.best.path):
        if id(node) not in seen:
            seen.add(id(node))
            yield node


def _name(node: Found) -> tuple[str, bool]:
    return node.key, node.ended


def _text(observation: Any) -> str:
    """What a state looks like: of a prompt in messages the last one."""
    if isinstance(observation, str):
        return observation
    try:
        return str(observation[-1]["content"])
    except (TypeError, KeyError, IndexError):
        return str(observation)


def _distances(count: int, pairs: list[tuple[int, int]], goals: set[int]) -> list[int | None]:
    """Fewest steps to a success over the edges; None where no way was seen."""
    hops = depths(count, [(target, source) for source, target in pairs], sorted(goals))
    return [0 if i in goals else hops[i] or None for i in range(count)]


def _count(nodes: list[Found]) -> int:
    return max(1, sum(node.visits for node in nodes))


def _advantage(tree: Tree, nodes: list[Found]) -> float | None:
    judged = [node for node in nodes if node.visits and node.before.visits]
    if not judged:
        return None
    return math.fsum(tree.action_value(node) - node.before.value for node in judged) / len(judged)
