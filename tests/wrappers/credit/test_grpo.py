import numpy as np
import pytest

from tests.wrappers.credit.small_tables import episodes
from wrappers.credit import grpo

# Returns 1, 0, 0 over episodes of 1, 1 and 3 steps.
TABLE = episodes("s -a-> goal +", "s -b-> pit", "s -c-> u -c-> v -c-> w")


def test_by_hand() -> None:
    # mean 1/3, deviations 2/3 -1/3 -1/3, sample variance (4 + 1 + 1) / 9 / 2 = 1/3: 2/3 * sqrt(3) = 1.154701.
    assert grpo(TABLE, eps=0.0) == pytest.approx([1.154701, *[-0.577350] * 4], abs=1e-6)
    assert grpo(TABLE) == pytest.approx(np.array([1.154701, *[-0.577350] * 4]) / (1 + 1e-6 * 3**0.5), abs=1e-6)
    assert grpo(TABLE, std="none") == pytest.approx([2 / 3, *[-1 / 3] * 4])
    # population variance 6 / 9 / 3 = 2/9: 2/3 / sqrt(2/9) = sqrt(2).
    assert grpo(TABLE, ddof=0, eps=0.0) == pytest.approx([2**0.5, *[-(0.5**0.5)] * 4])
    # Five rows worth 1 0 0 0 0: mean 1/5.
    assert grpo(TABLE, over="steps", std="none") == pytest.approx([0.8, *[-0.2] * 4])
    rich = episodes("s -a-> goal +", "s -b-> pit", reward=50.0)
    assert grpo(rich, std="none") == pytest.approx([25, -25])
    assert grpo(rich, std="none", outcome="won") == pytest.approx([0.5, -0.5])
    # Rows worth 1, -0.1, 0 (the second step of the failure is valid): mean 0.3.
    table = episodes("s -a-> goal +", "s -b!-> s -b-> pit")
    assert grpo(table, preset="authors", std="none") == pytest.approx([0.7, -0.4, -0.3])
