"""State graphs of a group or of a search as a page draws them: nodes with distances and places, edges with gains."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import StepTable
from wrappers.credit.scores import written_tokens

if TYPE_CHECKING:
    from policies.search.tree import Node as TreeNode
    from policies.search.tree import Tree

#: Discount of the potentials shown (2603.18859).
GAMMA = 0.9
#: More states than this do not make a graph more informative.
_ENOUGH_STATES = 60
_MARKS = (" [success]", " [failure]")
#: A search of more states is not drawn.
MOST_STATES = 400
#: Sweeps of the barycentre ordering; orders settle after a handful.
_SWEEPS = 12


@dataclass(frozen=True)
class Node:
    """One state of a group, with its observation, and how many steps begin there.

    `distance`: hops to the nearest success over the group's transitions, None without one; `depth`: fewest steps from
    the start after which it was seen.
    """

    text: str
    distance: int | None
    depth: int
    visits: int
    success: bool
    start: bool


@dataclass(frozen=True)
class Edge:
    """Transitions of a group from one node (index) to another with the same action, `count` of them.

    `gain` is the rise in value, gamma^d(target) - gamma^d(source), a value of 0 for a state without success;
    `advantage` is the mean that the method gave these steps, None where it gave none.
    """

    source: int
    target: int
    action: str
    gain: float
    count: int
    advantage: float | None


@dataclass(frozen=True)
class Graph:
    """State graph of one group: `episodes` episodes of one training task, `won` of them successful.

    The stage "clone" has episodes of the clone, the same for all methods; "trained" those of the method's policy.
    """

    method: str
    stage: str
    seed: int
    task_id: str
    episodes: int
    won: int
    gamma: float
    nodes: list[Node]
    edges: list[Edge]


def depths(count: int, edges: Sequence[tuple[int, int]], starts: Sequence[int]) -> list[int]:
    """Fewest edges from any start to each of `count` nodes; 0 where no edge leads (a start, or a lone node).

    >>> depths(4, [(0, 1), (1, 2)], [0])
    [0, 1, 2, 0]
    """
    following: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        following[source].append(target)
    depth = dict.fromkeys(starts, 0)
    queue = deque(depth)
    while queue:
        node = queue.popleft()
        for target in following[node]:
            if target not in depth:
                depth[target] = depth[node] + 1
                queue.append(target)
    return [depth.get(node, 0) for node in range(count)]


def graph_of(
    texts: Sequence[str], visits: Sequence[int], goals: Set[int], starts: Sequence[int],
    taken: Mapping[tuple[int, int, str], tuple[int, float | None]], gamma: float, **about: Any,
) -> Graph:  # fmt: skip
    """Return the graph of nodes, with distances, depths and gains; `about` are the other fields of `Graph`.

    `taken` has how often an action led from one node to another, and its advantage; `goals` are nodes of success.
    """
    pairs = [(source, target) for source, target, _ in taken]
    hops = depths(len(texts), [(target, source) for source, target in pairs], sorted(goals))
    distance = [0 if i in goals else hops[i] or None for i in range(len(texts))]
    value = [0.0 if steps is None else gamma**steps for steps in distance]
    depth = depths(len(texts), pairs, starts)
    nodes = [Node(text, distance[i], depth[i], visits[i], i in goals, i in starts) for i, text in enumerate(texts)]
    edges = [
        Edge(source, target, action, value[target] - value[source], count, advantage)
        for (source, target, action), (count, advantage) in taken.items()
    ]
    return Graph(nodes=nodes, edges=edges, gamma=gamma, **about)


def build_graph(
    table: StepTable, group: int, texts: Mapping[str, str], advantages: NDArray[np.float64] | None = None,
    *, method: str, stage: str, seed: int, gamma: float = GAMMA,
) -> Graph:  # fmt: skip
    """Collapse the steps of one group into nodes (states) and edges (state, action, next state).

    Only accepted steps make edges. `texts` are observations by state key; `advantages` (N,) or (N, K), nan: none.
    """
    rows = np.flatnonzero(table.group == group)
    if not len(rows):
        raise ValueError(f"group {group} holds no steps; the table has {table.n_groups} groups")
    if advantages is not None and advantages.ndim == 2:  # of tokens
        advantages = advantages.sum(1) / written_tokens(table).sum(1)
    ids = list(dict.fromkeys(int(s) for row in rows for s in (table.state[row], table.next_state[row])))
    node_of = {state: i for i, state in enumerate(ids)}
    taken: dict[tuple[int, int, str], list[float]] = {}
    visits = [0] * len(ids)
    starts: list[int] = []
    for row in rows:
        source, target = node_of[int(table.state[row])], node_of[int(table.next_state[row])]
        visits[source] += 1
        if table.t[row] == 0:
            starts.append(source)
        if table.valid[row]:
            value = float("nan") if advantages is None else float(advantages[row])
            taken.setdefault((source, target, str(table.actions[table.action[row]])), []).append(value)
    mine = np.flatnonzero(table.trajectory_group == group)
    won = mine[table.trajectory_won[mine]]
    goals = {node_of[int(state)] for state in table.next_state[table.last[won]]}
    means = {
        edge: (len(values), None if np.isnan(values).all() else float(np.nanmean(values)))
        for edge, values in taken.items()
    }
    return graph_of(
        [_text_of(table.states[state], texts) for state in ids], visits, goals, starts, means, gamma, method=method,
        stage=stage, seed=seed, task_id=str(table.groups[group]), episodes=len(mine), won=len(won),
    )  # fmt: skip


def _text_of(key: object, texts: Mapping[str, str]) -> str:
    """Observation of a state; terminal states have a mark behind the environment's key."""
    name = str(key)
    for mark in _MARKS:
        name = name.removesuffix(mark)
    return texts.get(name, name)


def search_graph(tree: Tree, method: str, budget: int, seed: int) -> Graph | None:
    """Return the graph of a search, or None where it has more than `MOST_STATES` states.

    A node's visits are the simulations that judged it, an edge's count is its target's, and its advantage the value of
    the step minus that of its source.
    """
    taken = list(_steps(tree))
    names = {name: i for i, name in enumerate(dict.fromkeys(map(_name, (tree.root, *taken))))}
    if len(names) > MOST_STATES:
        return None
    texts, visits, goals = [""] * len(names), [0] * len(names), set[int]()
    for node in (tree.root, *taken):
        i = names[_name(node)]
        texts[i] = texts[i] or _text(node.observation)
        visits[i] += node.visits
        if node.won:
            goals.add(i)
    found: dict[tuple[int, int, str], list[TreeNode]] = defaultdict(list)
    for node in taken:
        found[names[_name(node.before)], names[_name(node)], node.action].append(node)
    edges = {
        edge: (max(1, sum(node.visits for node in nodes)), _advantage(tree, nodes)) for edge, nodes in found.items()
    }
    return graph_of(
        texts, visits, goals, [0], edges, tree.worth.gamma, method=method, stage=f"{budget} steps", seed=seed,
        task_id=tree.task, episodes=tree.cost.simulations, won=sum(end.won for end in tree.ends),
    )  # fmt: skip


def _steps(tree: Tree) -> Iterator[TreeNode]:
    """The targets of steps: of the tree and the best simulation, or of all simulations where there is no tree."""
    seen: set[int] = {id(tree.root)}
    grown = list(tree.root.walk()) if tree.root.children else [node for end in tree.ends for node in end.path]
    for node in (*grown, *tree.best.path):
        if id(node) not in seen:
            seen.add(id(node))
            yield node


def _name(node: TreeNode) -> tuple[str, bool]:
    return node.key, node.ended


def _text(observation: Any) -> str:
    """An observation as text; of a prompt in messages the last one."""
    if isinstance(observation, str):
        return observation
    try:
        return str(observation[-1]["content"])
    except (TypeError, KeyError, IndexError):
        return str(observation)


def _advantage(tree: Tree, nodes: list[TreeNode]) -> float | None:
    judged = [node for node in nodes if node.visits and node.before.visits]
    if not judged:
        return None
    return math.fsum(tree.action_value(node) - node.before.value for node in judged) / len(judged)


def pick_group(table: StepTable) -> int:
    """Return the index of the group whose graph shows most: mixed outcomes and many states; of equals the first."""
    ranks = []
    for group in range(table.n_groups):
        share = float(np.mean(table.trajectory_won[table.trajectory_group == group]))
        states = len(np.unique(table.state[table.group == group]))
        ranks.append((share * (1 - share)) ** 0.5 * min(states, _ENOUGH_STATES))
    return int(np.argmax(ranks))


def layered_positions(graph: Graph) -> list[tuple[float, float]]:
    """Place every node: x is its layer (steps from the start), y its place within the layer.

    The order within layers follows the barycentre heuristic of layered graph drawing (Sugiyama, Tagawa, Toda 1981):
    sweep to and fro, and sort each layer by the mean position of the neighbours in the layers beside it. Sorting is
    stable and starts from the node order, so that the same graph is always drawn alike.
    """
    layers: list[list[int]] = [[] for _ in range(1 + max((node.depth for node in graph.nodes), default=0))]
    for i, node in enumerate(graph.nodes):
        layers[node.depth].append(i)
    neighbours: list[set[int]] = [set() for _ in graph.nodes]
    for edge in graph.edges:
        if edge.source != edge.target:
            neighbours[edge.source].add(edge.target)
            neighbours[edge.target].add(edge.source)
    y = [0.5] * len(graph.nodes)

    def spread(layer: list[int]) -> None:
        for place, i in enumerate(layer):
            y[i] = (place + 0.5) / len(layer)

    def barycentre(node: int, beside: int) -> float:
        near = [y[other] for other in sorted(neighbours[node]) if graph.nodes[other].depth == beside]
        return sum(near) / len(near) if near else y[node]

    for layer in layers:
        spread(layer)
    for sweep in range(_SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for number in range(len(layers))[::step]:
            layers[number].sort(key=lambda i: barycentre(i, number - step))  # sorted at once
            spread(layers[number])
    last = len(layers) - 1
    return [(node.depth / last if last else 0.5, y[i]) for i, node in enumerate(graph.nodes)]


def placed(graph: Graph) -> dict[str, Any]:
    """A graph as plain values, its nodes with their places."""
    plain = dataclasses.asdict(graph)
    for node, (x, y) in zip(plain["nodes"], layered_positions(graph), strict=True):
        node["x"], node["y"] = round(x, 4), round(y, 4)
    return plain
