import dataclasses
import math
from functools import partial
from typing import Any

import numpy as np

from agentgym.checks import LARGEST
from agentgym.trajectory import Reply
from tests.cases import cases
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.scores import known_entropies, min_max, reply_entropies, reply_tokens, step_scores, token_scores


def test_masks_and_what_was_not_scored() -> None:
    given: Any = [1, None, np.nan, -LARGEST]
    np.testing.assert_array_equal(step_scores("q", given, 4), [1, np.nan, np.nan, -LARGEST])
    assert step_scores("q", [], 0).dtype == np.float64
    given: Any = [[1, np.inf], [None, -2]]
    np.testing.assert_array_equal(token_scores("q", given, reply_tokens([[1, 0], [1, 1]], 2)), [[1, 0], [np.nan, -2]])


STEPS = partial(step_scores, "q", length=2)
TOKENS = partial(token_scores, "q", mask=np.array([[True, False], [True, True]]))
MASKS = partial(reply_tokens, length=2)


@cases(
    "read, values, words",
    (STEPS, [1.0], r"q must hold one number per row, nan where it is not scored, shape \(2,\), got shape \(1,\)"),
    (STEPS, [[1.0], [2.0]], r"got shape \(2, 1\)"),
    (STEPS, ["one", "two"], "could not convert"),
    (STEPS, [0.0, -np.inf], "row 1 has -inf, beyond"),
    (STEPS, [1e101, 0.0], "row 0 has 1e\\+101, beyond 1e\\+100"),
    (TOKENS, [[1.0], [2.0]], r"q must be of the mask's shape \(2, 2\), got shape \(2, 1\)"),
    (TOKENS, [[1.0], [2.0, 3.0]], r"q must be of the mask's shape \(2, 2\) \("),
    (TOKENS, [[0.0, 0.0], [0.0, np.inf]], "token 1 of row 1 has inf"),
    (TOKENS, [[-1e101, 0.0], [0.0, 0.0]], "token 0 of row 0 has -1e"),
    (MASKS, [True, False], r"mask must be of shape \(2, K\), a row per step, got shape \(2,\)"),
    (MASKS, [[True], [True], [False]], r"got shape \(3, 1\)"),
    (MASKS, [[True], [True, False]], r"mask must be of shape \(2, K\), a row per step \("),
    (MASKS, [[0.5], [1.0]], "mask must hold True and False, got 0.5"),
)
def test_anything_else_is_refused_by_name(read: Any, values: Any, words: str) -> None:
    refuses(ValueError, words, read, values)


TABLE = episodes("s -right-> u -up-> goal +", "s -left-> pit")


def with_logprobs(table, *logprobs):
    replies = np.empty(len(table), np.object_)
    replies[:] = [None if drawn is None else Reply("x", logprobs=tuple(drawn)) for drawn in logprobs]
    return dataclasses.replace(table, replies=replies)


def test_entropies_by_hand() -> None:
    found = reply_entropies(with_logprobs(TABLE, [-1.0, -3.0], [], None))
    assert found[0] == 2
    assert np.isnan(found[1:]).all()
    assert np.isnan(reply_entropies(TABLE)).all()
    assert known_entropies(TABLE, [1, 2, math.nan])[:2].tolist() == [1, 2]
    refuses(ValueError, r"no reply of the table has log-probabilities: play", known_entropies, TABLE, None)
    refuses(ValueError, r"entropies must hold one number per row, .*got shape \(2,\)", known_entropies, TABLE, [1, 2])
    values, width, known = min_max(np.array([1.0, 3.0, np.nan, 2.0]), np.array([0, 0, 0, 1]), 3, 0.0)
    assert values.tolist() == [0, 1, 0, 0]
    assert width.tolist() == [2, 0, 0]
    assert known.tolist() == [True, True, False, True]
