import dataclasses
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.refusals import refuses
from tests.wrappers.credit.naive import groups, standard
from tests.wrappers.credit.small_tables import close, episodes, random_table
from tests.wrappers.credit.test_credit_parts import with_logprobs
from wrappers.credit import grpo
from wrappers.credit.hcapo import hcapo, hindsight_ratios

TABLE = episodes("s -right-> u -up-> v -up-> goal +", "s -left-> pit")
#: Likelier in hindsight by e^.5, less likely by e^-.5, as likely; and nothing of the lost one.
HINDSIGHT, PLAIN = [-1.0, -2.0, -1.0, -1.0], [-1.5, -1.5, -1.0, -3.0]
UP, DOWN = math.exp(0.5 / 5), math.exp(-0.5 / 5)


def test_by_hand() -> None:
    # Ratios e^.1, e^-.1, 1, and e^.4 cut to 1.2; returns 1 1 1 0: Q = 1.105 .905 1 0, mean .7525; GRPO +-1/2.
    close(hindsight_ratios(TABLE, hindsight=HINDSIGHT, plain=PLAIN), [UP, DOWN, 1, 1.2])
    worth = np.array([UP, DOWN, 1, 0])
    found = hcapo(TABLE, hindsight=HINDSIGHT, plain=PLAIN, std="none")
    close(found, np.array([0.5, 0.5, 0.5, -0.5]) + worth - worth.mean())
    found = hcapo(TABLE, hindsight=HINDSIGHT, plain=PLAIN, eps=0.0, omega=2.0) - grpo(TABLE, eps=0.0)
    close(found, 2 * (worth - worth.mean()) / worth.std(ddof=1))
    given: dict[str, Any] = {"hindsight": HINDSIGHT, "plain": PLAIN, "temper": 1.0}
    close(hindsight_ratios(TABLE, **given), [1.2, 0.8, 1, 1.2])
    wide = hindsight_ratios(TABLE, low=0.0, high=5.0, **given)
    close(wide, [math.exp(0.5), math.exp(-0.5), 1, 5])
    # e^-1 e^-2 e^-1 about their mean; the lost episode has one step: 1. Plain likelihoods play no part.
    mean = (2 * math.exp(-1) + math.exp(-2)) / 3
    wide: dict[str, Any] = {"against": "episode", "temper": 1.0, "low": 0.0, "high": 5.0}
    found = hindsight_ratios(TABLE, hindsight=HINDSIGHT, **wide)
    close(found, [math.exp(-1) / mean, math.exp(-2) / mean, math.exp(-1) / mean, 1])
    small = hindsight_ratios(TABLE, hindsight=np.array(HINDSIGHT) - 1000.0, **wide)  # far below what exp can hold
    close(small, found)
    assert hindsight_ratios(TABLE, hindsight=[-1, math.nan, -1, math.nan], against="episode").tolist() == [1, 1, 1, 1]
    given: dict[str, Any] = {"hindsight": HINDSIGHT, "plain": PLAIN, "smoothing": 0.5}
    found = hindsight_ratios(TABLE, **given)
    close(found, [(UP + DOWN) / 2, (DOWN + 1) / 2, 1, 1.2])  # an episode's last step has no next
    both = hindsight_ratios(TABLE, neighbours="both", **given)
    close(both, [(UP + DOWN) / 2, (DOWN + (UP + 1) / 2) / 2, (1 + DOWN) / 2, 1.2])
    given: dict[str, Any] = {"hindsight": HINDSIGHT, "plain": PLAIN, "std": "none"}
    worse = given | {"hindsight": [-1.0, -9.0, -9.0, -1.0], "low": 0.0}
    assert (hcapo(TABLE, **worse) - grpo(TABLE, std="none"))[1] < 0
    spared = hcapo(TABLE, do_no_harm=True, **worse) - grpo(TABLE, std="none")
    assert (spared[:3] >= 0).all()
    assert spared[1] == 0 > spared[3]


def test_what_is_not_known_failed_groups_penalties_and_wrong_numbers() -> None:
    flat: dict[str, Any] = {"hindsight": [-1.0] * 4, "plain": [-1.0] * 4, "std": "none"}
    steps = hcapo(TABLE, gamma=0.5, **flat) - grpo(TABLE, std="none")
    close(steps, np.array([0.25, 0.5, 1, 0]) - 1.75 / 4)
    paid = dataclasses.replace(TABLE, reward=np.array([3.0, 0, 1, 2]))
    steps = hcapo(paid, **flat) - grpo(paid, std="none")
    close(steps, np.array([4, 1, 1, 2]) - 2)
    close(hcapo(paid, outcome="won", **flat), hcapo(TABLE, **flat))
    played = with_logprobs(TABLE, [-1.0, -2.0], [-1.5], [-1.0], [-3.0])
    close(hcapo(played, hindsight=HINDSIGHT), hcapo(TABLE, hindsight=HINDSIGHT, plain=PLAIN))
    with pytest.raises(ValueError, match=r"no reply of the table has log-probabilities: .* as `plain`"):
        hcapo(TABLE, hindsight=HINDSIGHT)
    nothing = [math.nan] * 4
    np.testing.assert_array_equal(hindsight_ratios(TABLE, hindsight=nothing), np.ones(4))
    close(hindsight_ratios(TABLE, hindsight=HINDSIGHT, plain=[math.nan, -1.5, math.nan, -1.0]), [1, DOWN, 1, 1])
    invalid = dataclasses.replace(TABLE, valid=np.array([True, False, True, True]))
    # Off the reward of (0, 1): its episode loses 1/4 against the other; what was to come is less by 1/2 before it.
    felt = hcapo(invalid, invalid_penalty=0.5, penalty="discounted", **flat) - hcapo(TABLE, **flat)
    close(felt, [-0.25 - 0.25, -0.25 - 0.25, -0.25 + 0.25, 0.25 + 0.25])
    refuses(ValueError, "low must be between 0 and 1", hcapo, TABLE, hindsight=HINDSIGHT, plain=PLAIN, low=1.1)


def naive(table: StepTable, hindsight: np.ndarray, plain: np.ndarray, smoothing: float) -> np.ndarray:
    """The formulas in plain words, without penalties."""
    scores = grpo(table)
    for group in groups(table):
        worth = {}
        for trajectory, rows in group:
            rho = [min(max(math.exp((hindsight[row] - plain[row]) / 5), 0.8), 1.2) for row in rows]
            smooth = [(1 - smoothing) * now + smoothing * after for now, after in pairwise(rho)] + rho[-1:]
            to_come = 0.0
            for row, step, factor in reversed(list(zip(rows, trajectory.steps, smooth, strict=True))):
                to_come += step.reward
                worth[row] = factor * to_come
        scores[list(worth)] += standard(list(worth.values()))
    return scores


@given(seed=st.integers(0, 10**6), smoothing=st.sampled_from([0.0, 0.5]))
def test_equals_plain_loops(seed: int, smoothing: float) -> None:
    table = random_table(seed, win=0.5)
    hindsight, plain = -3 * np.random.default_rng(seed).random((2, len(table)))
    found = hcapo(table, hindsight=hindsight, plain=plain, smoothing=smoothing)
    close(found, naive(table, hindsight, plain, smoothing))
