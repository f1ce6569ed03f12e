"""What groups have to compare: by hand, and against a naive count."""

import pytest

from agentgym.trajectory import StepTable
from benchmarks.truth.episodes import play_scripted
from benchmarks.truth.graphs import GRAPHS, diagnose, graph_sums


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
    # Two episodes from s: up leads to u and on to the goal, left to the pit. Of the four states three lead to success.
    table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
        action=["up", "on", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])  # fmt: skip
    found = {name: tuple(sums[0].tolist()) for name, sums in graph_sums(table).items()}
    assert set(found) == set(GRAPHS)
    assert found == {
        "states": (4, 3), "edges": (3, 3), "branching": (3, 2), "shared": (2, 3), "singletons": (1, 3),
        # One pair of actions, of which one leads to success: no tie.
        "ties": (0, 1), "reached": (3, 4), "goals": (1, 1), "mixed": (1, 1),
    }  # fmt: skip
