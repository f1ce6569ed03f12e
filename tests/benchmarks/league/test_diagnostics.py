"""What groups have to compare, against a naive count."""

import pytest

from benchmarks.league.diagnostics import diagnose
from benchmarks.league.episodes import play_scripted


def test_diagnosis_is_that_of_a_naive_count():
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
