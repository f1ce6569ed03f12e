"""State graphs per task that grow step by step and maintain the distance of each state to success."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.checks import whole
from agentgym.trajectory import StepTable


@dataclass(slots=True)
class _Graph:
    before: dict[Hashable, dict[Hashable, None]] = field(default_factory=dict)
    distance: dict[Hashable, int] = field(default_factory=dict)

    def add(self, state: Hashable, next_state: Hashable, success: bool) -> None:
        before, distance = self.before, self.distance
        before.setdefault(state, {})
        before.setdefault(next_state, {})
        if state != next_state:
            before[next_state][state] = None
        if success and distance.get(next_state) != 0:
            self._lower(next_state, 0)
        elif next_state in distance and distance[next_state] + 1 < distance.get(state, math.inf):
            self._lower(state, distance[next_state] + 1)

    def _lower(self, state: Hashable, value: int) -> None:
        before, distance = self.before, self.distance
        distance[state] = value
        queue = deque([state])
        while queue:
            state = queue.popleft()
            value = distance[state] + 1
            for previous in before[state]:
                if value < distance.get(previous, math.inf):
                    distance[previous] = value
                    queue.append(previous)


class TaskGraphs:
    """State graphs of any number of tasks, kept across episodes, with the hop distance to success of every state.

    The online form of `StateGraph`. Edges and goals are only added, so distances only fall: when an edge (s, s') gives
    `d(s') + 1 < d(s)`, the new value propagates breadth first to predecessors. A step without change costs a few
    look-ups; a state falls at most as often as its first distance is long, each time at the cost of its incoming edges.
    One object can serve many wrappers of one process. A pickled copy grows independently.

    Args:
        max_tasks: number of tasks remembered; beyond it the least recently played is forgotten. None: all.

    >>> graphs = TaskGraphs()
    >>> for state, next_state, success in [("a", "b", False), ("c", "b", False), ("b", "goal", True)]:
    ...     graphs.add("task", state, next_state, success)
    >>> graphs.distance("task", "a"), graphs.distance("task", "goal"), graphs.distance("other task", "a")
    (2.0, 0.0, inf)
    """

    def __init__(self, *, max_tasks: int | None = None) -> None:
        self.max_tasks = None if max_tasks is None else whole("max_tasks", max_tasks, 1)
        self._graphs: OrderedDict[Hashable, _Graph] = OrderedDict()

    def __len__(self) -> int:
        """Number of tasks remembered."""
        return len(self._graphs)

    def __contains__(self, task: Hashable) -> bool:
        """Whether the task is remembered."""
        return task in self._graphs

    def __repr__(self) -> str:
        return f"TaskGraphs({len(self)} tasks, {self.n_nodes} states, {self.n_edges} edges)"

    @property
    def n_nodes(self) -> int:
        """Number of distinct states of all tasks."""
        return sum(len(graph.before) for graph in self._graphs.values())

    @property
    def n_edges(self) -> int:
        """Number of distinct pairs (state, next state) of all tasks, without self loops."""
        return sum(len(sources) for graph in self._graphs.values() for sources in graph.before.values())

    @property
    def n_solved(self) -> int:
        """Number of tasks with a success."""
        return sum(bool(graph.distance) for graph in self._graphs.values())

    def add(self, task: Hashable, state: Hashable, next_state: Hashable, success: bool = False) -> None:
        """Add a step of a task; `success` says whether `next_state` is a success. Names and keys are any hashables."""
        graph = self._graphs.get(task)
        if graph is None:
            graph = self._graphs[task] = _Graph()
            if self.max_tasks is not None and len(self._graphs) > self.max_tasks:
                self._graphs.popitem(last=False)
        else:
            self._graphs.move_to_end(task)
        graph.add(state, next_state, success)

    def add_table(self, table: StepTable, *, valid_only: bool = True) -> None:
        """Add the steps of finished groups; groups are named after their tasks.

        `valid_only`: skip invalid steps unless they end a won episode, since the text after a refused action may be
        equal everywhere and would join distant states.
        """
        ends = np.zeros(len(table), np.bool_)
        ends[table.last[table.trajectory_won]] = True
        kept = np.flatnonzero(table.valid | ends) if valid_only else np.arange(len(table))
        columns = (table.group, table.state, table.next_state, ends)
        for group, state, next_state, success in zip(*(column[kept].tolist() for column in columns), strict=True):
            self.add(table.groups[group], table.states[state], table.states[next_state], success)

    def copy_of(self, tasks: Iterable[Hashable]) -> TaskGraphs:
        """Return an independent copy with the remembered ones of the given tasks."""
        found = TaskGraphs()
        for task in tasks:
            if task in self._graphs:
                graph = self._graphs[task]
                before = {state: dict(sources) for state, sources in graph.before.items()}
                found._graphs[task] = _Graph(before, dict(graph.distance))
        return found

    def distance(self, task: Hashable, state: Hashable) -> float:
        """Return the fewest observed steps from a state to a success; inf without a known path."""
        graph = self._graphs.get(task)
        return math.inf if graph is None else float(graph.distance.get(state, math.inf))

    def distances(self, task: Hashable) -> dict[Hashable, float]:
        """Return the distance of every state of a task, in order of first appearance."""
        graph = self._graphs.get(task)
        return {} if graph is None else {state: float(graph.distance.get(state, math.inf)) for state in graph.before}

    def state_dict(self) -> dict[str, Any]:
        """Return a copy as plain lists and numbers, for a checkpoint.

        `max_tasks`, and `tasks`, least recently played first: `task`, its `states` in order of appearance, `edges` as
        pairs of positions in that list, and `distance` per state, None if unknown.
        """
        tasks = []
        for task, graph in self._graphs.items():
            number = {state: i for i, state in enumerate(graph.before)}
            edges = [(number[source], number[end]) for end, sources in graph.before.items() for source in sources]
            distance = [graph.distance.get(state) for state in graph.before]
            tasks.append({"task": task, "states": list(graph.before), "edges": edges, "distance": distance})
        return {"max_tasks": self.max_tasks, "tasks": tasks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content by a `state_dict`.

        Raises:
            ValueError: on anything else; the content is then unchanged.
        """
        graphs: OrderedDict[Hashable, _Graph] = OrderedDict()
        try:
            max_tasks = TaskGraphs(max_tasks=state["max_tasks"]).max_tasks
            for part in state["tasks"]:
                states = part["states"]
                graph = _Graph({name: {} for name in states})
                for source, end in part["edges"]:
                    graph.before[states[end]][states[source]] = None
                for name, value in zip(states, part["distance"], strict=True):
                    if value is not None:
                        graph.distance[name] = int(value)
                graphs[part["task"]] = graph
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"expected what TaskGraphs.state_dict() returns, got something else: {error!r}") from error
        self.max_tasks, self._graphs = max_tasks, graphs
