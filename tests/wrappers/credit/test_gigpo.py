import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.credit.naive import naive_gigpo
from tests.wrappers.credit.small_tables import close, episodes, random_table
from wrappers.credit import gigpo, grpo

# "u" is visited three times, twice by the first episode.
TABLE = episodes("s -a-> u -b-> s -a-> u -c-> goal +", "s -d-> u -e-> pit", reward=8.0)


def test_by_hand() -> None:
    # gamma .5: returns 1 2 4 8 and 0 0. At s: 1 4 0, mean 5/3; at u: 2 8 0, mean 10/3. Episodes: 8 and 0, mean 4.
    expected = [1 - 5 / 3, 2 - 10 / 3, 4 - 5 / 3, 8 - 10 / 3, 0 - 5 / 3, 0 - 10 / 3]
    steps = gigpo(TABLE, gamma=0.5, std="none") - grpo(TABLE, std="none")
    assert steps == pytest.approx(expected)
    assert grpo(TABLE, std="none") == pytest.approx([4, 4, 4, 4, -4, -4])
    steps = gigpo(TABLE) - grpo(TABLE)
    assert gigpo(TABLE, omega=0.25) == pytest.approx(grpo(TABLE) + 0.25 * steps)
    table = episodes("s -a-> goal +", "t -b-> pit")
    assert gigpo(table) == pytest.approx(grpo(table))
    # The second step costs 1, which the first return feels as 1/2; the rows' penalties stay where they are.
    table = episodes("s -a-> u -b!-> u", "s -a-> v")
    spread = gigpo(table, gamma=0.5, std="none", invalid_penalty=1.0, penalty="discounted")
    # s: returns -1/2 and 0, mean -1/4; episodes -1 and 0, mean -1/2.
    assert spread == pytest.approx([-0.25 - 0.5, -0.5, 0.25 + 0.5])
    # Only that row's return and score change: nothing to compare the return with, score 0 - 1 against a mean of 0.
    assert gigpo(table, gamma=0.5, std="none", invalid_penalty=1.0, penalty="row") == pytest.approx([0, -1, 0])


@given(seed=st.integers(0, 10**6))
def test_naive_twin(seed):
    table = random_table(seed)
    close(gigpo(table), naive_gigpo(table, 0.95))
