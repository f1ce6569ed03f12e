"""Graphs that grow step by step: the same distances as a full search after every step, whatever the order."""

import dataclasses
import math
import pickle
from collections.abc import Hashable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.playing import filled
from tests.processes import printed
from tests.refusals import refuses
from tests.wrappers.credit.naive import distances
from wrappers.credit import TaskGraphs

Steps = list[tuple[Hashable, Hashable, bool]]


def naive(steps: Steps) -> dict[Hashable, float]:
    """The distances over all steps seen so far, by a queue."""
    goals = dict.fromkeys(end for _, end, success in steps if success)
    found = distances({step[:2] for step in steps}, goals)
    return {state: float(found.get(state, math.inf)) for step in steps for state in step[:2]}


STEP = st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([False] * 9 + [True]))


@given(st.lists(STEP, max_size=60))
def test_growing_equals_searching_anew_after_every_step(steps: Steps) -> None:
    graphs = TaskGraphs()
    for i, (state, next_state, success) in enumerate(steps):
        graphs.add("task", state, next_state, success)
        assert graphs.distances("task") == naive(steps[: i + 1])
    assert graphs.n_nodes == len({state for step in steps for state in step[:2]})
    assert graphs.n_edges == len({step[:2] for step in steps if step[0] != step[1]})


def test_ways_of_any_length_and_later_successes() -> None:
    graphs = TaskGraphs()
    # A chain 0 -> 1 -> ... -> 6 with success at its end: state i is 6 - i steps away.
    for i in range(6):
        graphs.add("t", i, i + 1, success=i == 5)
    assert list(graphs.distances("t").values()) == [6, 5, 4, 3, 2, 1, 0]
    # 3 -> 6 makes 3 one step away, 2 two, 1 three, 0 four; 4 and 5 stay.
    graphs.add("t", 3, 6)
    assert list(graphs.distances("t").values()) == [4, 3, 2, 1, 2, 1, 0]
    graphs = TaskGraphs()
    graphs.add("t", "a", "b")
    graphs.add("t", "a", "a")
    assert graphs.distances("t") == {"a": math.inf, "b": math.inf}
    graphs.add("t", "a", "b", success=True)
    assert graphs.distances("t") == {"a": 1, "b": 0}
    assert (graphs.n_nodes, graphs.n_edges, graphs.n_solved, len(graphs)) == (2, 1, 1, 1)
    graphs = TaskGraphs()
    for i in range(20_000):
        graphs.add("t", i, i + 1)
    assert graphs.distance("t", 0) == math.inf
    graphs.add("t", 20_000, "goal", success=True)
    assert graphs.distance("t", 0) == 20_001


def test_tasks_do_not_mix_and_the_oldest_is_forgotten() -> None:
    graphs = TaskGraphs()
    graphs.add("one", "a", "b", True)
    graphs.add("two", "a", "b")
    assert [graphs.distance(task, "a") for task in ("one", "two", "three")] == [1, math.inf, math.inf]
    assert graphs.distances("three") == {}
    assert ("one" in graphs, "three" in graphs) == (True, False)
    graphs = TaskGraphs(max_tasks=2)
    for task in ("a", "b", "a", "c"):
        graphs.add(task, 0, 1, True)
    assert ["a" in graphs, "b" in graphs, "c" in graphs, len(graphs)] == [True, False, True, 2]
    # Asking is not playing.
    graphs.distance("a", 0)
    graphs.add("b", 0, 1)
    assert ("a" in graphs, graphs.distance("b", 0)) == (False, math.inf)
    graphs = TaskGraphs()
    graphs.add("x", "a", "b")
    graphs.add("y", "a", "goal", success=True)
    copy = graphs.copy_of(["x", "unknown"])
    assert len(copy) == 1
    copy.add("x", "b", "goal", success=True)
    assert (copy.distance("x", "a"), graphs.distance("x", "a")) == (2, math.inf)
    assert graphs.n_edges == 2


@pytest.mark.parametrize("limit", [0, -1, 2.0, True])
def test_a_limit_that_is_none_is_refused(limit) -> None:
    refuses(ValueError, "max_tasks", TaskGraphs, max_tasks=limit)


@given(st.lists(st.tuples(st.sampled_from("ab"), STEP), max_size=40), st.lists(STEP, max_size=20))
def test_a_restored_graph_goes_on_as_if_nothing_had_happened(before: list, after: Steps) -> None:
    graphs = TaskGraphs(max_tasks=5)
    for task, step in before:
        graphs.add(task, *step)
    state = pickle.loads(pickle.dumps(graphs.state_dict()))
    restored = TaskGraphs()
    restored.load_state_dict(state)
    assert restored.max_tasks == 5
    for step in after:
        graphs.add("a", *step)
        restored.add("a", *step)
    assert restored.state_dict() == graphs.state_dict()
    # What was saved has not grown with the graph.
    again = TaskGraphs()
    again.load_state_dict(state)
    assert again.state_dict() == state


def test_what_is_no_state_is_refused_and_changes_nothing() -> None:
    graphs = TaskGraphs()
    graphs.add("t", 0, 1, True)
    good = graphs.state_dict()
    for bad in (
        {},
        {"max_tasks": None, "tasks": [{"task": "t"}]},
        {**good, "max_tasks": "all"},
        {**good, "tasks": [{**good["tasks"][0], "distance": []}]},
    ):
        refuses(ValueError, "state_dict", graphs.load_state_dict, bad)
    assert graphs.state_dict() == good


def test_nothing_depends_on_the_order_of_hashes() -> None:
    code = (
        "from wrappers.credit.task_graph import TaskGraphs; g = TaskGraphs()\n"
        "for i in range(40): g.add('t', f's{i * 7 % 13}', f's{i * 5 % 11}', i % 17 == 3)\n"
        "print(g.state_dict())"
    )
    found = printed(code, "0")
    assert found == printed(code, "1")
    assert "'s0'" in found


def test_a_table_is_added_to_the_tasks_that_its_groups_are_named_after():
    good = [True, True, False]
    steps = {"state": list("aba"), "next_state": ["b", "goal", "c"], "won": good, "valid": good}
    table = filled(group=list("xxy"), trajectory=[0, 0, 1], t=[0, 1, 0], **steps)
    graphs = TaskGraphs()
    graphs.add_table(table)
    assert graphs.distances("x") == {"a": 2, "b": 1, "goal": 0}
    assert "y" not in graphs  # its only step was refused
    graphs.add_table(table, valid_only=False)
    assert graphs.distances("y") == {"a": math.inf, "c": math.inf}
    # The last step of a won episode says where success is, valid or not.
    graphs = TaskGraphs()
    graphs.add_table(dataclasses.replace(table, valid=np.zeros(3, bool)))
    assert graphs.distances("x") == {"b": 1, "goal": 0}
