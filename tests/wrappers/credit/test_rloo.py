import pytest

from tests.wrappers.credit.small_tables import episodes
from wrappers.credit import rloo


def test_by_hand() -> None:
    table = episodes("s -a-> goal +", "s -b-> goal +", "s -c-> u -c-> v", reward=6.0)
    # 6 - (6 + 0) / 2 = 3, twice; 0 - (6 + 6) / 2 = -6.
    assert rloo(table) == pytest.approx([3, 3, -6, -6])
    assert rloo(table, outcome="won") == pytest.approx([0.5, 0.5, -1, -1])
    # Rows 6 6 0 0: 6 - (6 + 0 + 0) / 3 = 4; 0 - (6 + 6 + 0) / 3 = -4, the episode's own other step among the others.
    assert rloo(table, preset="authors") == pytest.approx([4, 4, -4, -4])
