"""Credits of the methods of 2026."""

import numpy as np
import pytest

from benchmarks.ranking.credit import BASELINE, METHODS, credits
from benchmarks.ranking.recent import RECENT, branches, graph_and_branches
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.graphgpo import graphgpo

# Right wins once and loses once, left loses.
TABLE = episodes("s -right-> u -up-> goal +", "s -right-> u -down-> pit", "s -left-> pit")


def test_names_are_distinct_and_hold_the_baseline():
    names = [credit.name for credit in credits(np.zeros(0), 0, RECENT)]
    assert len(set(names)) == len(names)
    assert BASELINE in names
    # What both sets hold is the same.
    known = {credit.name: credit for credit in METHODS}
    assert [known[credit.name] for credit in RECENT if credit.name in known] == list(RECENT[:4])


@pytest.mark.parametrize("credit", RECENT, ids=lambda credit: credit.name)
def test_every_credit_knows_the_better_of_two_ways(credit):
    values = credit.give(TABLE)
    assert values.shape == (5,)
    assert values[1] > values[3]  # up and down
    assert np.isfinite(values).all()


def test_branches_by_hand():
    # Out of s: half of right's takers won, none of left's: 1/2 either way. Out of u: 1 and 0. The largest is 1.
    assert branches(TABLE) == pytest.approx([0.5, 1, 0.5, -1, -0.5])
    steps = graphgpo(TABLE, beta_episode=0.0)
    assert graph_and_branches(TABLE) == pytest.approx(steps + 0.3 * np.array([0.5, 1, 0.5, -1, -0.5]))
