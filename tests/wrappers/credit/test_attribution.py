import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import Floats, StepTable
from tests.refusals import refuses
from tests.wrappers.credit import oracles
from tests.wrappers.credit.small_tables import close, episodes, groups_of, random_table, rebuild
from wrappers.credit import frontier, graphgpo_filled, spa
from wrappers.credit.attribution import MOST_TRAJECTORIES, attribution
from wrappers.credit.options import read_options


def test_by_hand() -> None:
    # X = [[1, 1, 0], [1, 0, 1]] over (s, right), (u, up), (u, left); y = (1, 0). XX' + I = [[3, 1], [1, 3]], its
    # inverse times y = (3, -1) / 8.
    table = episodes("s -right-> u -up-> goal +", "s -right-> u -left-> pit")
    close(attribution(table), np.array([2, 3, 2, -1]) / 8)
    # y = (1, -1) / 2: (1, -1) / 4.
    close(attribution(table, centred=True), np.array([0, 1, 0, -1]) / 4)
    # XX' + 2 I = [[4, 1], [1, 4]]: (4, -1) / 15.
    close(attribution(table, damping=2.0), np.array([3, 4, 3, -1]) / 15)
    # X = [[2, 1]], XX' + I = 6: each takes 2 / 6 and 1 / 6 of the success.
    close(attribution(episodes("s -wait-> s -wait-> s -up-> goal +")), [2 / 6, 2 / 6, 1 / 6])
    won = episodes("s -up-> goal +", "s -up-> goal +")
    close(attribution(won), 2 / 3)  # one unknown: c = 2 / (1 + 1 + damping)
    close(attribution(won, centred=True), 0.0)
    assert (attribution(episodes("s -up-> pit", "s -left-> pit")) == 0).all()
    table = episodes("s -up-> goal +", "s -left-> pit", reward=10.0)
    close(attribution(table, outcome="return"), [5.0, 0.0])
    close(attribution(table), [0.5, 0.0])
    table.reward[0] = 1e101
    refuses(ValueError, "reward of row 0", attribution, table, outcome="return")
    # Both outcomes after the same steps, and next to no damping: the mean of them is left.
    close(attribution(episodes("s -up-> goal +", "s -up-> pit"), damping=1e-6), 0.5, 1e-6)
    assert read_options(attribution, {"damping": "2", "centred": "true"}) == {"damping": 2.0, "centred": True}
    refuses(ValueError, r"damping must be at least 1e-06, got 0.0", read_options, attribution, {"damping": "0"})
    assert MOST_TRAJECTORIES == 2000
    refuses(ValueError, "at most 2000 trajectories, group 0 has 2001", attribution, groups_of([0] * 2001))


def regression(table: StepTable, damping: float, centred: bool) -> Floats:
    """The same contributions from the normal equations over states and actions, group by group."""
    result = np.empty(len(table))
    for group in range(table.n_groups):
        mine = np.flatnonzero(table.group == group)
        pairs = sorted({(table.state[row], table.action[row]) for row in mine})
        trajectories = sorted({table.trajectory[row] for row in mine})
        counts = np.zeros((len(trajectories), len(pairs)))
        for row in mine:
            counts[trajectories.index(table.trajectory[row]), pairs.index((table.state[row], table.action[row]))] += 1
        won = table.trajectory_won[trajectories] * 1.0
        won -= won.mean() if centred else 0.0
        found = np.linalg.solve(counts.T @ counts + damping * np.eye(len(pairs)), counts.T @ won)
        result[mine] = [found[pairs.index((table.state[row], table.action[row]))] for row in mine]
    return result


@given(st.integers(0, 10**6), st.floats(0.05, 5), st.booleans())
def test_equals_the_regression_in_any_order_of_rows(seed: int, damping: float, centred: bool) -> None:
    rng = np.random.default_rng(seed)
    other = random_table(seed + 1, groups=2, size=int(rng.integers(1, 7)))  # groups of several sizes
    other = rebuild(other, np.arange(len(other)), relabel=lambda name: f"other {name}")
    table = StepTable.concatenate([random_table(seed), other])
    table = rebuild(table, rng.permutation(len(table)))
    close(attribution(table, damping=damping, centred=centred), regression(table, damping, centred))


@pytest.mark.parametrize(("centred", "key"), [(False, "ridge"), (True, "ridge_centred")])
def test_recorded_answers(centred: bool, key: str) -> None:
    found = attribution(oracles.table(), centred=centred)
    close(found, oracles.answers("learned_ridge", key), 1e-8)
    if not centred:
        close(np.bincount(oracles.table().trajectory, weights=found), oracles.answers("learned_ridge", "fit"), 1e-7)


def by_ridge(table: StepTable) -> Floats:
    return spa(table, contributions="ridge", grounding="penalty")


@pytest.mark.parametrize("method", [attribution, graphgpo_filled, frontier, by_ridge])
def test_a_group_that_would_take_too_long_is_refused_before_it_is_solved(
    method: Callable[[StepTable], Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["wrappers.credit.attribution"], "MOST_TRAJECTORIES", 20)
    assert not method(groups_of([0] * 20, [0] * 3)).any()
    monkeypatch.setattr(np.linalg, "eigh", None)
    words = "at most 20 trajectories, group 1 has 21; divide its trajectories"
    refuses(ValueError, words, method, groups_of([0] * 20, [0] * 21))
