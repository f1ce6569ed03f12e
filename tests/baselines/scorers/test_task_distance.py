"""The scorer that remembers every task's graph."""

import dataclasses

import numpy as np
import pytest

from baselines.recipes import recipe
from baselines.scorers.task_distance import TaskDistance, TaskDistanceConfig
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.graphgpo import graphgpo

WON = episodes("s -right-> u -up-> goal +", "s -left-> pit")
LOST = episodes("s -right-> u -down-> pit", "s -left-> pit")


def learn(scorer: TaskDistance, table) -> dict[str, float]:
    return scorer.update(table, scorer.scores(table), None, np.random.default_rng(0), 1e-3)


def test_distances_by_hand() -> None:
    scorer = TaskDistance(TaskDistanceConfig(gamma=0.5))
    assert scorer.scores(LOST).tolist() == [0, 0, 0]
    assert scorer.scores(WON).tolist() == [0.5, 1, 0]
    assert scorer.scores(LOST).tolist() == [0, 0, 0]  # nothing is learned from being asked
    assert learn(scorer, WON) == {"tasks_seen_before": 0, "tasks_known": 1, "states_known": 4}
    assert scorer.scores(LOST).tolist() == [0.5, 0, 0]
    assert learn(scorer, LOST)["tasks_seen_before"] == 1
    won = dataclasses.replace(WON, groups=("level 7",))
    again = dataclasses.replace(LOST, groups=("level 7, round 2",))  # what dynamic sampling calls it
    scorer = TaskDistance(TaskDistanceConfig(gamma=0.5))
    learn(scorer, won)
    assert scorer.scores(again).tolist() == [0.5, 0, 0]
    assert learn(scorer, again) == {"tasks_seen_before": 1, "tasks_known": 1, "states_known": 4}
    found = recipe("tigpo").estimate(WON, TaskDistance().scores(WON)).advantages
    assert found == pytest.approx(graphgpo(WON, omega=0.8, unit="visit", exponent="next", unreachable="infinite"))
    refuses(ValueError, "gamma must be above 0 and at most 1", TaskDistanceConfig, gamma=0.0)
    refuses(ValueError, "max_tasks must be None or at least 1", TaskDistanceConfig, max_tasks=0)
    refuses(ValueError, "level must be 'turn'", TaskDistanceConfig, level="token")


def test_its_state_is_all_that_it_needs() -> None:
    scorer, other = TaskDistance(TaskDistanceConfig(max_tasks=5)), TaskDistance()
    learn(scorer, WON)
    other.load_state_dict(scorer.state_dict())
    assert other.scores(LOST).tolist() == scorer.scores(LOST).tolist() != [0, 0, 0]
    assert scorer.describe() != other.describe()
