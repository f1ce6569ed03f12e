"""What groups have to compare: by hand, and against a naive count."""

import pytest

from agentgym.trajectory import StepTable
from benchmarks.truth.episodes import play_scripted
from benchmarks.truth.graphs import Diagnosis, diagnose


def test_graphs_are_counted() -> None:
    table = play_scripted("sokoban", 0.3, 4, 4, seed=1).table
    found = diagnose(table, 4)
    visits = {}
    for row in range(len(table)):
        visits.setdefault((table.group[row], table.state[row]), []).append(row)
    shared = sum(len(rows) for rows in visits.values() if len({table.trajectory[row] for row in rows}) > 1)
    assert found.shared == pytest.approx(shared / len(table))
    assert found.singletons == pytest.approx(sum(len(rows) == 1 for rows in visits.values()) / len(table))
    assert 0 < found.singletons < 1 - found.shared
    assert 0 <= found.ties <= 1
    # Two episodes from s: up leads to u and on to the goal, left to the pit.
    table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
        action=["up", "on", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])  # fmt: skip
    # Two of three steps begin in the shared s. One pair of actions, of which one leads to success: no tie.
    assert diagnose(table, 2) == Diagnosis(size=2, shared=2 / 3, singletons=1 / 3, ties=0.0, mixed=1.0)
