import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.credit.small_tables import close, episodes, random_table
from wrappers.credit import grpo, rloo, salt

# All three go right; of the two that go up once more, one wins and one loses. Episodes 2/3 -1/3 -1/3.
TABLE = episodes("s -right-> u -up-> v -in-> goal +", "s -right-> u -up-> v -out-> pit", "s -right-> u -down-> pit")


def test_by_hand() -> None:
    assert salt(TABLE, std="none") == pytest.approx([0, 1 / 6, 2 / 3, 0, 1 / 6, -1 / 3, 0, -1 / 3])
    # Against the others' mean: 1, -1/2, -1/2, and their means.
    assert salt(TABLE, relative="rloo") == pytest.approx([0, 1 / 4, 1, 0, 1 / 4, -1 / 2, 0, -1 / 2])
    table = episodes("s -stay-> s -stay-> s -in-> goal +", "s -stay-> s -out-> pit")
    # Episodes 1/2 and -1/2; the one that won stayed twice.
    assert salt(table, std="none") == pytest.approx([0, 0, 1 / 2, 0, -1 / 2])
    sixth = (1 / 2 + 1 / 2 - 1 / 2) / 3
    assert salt(table, std="none", unit="visit") == pytest.approx([sixth, sixth, 1 / 2, sixth, -1 / 2])
    table = episodes("a -x-> b -x-> goal +", "c -x-> d -x-> pit", "e -x-> f -x-> pit")
    assert salt(table) == pytest.approx(grpo(table, outcome="won"))
    assert salt(table, relative="rloo", outcome="return") == pytest.approx(rloo(table))


def _naive(table):
    total, own = np.zeros(len(table)), grpo(table, outcome="won")
    for row in range(len(table)):
        key = (table.group[row], table.state[row], table.action[row], table.next_state[row])
        takers = {}
        for other in range(len(table)):
            if key == (table.group[other], table.state[other], table.action[other], table.next_state[other]):
                takers[table.trajectory[other]] = own[other]
        total[row] = np.mean(list(takers.values())) if len(takers) > 1 else own[row]
    return total


@given(seed=st.integers(0, 10**6))
def test_equals_its_naive_twin(seed):
    table = random_table(seed, win=0.5)
    close(salt(table), _naive(table))
