"""Graphs of states: distances by hand and by queues, and graphs that grow step by step with the same ones."""

import dataclasses
import itertools
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
from tests.wrappers.credit.small_tables import of_rows, random_table, rebuild
from wrappers.credit import TaskGraphs
from wrappers.credit.state_graph import StateGraph, transitions


def _walks(*walks, won=(), group=None):
    """One episode per string of one-letter states."""
    rows = [
        (group[i] if group else 0, i, t, a, a + b, b, i in won)
        for i, walk in enumerate(walks)
        for t, (a, b) in enumerate(itertools.pairwise(walk))
    ]
    return of_rows("group trajectory t state action next_state won", rows)


def test_distances_by_hand() -> None:
    # s-a-b-G wins; s-c-b joins it at b; a-d ends in d. From s: s-a-b-G and s-c-b-G are 3 long.
    graph = StateGraph.from_table(_walks("sabG", "scb", "ad", won=[0]))
    distance = graph.hop_distance()
    assert graph.by_state(distance) == {"s": 3, "a": 2, "b": 1, "G": 0, "c": 2, "d": math.inf}
    assert distance[graph.source].tolist() == [3, 2, 1, 3, 2, 2]
    assert distance[graph.target].tolist() == [2, 1, 0, 2, 1, math.inf]
    # d_max is 3, so what cannot get there is put at 4.
    assert graph.by_state(graph.fill_unreachable(distance, "d_max+1"))["d"] == 4
    assert graph.by_state(graph.fill_unreachable(distance, "infinite"))["d"] == math.inf
    # A group without success: d_max counts as 0.
    graph = StateGraph.from_table(_walks("sabG", "sab", won=[0], group=["x", "y"]))
    distance = graph.hop_distance()
    assert graph.by_state(distance, 0) == {"s": 3, "a": 2, "b": 1, "G": 0}
    assert set(graph.by_state(graph.fill_unreachable(distance, "d_max+1"), 1).values()) == {1.0}
    # s-a-G costs 1 + 5, s-b-c-G costs 1 + 1 + 1; the parallel, dearer way b-c of the third episode changes nothing.
    graph = StateGraph.from_table(_walks("saG", "sbcG", "bc", won=[0, 1]))
    cost = np.array([1.0, 5.0, 1.0, 1.0, 1.0, 9.0])
    assert graph.by_state(graph.cost_distance(cost)) == {"s": 3, "a": 5, "G": 0, "b": 2, "c": 1}
    for bad in (0.0, -1.0, math.nan, math.inf):
        refuses(ValueError, "positive and finite; row 1 costs", graph.cost_distance, np.array([1.0, bad, 1, 1, 1, 1]))
    # Wins end in G (s-a-G) and in H (s-b-c-H). From s: 2 and 3 steps, mean 2.5; a reaches only G, b only H.
    graph = StateGraph.from_table(_walks("saG", "sbcH", "sd", won=[0, 1]))
    expected = {"s": 2.5, "a": 1, "G": 0, "b": 2, "c": 1, "H": 0, "d": math.inf}
    assert graph.by_state(graph.hop_distance("mean")) == expected
    # d_max is 2.5 then.
    assert graph.by_state(graph.fill_unreachable(graph.hop_distance("mean"), "d_max+1"))["d"] == 3.5
    # H is a goal (third episode) on the way from a to G: a has 1 and 2, mean 1.5; H has itself and G; t has 1 and 2.
    graph = StateGraph.from_table(_walks("sG", "aHG", "tH", won=[0, 1, 2]))
    assert graph.by_state(graph.hop_distance()) == {"s": 1, "G": 0, "a": 1, "H": 0, "t": 1}
    assert graph.by_state(graph.hop_distance("mean")) == {"s": 1, "G": 0, "a": 1.5, "H": 0.5, "t": 1.5}


@pytest.mark.parametrize("seed", range(20))
def test_distances_equal_queues(seed):
    table = random_table(seed, groups=6, states=4, win=0.6, goals=3)
    graph = StateGraph.from_table(table)
    assert np.bincount(graph.node_group[graph.success]).max() > 1
    edges = {(int(a), int(b)) for a, b in zip(graph.source, graph.target, strict=True)}
    reached = [distances(edges, [goal]) for goal in np.flatnonzero(graph.success).tolist()]
    for node, (least, mean) in enumerate(zip(graph.hop_distance(), graph.hop_distance("mean"), strict=True)):
        hops = [d[node] for d in reached if node in d]
        assert least == min(hops, default=math.inf)
        assert mean == (pytest.approx(sum(hops) / len(hops)) if hops else math.inf)


def test_edges_and_self_loops() -> None:
    # s-a twice, and once more by another action.
    table = filled(trajectory=range(4), t=[0] * 4, state=["s"] * 4, action=list("xxyx"), next_state=list("aaab"))
    ids, example = StateGraph.from_table(table).edges
    assert example.tolist() == [0, 2, 3]
    assert ids.tolist() == [0, 0, 1, 2]
    table = _table()
    bypassed, looped = transitions(table, "bypass"), transitions(table, "self_loop")
    assert (looped.source == bypassed.source).all()
    assert (looped.target == bypassed.target).all()
    assert looped.scored.all()
    for noise in ((), ("Nothing happens.",)):
        assert (transitions(table, "keep", noise_states=noise).target == table.next_state).all()
    steps = transitions(table, "keep")
    assert (steps.source == table.state).all()
    assert steps.scored.all()
    n = 20_000  # a long chain
    table = filled(state=np.arange(n), next_state=np.arange(1, n + 1), trajectory=[0] * n, won=[True] * n)
    assert (StateGraph.from_table(table).hop_distance() == np.arange(n, -1, -1)).all()


# One ALFWorld-like episode. After the refused action the world is still at the desk, whatever the text says.
EPISODE = [
    # state, action, next state, valid
    ("hall", "go to desk 1", "desk", True),
    ("desk", "fly", "Nothing happens.", False),
    ("Nothing happens.", "examine desk 1", "On the desk you see a mug.", True),
    ("On the desk you see a mug.", "take mug 1", "desk with mug", True),
    ("desk with mug", "go to desk 1", "desk with mug", True),
    ("desk with mug", "lookup mug", "shelf", True),  # its first word only begins like "look"
]


def _table():
    rows = [("g", "e", t, *step) for t, step in enumerate(EPISODE)]
    rows += [("g", "f", 0, "Nothing happens.", "go to desk 1", "desk", True)]
    return of_rows("group trajectory t state action next_state valid", rows)


def _named(table, steps):
    return [(table.states[a], table.states[b], bool(c)) for a, b, c in zip(*steps, strict=True)]


def test_bypass_by_hand() -> None:
    table = _table()
    assert _named(table, transitions(table, "bypass")) == [
        ("hall", "desk", True),
        ("desk", "desk", False),
        ("desk", "desk", False),
        ("desk", "desk with mug", True),
        ("desk with mug", "desk with mug", False),
        ("desk with mug", "shelf", True),
        ("Nothing happens.", "desk", True),  # a first state is taken as it is
    ]
    # Without the step from desk to desk with mug (row 3), the next row begins where no row has led.
    full = _table()
    rows = [0, 1, 2, 4, 5]
    table = rebuild(full, np.array(rows))
    assert _named(table, transitions(table)) == [_named(full, transitions(full))[row] for row in rows]
    # Missing from its look on, it begins in a text of which nothing else is known.
    table = rebuild(full, np.array([0, 3]))
    assert _named(table, transitions(table))[1] == ("On the desk you see a mug.", "desk with mug", True)
    steps = transitions(full, "bypass", no_change_actions=("take",))
    assert steps.scored.tolist() == [True, False, True, False, True, True, True]
    order = [4, 0, 6, 3, 1, 5, 2]
    shuffled, expected = rebuild(full, np.array(order)), _named(full, transitions(full))
    assert _named(shuffled, transitions(shuffled)) == [expected[i] for i in order]


def test_noise_states_are_no_states() -> None:
    # Published environments call every well-formed reply valid: the refused "fly" looks like a move to the noise.
    table = _table()
    table.valid[1] = True
    fooled = _named(table, transitions(table))
    assert fooled[1] == ("desk", "Nothing happens.", True)
    assert fooled[3] == ("Nothing happens.", "desk with mug", True)
    for invalid in ("bypass", "self_loop"):
        seen = transitions(table, invalid, noise_states=("Nothing happens.",))
        assert _named(table, seen) == _named(_table(), transitions(_table(), invalid))
    assert transitions(table, "bypass", noise_states=("Nothing",)).scored[1]
    # The last row begins in the noise text: there is no state before it, so it is taken as one.
    steps = transitions(table, "bypass", noise_states=("Nothing happens.",))
    assert _named(table, steps)[-1] == ("Nothing happens.", "desk", True)
    noise = "Nothing happens."
    table = filled(trajectory=[0, 0], state=[(0, 1), noise], action=[1, 2], next_state=[noise, frozenset({3})])
    steps = transitions(table, noise_states=("Nothing happens.",))
    assert _named(table, steps) == [((0, 1), (0, 1), False), ((0, 1), frozenset({3}), True)]


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
    for limit in (0, -1, 2.0, True):
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
