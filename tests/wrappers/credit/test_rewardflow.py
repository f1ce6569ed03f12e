from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refuses
from tests.wrappers.credit.naive import naive
from tests.wrappers.credit.small_tables import close, episodes, random_table
from wrappers.credit.rewardflow import in_lost_transitions, rewardflow, rewardflow_values
from wrappers.credit.state_graph import Unit

# From u, "up" wins, "down" fails, "wait" is refused.
TABLE = episodes("s -right-> u -wait!-> u -up-> goal +", "s -right-> u -down-> pit")


def _steps(table, **options):
    return rewardflow(table, std="none", alpha_trajectory=0.0, **options)


def test_by_hand() -> None:
    credit = rewardflow_values(TABLE, gamma=0.5)
    assert credit.graph.by_state(credit.value) == {"s": 0.25, "u": 0.5, "goal": 1, "pit": 0}
    assert credit.step_reward == pytest.approx([0.25, 0, 0.5, 0.25, -0.5])
    # At u: up 0.5 and down -0.5, mean 0; the refused step scores 0.
    assert _steps(TABLE, gamma=0.5) == pytest.approx([0, 0, 0.5, 0, -0.5])
    # At u: wait 0, up 0.5, down -0.5: the mean stays 0. With two winners it does not: 0 0.5 0.5 -0.5, mean 1/8.
    assert _steps(TABLE, gamma=0.5, invalid="self_loop") == pytest.approx([0, 0, 0.5, 0, -0.5])
    table = episodes("s -right-> u -wait!-> u -up-> goal +", "u -up-> goal +", "s -right-> u -down-> pit")
    assert _steps(table, gamma=0.5, invalid="self_loop") == pytest.approx([0, -0.125, 0.375, 0.375, 0, -0.625])
    # Each edge once: 0 0.5 -0.5.
    assert _steps(table, gamma=0.5, invalid="self_loop", unit="edge") == pytest.approx([0, 0, 0.5, 0.5, 0, -0.5])
    # The text after the refused step is not a place: "up" still starts at u, 1 step from success.
    table = episodes("s -right-> u -wait!-> Nothing -up-> goal +", "s -right-> u -down-> pit")
    assert _steps(table, gamma=0.5) == pytest.approx([0, 0, 0.5, 0, -0.5])
    # Kept, the noise is 1 step from success, u 2 and s 3.
    credit = rewardflow_values(table, gamma=0.5, invalid="keep")
    values = {"s": 0.125, "u": 0.25, "Nothing": 0.5, "goal": 1, "pit": 0}
    assert credit.graph.by_state(credit.value) == values
    # d_max is 2 (s), so pit is 3 away.
    credit = rewardflow_values(TABLE, gamma=0.5, unreachable="d_max+1", success_value=8.0)
    assert credit.graph.by_state(credit.value) == {"s": 2, "u": 4, "goal": 8, "pit": 1}
    # gamma R(s') - R(s): towards success nothing is gained or lost.
    credit = rewardflow_values(TABLE, gamma=0.5, shaping_gamma=0.5)
    assert credit.step_reward == pytest.approx([0, -0.25, 0, 0, -0.5])
    # Goals G (s-u-G) and H (s-v-w-H): from s 2 and 3 steps, mean 2.5, so with gamma 1/4 R(s) = 2^-5; u 1/4, v 1/16.
    table = episodes("s -a-> u -b-> G +", "s -c-> v -d-> w -e-> H +", "s -f-> pit")
    credit = rewardflow_values(table, gamma=0.25, aggregate="mean")
    values = {"s": 1 / 32, "u": 1 / 4, "G": 1, "v": 1 / 16, "w": 1 / 4, "H": 1, "pit": 0}
    assert credit.graph.by_state(credit.value) == pytest.approx(values)
    assert credit.step_reward == pytest.approx([7 / 32, 3 / 4, 1 / 32, 3 / 16, 3 / 4, -1 / 32])
    nearest = rewardflow_values(table, gamma=0.25)
    assert nearest.graph.by_state(nearest.value)["s"] == 1 / 16
    refuses(ValueError, "unknown aggregate 'median'", rewardflow, table, aggregate="median")


@pytest.mark.parametrize("unit", get_args(Unit))
@given(seed=st.integers(0, 10**6))
def test_naive_twin(unit, seed):
    table = random_table(seed)
    close(rewardflow(table, unit=unit), naive(table, "rewardflow", unit=unit, factor=0.9))


def test_authors_by_hand() -> None:
    assert rewardflow(TABLE, std="none", alpha_action=0.0) == pytest.approx([0.5, 0.5, 0.5, -0.5, -0.5])
    rich = episodes("s -a-> goal +", "s -b-> pit", reward=50.0)
    assert rewardflow(rich, std="none", alpha_action=0.0) == pytest.approx([0.5, -0.5])
    # Nothing bypassed, values 10 * .9^d, no std; the penalty before the statistics, the episodes over steps.
    table = episodes("s -right-> u -wait!-> u -up-> goal +", "s -right-> u -down-> pit", reward=10.0)
    # u: wait 0 - .1, up 1, down -9, mean -2.7; s: .9 and .9. Episodes: 10 9.9 10 0 0, mean 5.98.
    expected = [4.02, 3.92 + 2.6, 4.02 + 3.7, -5.98, -5.98 - 6.3]
    assert rewardflow(table, preset="authors") == pytest.approx(expected)


def _values(table, **options):
    credit = rewardflow_values(table, preset="authors", gamma=0.5, **options)
    return credit.graph.by_state(credit.value), credit.step_reward


def test_the_papers_rewards_by_hand() -> None:
    values, steps = _values(episodes("s -a-> u -b-> goal +", "u -c-> pit", reward=8.0))
    assert values == {"s": 2, "u": 4, "goal": 8, "pit": 0}
    assert steps.tolist() == [2, 4, -4]
    # -1 a step. u is first seen behind a reward of -1, pit too; s is a first state: 0. The way to pit is not taken in
    # the maximum: u keeps max(-1, -1/2) = -1/2, s keeps 0.
    table = episodes("s -a-> u -b-> pit")
    table.reward[:] = -1.0
    values, _ = _values(table)
    assert values == {"s": 0, "u": -0.5, "pit": -1}
    table = episodes("s -x-> s -a-> u")
    table.reward[:] = [-1.0, -4.0]
    # s is first seen on s -> u, behind the loop's -1; max(-1, -4/2) = -1.
    values, _ = _values(table)
    assert values == {"s": -1, "u": -4}
    table = episodes("s -a-> u -b-> goal +", "s -a-> u -c-> v -d-> goal +", reward=8.0)
    assert in_lost_transitions(table).tolist() == [False, False, False, False, True]
    # goal is 8 by the first episode; v has no way to it without its last step, whose reward stays the raw 8.
    values, steps = _values(table, lose_last=True)
    assert values == {"s": 2, "u": 4, "goal": 8, "v": 0}
    assert steps == pytest.approx([2, 4, 2, -4, 8])
    table = episodes("s -a-> goal +", "s -b-> pit", reward=8.0)
    values, steps = _values(table, lose_last=True)
    assert set(values.values()) == {0}
    np.testing.assert_array_equal(steps, [8, 0])
