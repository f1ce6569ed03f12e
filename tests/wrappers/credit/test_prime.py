import itertools
from typing import Any

import numpy as np
import pytest

from tests.wrappers.credit.oracles import AUTHORS, answers, assert_agree, batches, mask, token_logprobs
from tests.wrappers.credit.small_tables import close, episodes
from wrappers.credit import prime, rloo

BETA = 0.05
NAN = float("nan")
#: The second step of the first episode is refused.
TWO = episodes("s -right-> u -up!-> goal +", "s -left-> pit")
#: Replies of 1, 2 and 2 tokens.
REPLIES = np.array([[1, 0], [1, 1], [1, 1]], bool)
SCORES = np.array([[0.1, NAN], [0.3, 0.5], [-0.2, 0.4]])
PROCESS: Any = {"alpha_trajectory": 0.0}


def test_by_hand() -> None:
    # Means 0.3 and 0.1. First episode less 0.1: 0, 0.2, 0.4, to go 0.6, 0.6, 0.4. Second less 0.3: -0.5, 0.1.
    close(prime(TWO, scores=SCORES, mask=REPLIES), [[1.6, 0.0], [1.6, 1.4], [-1.4, -0.9]])
    found = prime(TWO, scores=SCORES, mask=REPLIES, gamma=0.5, alpha=10.0, **PROCESS)
    close(found, [[2.0, 0.0], [4.0, 4.0], [-4.5, 1.0]])
    # Sums 0.1, 0.8 and 0.2: means 0.45 and 0.2. Less 0.2: -0.1, 0.6; less 0.45: -0.25; half of what follows.
    found = prime(TWO, scores=SCORES, mask=REPLIES, per="step", gamma=0.5, **PROCESS)
    close(found, [[0.2, 0.0], [0.6, 0.6], [-0.25, -0.25]])
    one = np.ones((3, 1), bool)
    options: Any = {"preset": "authors", "whiten": False, **PROCESS}
    found = prime(TWO, scores=[[0.3], [0.1], [0.2]], mask=one, baseline="others", **options)
    # 0.3 and 0 of the first episode are 1 and 0, the second's only token has nothing: 1 - 0, 0 - 0, 0 - 1/2.
    close(found, [[5.0], [0.0], [-2.5]])
    found = prime(TWO, scores=SCORES, mask=REPLIES, whiten=True)[REPLIES]
    plain = np.array([1.6, 1.6, 1.4, -1.4, -0.9])
    np.testing.assert_allclose(found, (plain - plain.mean()) / plain.std(ddof=1), rtol=1e-7)


def test_further_cases_by_hand() -> None:
    table = episodes("s -a-> goal +", "s -b-> pit", "s -c-> pit")
    scores, one = [[0.5], [0.1], [0.3]], np.ones((3, 1), bool)
    found = [prime(table, scores=scores, mask=one, baseline=baseline) for baseline in ("others", "scaled")]  # type: ignore[arg-type]
    close(found[0], [[1.3], [-0.8], [-0.5]])
    close(found[1], found[0])
    silent = np.array([[NAN, NAN], [0.3, NAN], [-0.2, 0.4]])
    # Means 0.3 and 0.1: 0.2 once; -0.5 and 0.1.
    close(prime(TWO, scores=silent, mask=REPLIES, **PROCESS), [[0.0, 0.0], [0.2, 0.0], [-0.4, 0.1]])
    nothing = prime(TWO, scores=np.full((3, 2), NAN), mask=REPLIES)
    np.testing.assert_array_equal(nothing, np.where(REPLIES, rloo(TWO)[:, None], 0.0))
    by_steps = prime(TWO, scores=silent, mask=REPLIES, per="step", **PROCESS)
    close(by_steps, [[0.0, 0.0], [0.1, 0.1], [-0.1, -0.1]])  # 0.3 - 0.2 and 0.2 - 0.3
    wild = np.where(REPLIES, SCORES, np.inf)
    np.testing.assert_array_equal(
        prime(TWO, scores=wild, mask=REPLIES), prime(TWO, scores=np.where(REPLIES, SCORES, 0.0), mask=REPLIES)
    )
    lone = episodes("s -a-> goal +")
    for baseline in ("others", "scaled"):
        given: Any = {"scores": [[0.1, 0.2]], "mask": [[1, 1]], "baseline": baseline}
        np.testing.assert_array_equal(prime(lone, **given), [[0.0, 0.0]])
        close(prime(lone, singleton="raw", **given), [[1.3, 1.2]])
    for preset, per in itertools.product(("paper", "authors"), ("token", "step")):
        given = {"scores": np.zeros((3, 2)), "mask": np.zeros((3, 2), bool), "preset": preset, "per": per}
        assert not prime(TWO, **given).any()
    gap = [np.insert(each, 1, fill, axis=1) for each, fill in ((SCORES, 9.0), (REPLIES, False))]  # inside replies
    found = prime(TWO, scores=gap[0], mask=gap[1], gamma=0.9)
    close(found, np.insert(prime(TWO, scores=SCORES, mask=REPLIES, gamma=0.9), 1, 0.0, axis=1))


@pytest.mark.parametrize(
    ("where", "lost"), [("row", [0.0, 0.4, 0.0]), ("discounted", [0.4, 0.4, -0.4]), ("advantage", [0.0, 0.4, 0.0])]
)
def test_the_penalty_is_taken_from_the_outcome(where: Any, lost: list[float]) -> None:
    # Row 1 is refused; the mean of a "row" penalty is that of the first rows, none of which is.
    plain = prime(TWO, scores=SCORES, mask=REPLIES)
    found = prime(TWO, scores=SCORES, mask=REPLIES, invalid_penalty=0.4, penalty=where)
    double = 2.0 if where == "row" else 1.0  # against the other of two: twice the distance to the mean
    expected = np.array(lost)[:, None] * double
    close(plain - found, np.where(REPLIES, expected, 0.0))


def test_the_recipe() -> None:
    rewards, replies = BETA * (token_logprobs("prm") - token_logprobs("init")), mask()
    for whiten, key in ((False, "returns"), (True, "advantages")):
        ours = [
            prime(of, scores=rewards[rows], mask=replies[rows], preset="authors", whiten=whiten)[replies[rows]]
            for of, rows in batches()
        ]
        assert_agree(np.concatenate(ours), answers(AUTHORS, "prime", key), atol=2e-4)
