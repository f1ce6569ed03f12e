from typing import Any

import numpy as np
import pytest

from wrappers.credit.options import LARGEST
from wrappers.credit.scores import step_scores


def test_what_was_not_scored_is_nan() -> None:
    given: Any = [1, None, np.nan, -LARGEST]
    np.testing.assert_array_equal(step_scores("q", given, 4), [1, np.nan, np.nan, -LARGEST])
    assert step_scores("q", [], 0).dtype == np.float64


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0], r"q must hold one number per row, nan where it is not scored, shape \(2,\), got shape \(1,\)"),
        ([[1.0], [2.0]], r"got shape \(2, 1\)"),
        (["one", "two"], "could not convert"),
        ([0.0, -np.inf], "row 1 has -inf, beyond"),
        ([1e101, 0.0], "row 0 has 1e\\+101, beyond 1e\\+100"),
    ],
)
def test_anything_else_is_refused_by_name(values: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        step_scores("q", values, 2)
