"""How a judge's answer is read as scores."""

import math

import pytest

from agentgym.outside.text import DataError
from policies.engines.judge import read_scores

NAN = math.nan


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"1": 2, "2": -0.5, "3": null}', [2.0, -0.5, None]),
        ('{"3": 3, "1": 1, "2": 2}', [1.0, 2.0, 3.0]),
        ('{"scores": {"1": 2, "2": 5, "3": -5}}', [2.0, 5.0, -5.0]),
        ('{"scores": [2, null, 5.0]}', [2.0, None, 5.0]),
        ('<think>{"1": 5}</think>Here:\n```json\n{"1": 2, "2": 1, "3": 0}\n```', [2.0, 1.0, 0.0]),
        ('{"1": true, "2": false, "3": "3"}', [NAN, NAN, NAN]),
        ('{"1": NaN, "2": Infinity, "3": -Infinity}', [NAN, NAN, NAN]),
        ('{"1": 5.01, "2": -6, "3": 1e400}', [NAN, NAN, NAN]),
        ('{"1": 1, "2": ' + "9" * 100_000 + ', "3": -' + "9" * 100 + "}", [1.0, NAN, NAN]),
        ('{"1": [1], "2": {"score": 1}, "3": 1}', [NAN, NAN, 1.0]),
        ('{"1": ' + "[" * 200 + "]" * 200 + ', "2": {}, "3": 1}', [NAN, NAN, 1.0]),
    ],
)
def test_numbers_that_are_none_cost_their_step(text: str, expected: list[float | None]) -> None:
    found = read_scores(text, 3, -5, 5)
    assert [score is None for score in found] == [score is None for score in expected]
    assert [score or 0.0 for score in found] == pytest.approx([score or 0.0 for score in expected], nan_ok=True)


def test_what_is_no_answer_is_named() -> None:
    with pytest.raises(DataError, match=r"\['1', '3'\]"):
        read_scores('{"1": 1, "3": 2}', 2, -5, 5)
