"""The state graph of one group as a picture needs it: nodes with distances and boards, edges with gains."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import StepTable
from benchmarks.learning.results import Edge, Graph, Node
from wrappers.credit.state_graph import StateGraph

#: Discount of the potentials shown, the value of the RewardFlow paper.
GAMMA = 0.9
#: More states than this make a graph no more telling.
_ENOUGH_STATES = 60
_MARKS = (" [success]", " [failure]")


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


def text_of(key: object, texts: Mapping[str, str]) -> str:
    """Observation of a state: terminal states carry a mark behind the key of the environment."""
    name = str(key)
    for mark in _MARKS:
        name = name.removesuffix(mark)
    return texts.get(name, name)


def build_graph(
    table: StepTable,
    group: int,
    texts: Mapping[str, str],
    advantages: NDArray[np.float64] | None = None,
    *,
    method: str,
    stage: str,
    seed: int,
    gamma: float = GAMMA,
) -> Graph:
    """Collapse the steps of one group into nodes (states) and edges (state, action, next state).

    Only accepted steps make edges: a refused action changes nothing.

    Args:
        table: finished episodes.
        group: index of the group in `table.groups`.
        texts: state key -> observation.
        advantages: shape (len(table),) of the method, nan where it gave none.
        method: whose advantages these are.
        stage: whose episodes these are, see `benchmarks.learning.results.Graph`.
        seed: training seed of the policy that played.
        gamma: potential of a node is `gamma ** distance`.
    """
    rows = np.flatnonzero(table.group == group)
    if not len(rows):
        raise ValueError(f"group {group} holds no steps; the table has {table.n_groups} groups")
    ids = list(dict.fromkeys(int(s) for row in rows for s in (table.state[row], table.next_state[row])))
    node_of = {state: i for i, state in enumerate(ids)}
    taken: dict[tuple[int, int, int], list[float]] = {}
    visits = [0] * len(ids)
    starts: list[int] = []
    for row in rows:
        source, target = node_of[int(table.state[row])], node_of[int(table.next_state[row])]
        visits[source] += 1
        if table.t[row] == 0:
            starts.append(source)
        if table.valid[row]:
            value = float("nan") if advantages is None else float(advantages[row])
            taken.setdefault((source, target, int(table.action[row])), []).append(value)
    mine = [i for i in range(len(table.last)) if table.trajectory_group[i] == group]
    won = [i for i in mine if table.trajectory_won[i]]
    goals = [node_of[int(table.next_state[table.last[i]])] for i in won]
    to_success = StateGraph.from_table(table)
    found = {
        int(state): None if np.isinf(hops) else int(hops)
        for state, owner, hops in zip(
            to_success.node_state, to_success.node_group, to_success.hop_distance(), strict=True
        )
        if owner == group
    }
    distance = [found[state] for state in ids]
    depth = depths(len(ids), [(source, target) for source, target, _ in taken], starts)
    potential = [0.0 if d is None else gamma**d for d in distance]
    edges = [
        Edge(
            source,
            target,
            str(table.actions[action]),
            potential[target] - potential[source],
            len(values),
            None if np.isnan(values).all() else float(np.nanmean(values)),
        )
        for (source, target, action), values in taken.items()
    ]
    nodes = [
        Node(
            text_of(table.states[state], texts),
            distance[i],
            depth[i],
            visits[i],
            success=i in goals,
            start=i in starts,
        )
        for i, state in enumerate(ids)
    ]
    return Graph(method, stage, seed, str(table.groups[group]), len(mine), len(won), gamma, nodes, edges)


def pick_group(table: StepTable) -> int:
    """Choose the group whose graph shows most: mixed outcomes and many states; ties go to the first.

    Returns:
        Index into `table.groups`.
    """
    best, choice = -1.0, 0
    for group in range(table.n_groups):
        share = float(np.mean(table.trajectory_won[table.trajectory_group == group]))
        states = len(np.unique(table.state[table.group == group]))
        rank = (share * (1 - share)) ** 0.5 * min(states, _ENOUGH_STATES)
        if rank > best:
            best, choice = rank, group
    return choice
