"""State graphs of tasks: states as nodes, steps as edges, distances to success."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra

from agentgym.checks import is_number
from agentgym.trajectory import Bools, Floats, Ints, StepTable
from agentgym.trajectory.forks import counts_so_far, latest
from wrappers.credit.group import counting_sort, largest_of, number_pairs, visit_advantages
from wrappers.credit.options import StatisticsOptions, finite_numbers, option

Invalid = Literal["bypass", "self_loop", "keep"]

#: First words of actions that only look: ALFWorld answers them with a text and does not change the world.
NO_CHANGE_ACTIONS = ("look", "inventory", "examine")


class PruningOptions(TypedDict, total=False):
    """Treatment of rows that did not change the state."""

    invalid: Annotated[Invalid, option(
        "bypass", 'rows that did not change the state: "bypass", not in the graph and in no group; "self_loop", a '
        'transition from the state to itself; or "keep", every row as recorded', authors="keep",
    )]  # fmt: skip
    no_change_actions: Annotated[
        tuple[str, ...], option(NO_CHANGE_ACTIONS, 'first words of actions that only look; not for "keep"')
    ]
    noise_states: Annotated[tuple[str, ...], option(
        (), 'texts that are answers, not states, such as ("Nothing happens.",): rows that lead to one changed '
        'nothing; not for "keep"',
    )]  # fmt: skip


class Transitions(NamedTuple):
    """Each row as a transition between state ids of the table.

    source, target: int64 (N,), states before and after, with bypasses resolved. scored: bool (N,), the row is an edge
    of the graph and a member of its state's group.
    """

    source: Ints
    target: Ints
    scored: Bools


def transitions(
    table: StepTable,
    invalid: Invalid = "bypass",
    no_change_actions: tuple[str, ...] = NO_CHANGE_ACTIONS,
    noise_states: tuple[str, ...] = (),
) -> Transitions:
    """Return the transitions of a table.

    A refused action is answered with a noise text ("Nothing happens."), an action that only looks with a description.
    As states these would be hubs that join unrelated situations. The state of an episode is therefore the target of its
    last *changing* step. Where rows are missing (a row does not begin in the state shown before), the row is taken as
    it is.

    Args:
        invalid: treatment of rows that are invalid, only look, show a noise state, or return to their own state.
            "bypass": not in the graph, in no group; "self_loop": an edge from the state to itself; "keep": every row as
            recorded, noise states included.
        no_change_actions: first words of actions that only look (case-sensitive).
        noise_states: texts that are answers, not states, such as "Nothing happens."; a row that leads to one changed
            nothing, even if it counts as valid (published environments call every well-formed reply valid).
    """
    if invalid == "keep" or len(table) == 0:
        return Transitions(table.state, table.next_state, np.ones(len(table), np.bool_))
    looks = np.fromiter((_looks(a, no_change_actions) for a in table.actions), np.bool_, len(table.actions))
    changes = table.valid & ~looks[table.action]
    if noise_states:
        words = frozenset(noise_states)
        noise = np.fromiter((state in words for state in table.states), np.bool_, len(table.states))
        changes &= ~noise[table.next_state]
    previous, root = table.previous, table.previous < 0
    begins = root | (table.state != table.next_state[previous])
    start = latest(table, begins)
    # The last changing row before each row counts where it is of the same unbroken run.
    before = np.where(root, -1, latest(table, changes)[previous])
    turn = counts_so_far(table, np.ones(len(table), np.bool_))
    reached = (before >= 0) & (turn[before] >= turn[start])
    source = np.where(reached, table.next_state[before], table.state[start])
    moved = changes & (table.next_state != source)
    scored = moved if invalid == "bypass" else np.ones(len(table), np.bool_)
    return Transitions(source, np.where(moved, table.next_state, source), scored)


def _looks(action: object, words: tuple[str, ...]) -> bool:
    return isinstance(action, str) and action.startswith(words) and action.split(None, 1)[0] in words


#: Success states of a group that `aggregate="mean"` takes.
_MOST_GOALS = 1000

Unreachable = Literal["infinite", "d_max+1"]
Aggregate = Literal["min", "mean"]
Unit = Literal["visit", "edge"]


class GraphOptions(PruningOptions, total=False):
    """Options of all graph methods."""

    success_value: Annotated[float, option(1.0, "value at success, for values by distance")]
    unreachable: Annotated[Unreachable, option(
        "infinite", 'distance of a state without a path to success: "infinite" (value 0), or one more than the '
        "largest of its group",
    )]  # fmt: skip
    unit: Annotated[
        Unit, option("visit", 'members of a comparison at a state: every "visit", or every distinct "edge" once')
    ]


@dataclass(frozen=True, eq=False)
class StateGraph:
    """State graphs of all groups of a table: a node is a (group, state), so no edge joins two groups.

    Success nodes are the last states of won trajectories. V nodes in order of group, then state id; N rows.

    Attributes:
        node_group: int64 (V,).
        node_state: int64 (V,), index into `states`.
        success: bool (V,).
        source: int64 (N,), node each row starts in.
        target: int64 (N,), node each row leads to.
        action: int64 (N,), the table's actions.
        is_edge: bool (N,), False for rows that were bypassed.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> graph = StateGraph.from_table(table)
    >>> graph.by_state(graph.hop_distance())
    {'s': 2.0, 'u': 1.0, 'goal': 0.0, 'pit': inf}
    """

    node_group: Ints
    node_state: Ints
    success: Bools
    source: Ints
    target: Ints
    action: Ints
    is_edge: Bools
    n_groups: int
    n_actions: int
    states: tuple[Hashable, ...]

    @classmethod
    def from_table(cls, table: StepTable, steps: Transitions | None = None) -> StateGraph:
        """Build the graphs in O(N + states + groups), from `steps` or by default the rows as recorded."""
        steps = transitions(table, "keep") if steps is None else steps
        n = len(table)
        goals = table.last[table.trajectory_won]
        state = np.concatenate((steps.source, steps.target, table.next_state[goals]))
        group = np.concatenate((table.group, table.group, table.group[goals]))
        node, example = number_pairs(group, table.n_groups, state, len(table.states))
        success = np.zeros(len(example), np.bool_)
        success[node[2 * n :]] = True
        return cls(
            node_group=group[example], node_state=state[example], success=success, source=node[:n],
            target=node[n : 2 * n], action=table.action, is_edge=steps.scored, n_groups=table.n_groups,
            n_actions=len(table.actions), states=table.states,
        )  # fmt: skip

    @property
    def n_nodes(self) -> int:
        return len(self.node_state)

    @cached_property
    def edges(self) -> tuple[Ints, Ints]:
        """Distinct edges (source, action, target): id int64 (N,) of each row's edge, and first row int64 (K,) of each.

        The id has no meaning where `is_edge` is False.
        """
        pair, example = number_pairs(self.source, self.n_nodes, self.target, self.n_nodes)
        return number_pairs(pair, len(example), self.action, self.n_actions)

    def hop_distance(self, aggregate: Aggregate = "min") -> Floats:
        """Return float64 (V,): fewest steps to success, inf without a path.

        Args:
            aggregate: "min": to the nearest success node of the group, in O(V + E); "mean": the mean over the reachable
                success nodes of the group, O(V + E) for each of the largest number of success nodes in a group.

        Raises:
            ValueError: with "mean", when a group has more than 1,000 success nodes.
        """
        goals = np.flatnonzero(self.success)
        if aggregate == "min":
            return self._hops_to(goals)
        # Goals are in order of group: number them within it, and search for the first of every group, the second, ...
        first = np.searchsorted(self.node_group[goals], self.node_group[goals])
        rank = np.arange(len(goals)) - first
        if rank.max(initial=0) >= _MOST_GOALS:
            raise ValueError(
                f"aggregate='mean' searches once for every success state of a group, at most {_MOST_GOALS} times; "
                f"a group has {int(rank.max()) + 1}: merge them, or use aggregate='min'"
            )
        total, count = np.zeros(self.n_nodes), np.zeros(self.n_nodes)
        for number in range(int(rank.max(initial=-1)) + 1):
            hops = self._hops_to(goals[rank == number])
            found = np.isfinite(hops)
            total[found] += hops[found]
            count += found
        return np.where(count > 0, total / np.maximum(count, 1.0), np.inf)

    def _hops_to(self, goals: Ints) -> Floats:
        distance = np.full(self.n_nodes, np.inf)
        source, target = self.source[self.is_edge], self.target[self.is_edge]
        root, n = self.n_nodes, len(source)
        # Rows of the matrix: what leads to each node, sorted by counting, and last what the extra node leads to.
        first = np.zeros(root + 2, np.int64)
        np.cumsum(np.bincount(target, minlength=root), out=first[1:-1])
        first[-1] = n + len(goals)
        before = np.concatenate((source[counting_sort(target, root)], goals))
        against: Any = csr_array((np.ones(len(before)), before, first), shape=(root + 1, root + 1))
        order, parent = breadth_first_order(against, root)
        # Nodes come out level by level, and a level's parents are the level before: where it ends is one look-up in
        # the parents' positions, which never decrease.
        position = np.empty(root + 1, np.int64)
        position[order] = np.arange(len(order))
        parents = position[parent[order[1:]]]
        bounds = [0, 1]
        while bounds[-1] < len(order):
            bounds.append(1 + int(parents.searchsorted(bounds[-1])))
        distance[order[1:]] = np.repeat(np.arange(len(bounds) - 2), np.diff(bounds[1:]))
        return distance

    def cost_distance(self, cost: Floats) -> Floats:
        """Return float64 (V,): least total cost to a success node of the group, inf without a path; O(E log V).

        Raises:
            ValueError: when a cost (float64 (N,), per row) is not positive and finite.
        """
        if not (np.isfinite(cost) & (cost > 0)).all():
            row = int(np.argmin(np.isfinite(cost) & (cost > 0)))
            raise ValueError(f"costs must be positive and finite; row {row} costs {cost[row]}")
        goals = np.flatnonzero(self.success)
        if not len(goals):
            return np.full(self.n_nodes, np.inf)
        pair, example = number_pairs(self.target, self.n_nodes, self.source, self.n_nodes)
        cheapest = np.full(len(example), np.inf)
        np.minimum.at(cheapest, pair[self.is_edge], cost[self.is_edge])
        used = np.isfinite(cheapest)
        # int32: scipy 1.14 searches no matrix whose indices are longer.
        ends = self.target[example[used]].astype(np.int32), self.source[example[used]].astype(np.int32)
        against = csr_array((cheapest[used], ends), shape=(self.n_nodes, self.n_nodes))
        distance: NDArray[np.float64] = dijkstra(against, indices=goals, min_only=True)
        return distance

    def fill_unreachable(self, distance: Floats, how: Unreachable) -> Floats:
        """Replace inf by one more than the largest finite distance of the group (0 if none is finite)."""
        if how == "infinite":
            return distance
        finite = np.isfinite(distance)
        largest = largest_of(distance[finite], self.node_group[finite], self.n_groups)
        return np.where(finite, distance, largest[self.node_group] + 1.0)

    def values_of(self, other: StateGraph, per_node: Floats) -> Floats:
        """Return this graph's values for the nodes of another graph of the same table: float64, 0 for missing nodes."""
        group = np.concatenate((other.node_group, self.node_group))
        state = np.concatenate((other.node_state, self.node_state))
        ids, example = number_pairs(group, self.n_groups, state, len(self.states))
        values = np.zeros(len(example))
        values[ids[other.n_nodes :]] = per_node
        return values[ids[: other.n_nodes]]

    def by_state(self, per_node: Floats, group: int = 0) -> dict[Hashable, float]:
        """Return the values of one group's nodes by state key."""
        nodes = np.flatnonzero(self.node_group == group)
        return {self.states[self.node_state[node]]: float(per_node[node]) for node in nodes}


class GraphCredit(NamedTuple):
    """Results of a graph method before steps are compared.

    distance: float64 (V,), to success, inf without a path. value: float64 (V,), of nodes. step_reward: float64 (N,).
    """

    graph: StateGraph
    distance: Floats
    value: Floats
    step_reward: Floats


def discounted(distance: Floats, gamma: float) -> Floats:
    """Return gamma^distance, 0 where the distance is infinite.

    >>> discounted(np.array([0.0, 2.0, np.inf]), 0.5)
    array([1.  , 0.25, 0.  ])
    """
    known = np.isfinite(distance)
    found: Floats = np.where(known, gamma ** np.where(known, distance, 0.0), 0.0)
    return found


def step_advantages(graph: StateGraph, values: Floats, unit: Unit, options: StatisticsOptions) -> Floats:
    """Compare the steps out of each state by `values`, float64 (N,): float64 (N,), 0 for rows that are not edges.

    `unit`: statistics over every "visit", or over every distinct "edge" once with the mean of its visits (different
    where rows have their own penalties or costs). `options`: see `wrappers.credit.group.visit_advantages`.
    """
    members = means = None
    if unit == "edge":
        edge, example = graph.edges
        rows = np.flatnonzero(graph.is_edge)
        count = np.bincount(edge[rows], minlength=len(example))
        total = np.bincount(edge[rows], weights=values[rows], minlength=len(example))
        kept = graph.is_edge[example]
        members, means = example[kept], total[kept] / count[kept]
    return visit_advantages(
        values, graph.source, graph.n_nodes, options, scored=graph.is_edge, members=members, member_values=means
    )


def step_costs(table: StepTable, cost: Any) -> Floats:
    """Return float64 (N,): the cost of every row; ValueError on an invalid one, even if no row has it."""
    if isinstance(cost, Mapping):
        for action, value in cost.items():
            _check_cost(f"action {action!r}", value)
        per_action = np.fromiter((cost.get(action, 1.0) for action in table.actions), np.float64, len(table.actions))
        return per_action[table.action]
    if np.ndim(cost) == 0:
        _check_cost("every step", cost)
        return np.full(len(table), float(cost))
    if np.shape(cost) != (len(table),):
        raise ValueError(f"cost must be a number, a mapping or have shape ({len(table)},), got {np.shape(cost)}")
    return finite_numbers("cost", cost, len(table))


def _check_cost(what: str, value: Any) -> None:
    if not (isinstance(value, numbers.Real) and is_number(value) and float(value) > 0):
        raise ValueError(f"costs must be positive and finite; {what} costs {value!r:.200}")
