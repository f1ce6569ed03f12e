import math

import numpy as np
import pytest

from tests.wrappers.credit.small_tables import TREE, episodes
from wrappers.credit import tree_grpo

# Episodes of the tree: 1 0 1 0, deviation sqrt(4/4 / 3); of the group: 1 0 1 0 0, mean 2/5, deviation sqrt(1.2 / 4).
INSIDE, WON, LOST = 0.5 / math.sqrt(1 / 3), 0.6 / math.sqrt(0.3), -0.4 / math.sqrt(0.3)


def test_by_hand() -> None:
    won, lost = INSIDE + WON, -INSIDE + LOST
    # All four episodes go through the first step, the first and the last through the second.
    expected = [(won + lost) / 2, (won + lost) / 2, won, lost, won, lost, LOST]
    assert tree_grpo(episodes(*TREE), eps=0.0) == pytest.approx(expected)
    # Standardised again the group is gone; the lone episode of the other tree keeps its score.
    expected = [0, 0, INSIDE, -INSIDE, INSIDE, -INSIDE, LOST]
    assert tree_grpo(episodes(*TREE), preset="authors") == pytest.approx(expected, abs=1e-5)
    table = episodes("s -a!-> u -b-> goal +", "0.0: u -c!-> pit", "s -d-> pit")
    # Off every episode that goes through the step: 1/2, -1 and 0 as in a table with these rewards.
    other = episodes("s -a-> u -b-> x", "0.0: u -c-> pit", "s -d-> pit")
    other.reward[:] = [-0.5, 1, -0.5, 0]
    assert tree_grpo(table, invalid_penalty=0.5, penalty="discounted") == pytest.approx(tree_grpo(other))
    row = tree_grpo(table, invalid_penalty=0.5, penalty="row")
    assert np.isfinite(row).all()
    assert row[0] < tree_grpo(table)[0]
