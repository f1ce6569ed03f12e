import pytest

from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.rewardflow import rewardflow, rewardflow_values

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
    assert rewardflow(TABLE, std="none", alpha_action=0.0) == pytest.approx([0.5, 0.5, 0.5, -0.5, -0.5])
    rich = episodes("s -a-> goal +", "s -b-> pit", reward=50.0)
    assert rewardflow(rich, std="none", alpha_action=0.0) == pytest.approx([0.5, -0.5])
