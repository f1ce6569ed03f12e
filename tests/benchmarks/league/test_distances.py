"""Distances of steps: those of the solver, and those that are not known."""

from types import SimpleNamespace

import numpy as np

from agentgym.trajectory import StepTable
from benchmarks.league.distances import Distances, distance_gains
from benchmarks.league.episodes import play_scripted
from benchmarks.ranking.distance import distance_changes, state_distances


def test_distances_are_those_of_the_solver():
    played = play_scripted("sokoban", 0.3, 4, 4, seed=1)
    expected = distance_changes(played.table, state_distances(played.table))
    assert np.isneginf(expected).any()
    np.testing.assert_array_equal(distance_gains(played.table, played.envs.found), expected)


def test_bounds_that_differ_leave_the_truth_open():
    table = StepTable.from_arrays(
        group=["g"] * 3, trajectory=["a"] * 3, t=[0, 1, 2], state=["s", "u", "v"], action=["x"] * 3,
        next_state=["u", "v", "w"], reward=[0, 0, 0], won=[0, 0, 0],
    )  # fmt: skip
    inf = np.inf
    found = {("g", "s"): (2.0, 2.0), ("g", "u"): (inf, inf), ("g", "v"): (inf, inf), ("g", "w"): (1.0, inf)}
    np.testing.assert_array_equal(distance_gains(table, found), [-inf, 0.0, np.nan])


def test_distances_ask_each_state_once():
    asked = []
    env = SimpleNamespace(distance=lambda: asked.append(1) or 3.0)
    wrapper = object.__new__(Distances)
    wrapper.found = {}
    object.__setattr__(wrapper, "env", SimpleNamespace(unwrapped=SimpleNamespace(envs=[env, env])))
    shown = SimpleNamespace(entry=lambda name, i: {"task_id": "g", "state_key": "s"}[name])
    wrapper.begin([0, 1], shown)
    assert wrapper.found == {("g", "s"): (3.0, 3.0)}
    assert len(asked) == 1
