"""Which tasks are played."""

from benchmarks.league.episodes import validation_tasks


def test_tasks_are_no_test_tasks():
    assert validation_tasks("sokoban", 1) == [{"split": "validation", "index": 0}]
    assert validation_tasks("alfworld", 1) == [{"split": "valid_unseen", "index": 256}]
