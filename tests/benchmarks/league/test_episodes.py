"""Which tasks are played."""

from benchmarks.league.episodes import tasks_of


def test_tasks_are_no_test_tasks():
    assert tasks_of("sokoban", 1) == [{"split": "validation", "index": 0}]
    assert tasks_of("alfworld", 1) == [{"split": "valid_unseen", "index": 256}]


def test_test_tasks_are_those_of_the_learning_benchmark():
    assert tasks_of("alfworld", 1, "test") == [{"split": "valid_unseen", "index": 0}]
