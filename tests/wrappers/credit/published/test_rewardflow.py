import numpy as np
import pytest

from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.published.rewardflow import in_lost_transitions
from wrappers.credit.rewardflow import rewardflow_values


def _values(table, **options):
    credit = rewardflow_values(table, preset="authors", gamma=0.5, **options)
    return credit.graph.by_state(credit.value), credit.step_reward


def test_rewards_at_success_only():
    values, steps = _values(episodes("s -a-> u -b-> goal +", "u -c-> pit", reward=8.0))
    assert values == {"s": 2, "u": 4, "goal": 8, "pit": 0}
    assert steps.tolist() == [2, 4, -4]


def test_a_reward_on_every_step_counts_when_it_is_first_seen():
    # -1 a step. u is first seen behind a reward of -1, pit too; s is a first state: 0. The way to pit is not taken in
    # the maximum: u keeps max(-1, -1/2) = -1/2, s keeps 0.
    table = episodes("s -a-> u -b-> pit")
    table.reward[:] = -1.0
    values, _ = _values(table)
    assert values == {"s": 0, "u": -0.5, "pit": -1}


def test_a_self_loop_is_not_a_first_sight_but_its_reward_comes_before_the_next_step():
    table = episodes("s -x-> s -a-> u")
    table.reward[:] = [-1.0, -4.0]
    # s is first seen on s -> u, behind the loop's -1; max(-1, -4/2) = -1.
    values, _ = _values(table)
    assert values == {"s": -1, "u": -4}


def test_last_transitions_of_the_longest_are_lost():
    table = episodes("s -a-> u -b-> goal +", "s -a-> u -c-> v -d-> goal +", reward=8.0)
    assert in_lost_transitions(table).tolist() == [False, False, False, False, True]
    # goal is 8 by the first episode; v has no way to it without its last step, whose reward stays the raw 8.
    values, steps = _values(table, lose_last=True)
    assert values == {"s": 2, "u": 4, "goal": 8, "v": 0}
    assert steps == pytest.approx([2, 4, 2, -4, 8])


def test_all_of_them_where_all_are_longest():
    table = episodes("s -a-> goal +", "s -b-> pit", reward=8.0)
    values, steps = _values(table, lose_last=True)
    assert set(values.values()) == {0}
    np.testing.assert_array_equal(steps, [8, 0])
