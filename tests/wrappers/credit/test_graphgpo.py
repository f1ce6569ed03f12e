from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corridor import CorridorVectorEnv
from tests.refusals import refuses
from tests.wrappers.credit.naive import naive
from tests.wrappers.credit.small_tables import close, episodes, random_table
from wrappers.credit.graphgpo import GraphGPO, graphgpo, graphgpo_values
from wrappers.credit.state_graph import Unit

# Out of u: "up" wins (taken twice), "down" ends in pit. d: s 2, u 1, goal 0, pit 3.
TABLE = episodes("s -right-> u -up-> goal +", "u -up-> goal +", "s -right-> u -down-> pit")


def _steps(table, **options):
    return graphgpo(table, omega=0.5, std="none", beta_episode=0.0, **options)


def test_by_hand() -> None:
    credit = graphgpo_values(TABLE, omega=0.5)
    assert credit.graph.by_state(credit.distance) == {"s": 2, "u": 1, "goal": 0, "pit": 3}
    assert credit.step_reward == pytest.approx([0.25, 0.5, 0.5, 0.25, 0.0625])
    # The authors leave the cost out of the exponent, and count 10 for success.
    authors = graphgpo_values(TABLE, omega=0.5, preset="authors")
    assert authors.step_reward == pytest.approx([5, 10, 10, 5, 1.25])
    # Edges 1/2 and 1/16, mean 9/32; visits 1/2 1/2 1/16, mean 17/48.
    assert _steps(TABLE) == pytest.approx([0, 7 / 32, 7 / 32, 0, -7 / 32])
    assert _steps(TABLE, unit="visit") == pytest.approx([0, 7 / 48, 7 / 48, 0, -14 / 48])
    # Value 0 in pit: edges 1/2 and 0.
    assert _steps(TABLE, unreachable="infinite") == pytest.approx([0, 0.25, 0.25, 0, -0.25])
    # Refused at u: kept, the loop u-u is an edge of worth 1/4 between 1/2 and 1/16 (d(u) + 1 = 2), mean 13/48.
    table = episodes("s -right-> u -wait!-> u -up-> goal +", "s -right-> u -down-> pit")
    assert _steps(table) == pytest.approx(np.array([0, -1, 11, 0, -10]) / 48)
    assert _steps(table, invalid="bypass") == pytest.approx([0, 0, 7 / 32, 0, -7 / 32])
    # An edge counts with the mean of its visits.
    # From s, right to the goal (worth 1/8, and 1/8 - 1/4 where it was refused) and left to the pit (unreachable: 0).
    # The edges are worth 0 and 0, and the visits differ from their mean by 1/8, -1/8 and 0.
    table = episodes("s -right-> goal +", "s -right!-> goal +", "s -left-> pit")
    scores = graphgpo(
        table, success_value=0.125, unreachable="infinite", exponent="next", std="none", beta_episode=0.0,
        invalid_penalty=0.25,
    )  # fmt: skip
    assert scores == pytest.approx([0.125, -0.125, 0])


def test_costs() -> None:
    # "up" costs 2: d(u) = 2, d(s) = 3, d(pit) = 4; up is worth 1/4, down 1/32.
    cost = {"up": 2.0}
    credit = graphgpo_values(TABLE, omega=0.5, cost=cost)
    assert credit.graph.by_state(credit.distance) == {"s": 3, "u": 2, "goal": 0, "pit": 4}
    assert credit.step_reward == pytest.approx([1 / 8, 1 / 4, 1 / 4, 1 / 8, 1 / 32])
    rows = np.array([1.0, 2.0, 2.0, 1.0, 1.0])
    assert (graphgpo_values(TABLE, omega=0.5, cost=rows).step_reward == credit.step_reward).all()
    # One cost for all is a change of omega; only d_max + 1 is not scaled: 2 * 2 + 1.
    credit = graphgpo_values(TABLE, omega=0.5, cost=2.0)
    assert credit.graph.by_state(credit.distance) == {"s": 4, "u": 2, "goal": 0, "pit": 5}
    for cost in (0.0, -1, np.inf, np.nan, "1"):
        refuses(ValueError, rf"must be positive and finite; every step costs {cost!r}", graphgpo, TABLE, cost=cost)
    refuses(ValueError, r"costs must be positive and finite; action 'up' costs -2", graphgpo, TABLE, cost={"up": -2.0})
    refuses(ValueError, r"row 3 costs -1", graphgpo, TABLE, cost=[1, 1, 1, -1, 1])
    refuses(ValueError, r"shape \(5,\), got \(2,\)", graphgpo, TABLE, cost=np.ones(2))
    for cost in (np.float32(2.0), np.int64(2), np.array(2.0)[()]):
        assert (graphgpo(TABLE, cost=cost) == graphgpo(TABLE, cost=2.0)).all()
    for cost in (-1.0, np.inf, {"north": 0.0}, {"up": "dear"}):  # the wrapper says so at once
        refuses(ValueError, "costs must be positive and finite", GraphGPO, CorridorVectorEnv(2), cost=cost)


@pytest.mark.parametrize("unit", get_args(Unit))
@given(seed=st.integers(0, 10**6))
def test_naive_twin(unit, seed):
    table = random_table(seed)
    close(graphgpo(table, unit=unit), naive(table, "graphgpo", unit=unit, factor=0.8))
