import dataclasses
import math

import numpy as np
import pytest

from agentgym.trajectory import Reply
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.reply_entropy import known_entropies, min_max, reply_entropies

TABLE = episodes("s -right-> u -up-> goal +", "s -left-> pit")


def with_logprobs(table, *logprobs):
    replies = np.empty(len(table), np.object_)
    replies[:] = [None if drawn is None else Reply("x", logprobs=tuple(drawn)) for drawn in logprobs]
    return dataclasses.replace(table, replies=replies)


def test_the_mean_surprise_of_the_tokens():
    found = reply_entropies(with_logprobs(TABLE, [-1.0, -3.0], [], None))
    assert found[0] == 2
    assert np.isnan(found[1:]).all()
    assert np.isnan(reply_entropies(TABLE)).all()


def test_it_estimates_the_entropy():
    # Tokens drawn from (.7, .2, .1): the mean over many is that distribution's entropy.
    p = np.array([0.7, 0.2, 0.1])
    drawn = np.random.default_rng(0).choice(3, 200_000, p=p)
    found = reply_entropies(with_logprobs(TABLE, np.log(p[drawn]).tolist(), [0.0], None))[0]
    assert found == pytest.approx(-(p * np.log(p)).sum(), abs=0.01)


def test_given_entropies_are_taken_and_missing_ones_asked_for():
    assert known_entropies(TABLE, [1, 2, math.nan])[:2].tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"no reply of the table has log-probabilities: play with a policy that"):
        known_entropies(TABLE, None)
    with pytest.raises(ValueError, match=r"entropies must hold one number per row, .* shape \(3,\), got shape \(2,\)"):
        known_entropies(TABLE, [1, 2])


def test_min_max_of_what_is_known():
    values, width, known = min_max(np.array([1.0, 3.0, np.nan, 2.0]), np.array([0, 0, 0, 1]), 3, 0.0)
    assert values.tolist() == [0, 1, 0, 0]
    assert width.tolist() == [2, 0, 0]
    assert known.tolist() == [True, True, False, True]
