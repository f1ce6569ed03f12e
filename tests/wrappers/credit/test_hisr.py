from typing import Any

import numpy as np
import pytest

from agentgym.trajectory import Floats
from tests.cases import cases
from tests.refusals import refuses
from tests.wrappers.credit import oracles
from tests.wrappers.credit.oracles import load
from tests.wrappers.credit.small_tables import close, episodes
from wrappers.credit.hisr import hisr, importance, importance_shares
from wrappers.credit.segments import by_turn

#: Won in four steps of two segments, the third refused; lost in two steps of one.
TABLE = episodes("s -a-> t -a-> u -b!-> u -a-> goal +", "s -b-> t -b-> pit")
SEGMENTS = [0, 0, 1, 1, 0, 0]
PREDICTED = [9.0, 0.5, 9.0, 0.25, 9.0, 0.5]
MATTERED = [1.0, 0.5, 3.0, 2.0, 1.0, 1.0]
#: .5 * 1.5 and .25 * 5 are .75 and 1.25: 3/8 and 5/8 of the success.


@cases(
    "options, rewards",
    ({"alpha": 0.0, "scale": "predicted"}, [0, 0.28125, 0, 0.46875, 0, 0.5]),
    ({"alpha": 0.0, "place": "spread"}, [0.1875, 0.1875, 0.3125, 0.3125, 0, 0]),
    ({"alpha": 0.2}, [0.2, 0.5, 0, 0.7, 0.2, 0.2]),
    ({"alpha": 1.0}, [1, 1, 0, 1, 1, 1]),
)
def test_by_hand(options: dict[str, Any], rewards: list[float]) -> None:
    close(hisr(TABLE, contributions=PREDICTED, importance=MATTERED, segments=SEGMENTS, **options), rewards)


def test_rewards_of_segments_by_hand() -> None:
    # Products .75 and -1.25.
    found = hisr(TABLE, contributions=[0, 0.5, 0, -0.25, 0, 0], importance=MATTERED, segments=SEGMENTS, alpha=0.0)
    close(found, [0, 0.375, 0, -0.625, 0, 0])
    nan = np.nan
    plain: Any = {"segments": SEGMENTS, "alpha": 0.0}
    found = hisr(TABLE, contributions=[nan, nan, nan, 0.25, nan, nan], importance=MATTERED, **plain)
    close(found, [0, 0, 0, 1, 0, 0])
    # The second segment's turns: nan and 1, so products .75 and .25.
    found = hisr(TABLE, contributions=PREDICTED, importance=[1, 0.5, nan, 1, 1, 1], **plain)
    close(found, [0, 0.75, 0, 0.25, 0, 0])
    assert not hisr(TABLE, contributions=[nan] * 6, importance=MATTERED, **plain).any()
    assert not hisr(TABLE, contributions=PREDICTED, importance=[0.0] * 6, scale="one", **plain).any()
    table = episodes(" ".join(["s", *["-wait-> s"] * 20]), "s -up-> goal +")
    for grounding, lost, won in (("bonus", 6.0, 1.0), ("penalty", 0.0, 0.7)):
        rewards = hisr(
            table, contributions=np.ones(21), importance=np.ones(21), segments=by_turn(table), grounding=grounding,  # type: ignore[arg-type]
        )  # fmt: skip
        close(np.bincount(table.trajectory, weights=rewards), [lost, won])


def test_importance_by_hand_and_the_papers() -> None:
    # Won: 1.5 and 5 of 6.5. Lost: one segment.
    found = importance_shares(TABLE, importance=MATTERED, segments=SEGMENTS)
    close(found, np.array([1.5, 1.5, 5, 5, 6.5, 6.5]) / 6.5)
    assert not importance_shares(TABLE, importance=[np.nan] * 6, segments=SEGMENTS).any()
    # Means over 2, 1 and 3 tokens: .3, -.6 and 0.
    policy = np.log([[0.5, 0.5, 1], [0.4, 1, 1], [0.1, 0.2, 0.3]])
    hindsight = policy + np.array([[0.6, 0.0, 77.0], [-0.6, np.nan, np.inf], [1.0, -1.0, 0.0]])
    mask = [[1, 1, 0], [1, 0, 0], [1, 1, 1]]
    close(importance(policy, hindsight, mask), np.exp([1.0, -2.0, 0.0]))
    close(importance(policy, hindsight, mask, beta=0.6), np.exp([0.5, -1.0, 0.0]))
    close(importance(policy, hindsight, mask, clip=0.75), np.exp([0.75, -0.75, 0.0]))
    found = importance([[-1.0, -1.0], [np.nan, -1.0], [0.0, 0.0]], [[-1.0, -1.0]] * 3, [[0, 0], [1, 1], [1, 1]])
    assert np.isnan(found[:2]).all()
    assert found[2] == pytest.approx(np.exp(-1 / 0.3))
    assert importance(np.zeros((0, 4)), np.zeros((0, 4)), np.zeros((0, 4))).shape == (0,)
    # However unlikely the reply was, the number can be worked with.
    assert np.isfinite(importance([[-1e6], [0.0]], [[0.0], [-1e6]], [[1], [1]])).all()
    z, segments = _recorded_importance(), oracles.scores("segment").astype(int)
    np.testing.assert_allclose(z, oracles.answers(oracles.PAPER, "hisr", "z"), rtol=1e-7)
    shares = importance_shares(oracles.table(), importance=z, segments=segments)
    close(shares, oracles.answers(oracles.PAPER, "hisr", "z_segment_share"), 1e-6)


def test_the_tables_of_the_paper() -> None:
    rows = 0
    for printed in load("golden")["hisr_tables"]["tables"].values():
        n = len(printed["R_hat"])
        table = episodes(" ".join(["s", *["-a-> s"] * n, "+"]))
        given = {"contributions": printed["R_hat"], "importance": printed["z_hat"], "segments": by_turn(table)}
        close(hisr(table, alpha=0.0, **given), printed["R_him_paper"], 0.0025)
        rows += n
    assert rows == 23


@cases(
    "arguments, words",
    (([0.0], [0.0], [1]), r"mask must be of shape \(N, K\)"),
    (([[0.0, 0.0]], [[0.0]], [[1]]), r"policy_lp must be of the mask's shape \(1, 1\), got shape \(1, 2\)"),
    (([[0.0]], [[-np.inf]], [[1]]), "hindsight_lp must be finite inside the mask; token 0 of row 0 has -inf"),
)
def test_wrong_log_probabilities_are_named(arguments: Any, words: str) -> None:
    refuses(ValueError, words, importance, *arguments)
    for number in (0, -1.0, np.nan):
        refuses(ValueError, "beta must be above 0", importance, [[0.0]], [[0.0]], [[1]], beta=number)
        refuses(ValueError, "clip must be above 0, or None", importance, [[0.0]], [[0.0]], [[1]], clip=number)


@cases(
    "arguments, words",
    ({"importance": [1, 1, 1, -0.5, 1, 1]}, "importance must be at least 0; row 3 has -0.5"),
    ({"segments": [0, 0, 2, 2, 0, 0]}, "rising by 0 or 1 from step to step; row 2 has 2"),
    ({"alpha": 1.5}, "alpha must be between 0 and 1, got 1.5"),
)
def test_wrong_input_is_named(arguments: dict[str, Any], words: str) -> None:
    right: Any = {"contributions": PREDICTED, "importance": MATTERED, "segments": SEGMENTS}
    refuses(ValueError, words, hisr, TABLE, **{**right, **arguments})


def _recorded_importance() -> Floats:
    return importance(oracles.token_logprobs("old"), oracles.token_logprobs("hindsight"), oracles.mask())


@cases(
    "key, options",
    ("r_him|scale=one", {"alpha": 0.0, "scale": "one"}),
    ("r_fuse|scale=one", {"scale": "one"}),
    ("r_fuse|scale=one|grounding=penalty", {"scale": "one", "grounding": "penalty"}),
    ("r_him|scale=outcome", {"alpha": 0.0}),
    ("r_him|scale=outcome|place=spread", {"alpha": 0.0, "place": "spread"}),
    ("r_fuse|scale=outcome", {}),
    ("r_fuse|scale=outcome|grounding=penalty", {"grounding": "penalty"}),
)
def test_the_paper(key: str, options: dict[str, Any]) -> None:
    found = hisr(
        oracles.table(), contributions=oracles.scores("contribution"), importance=_recorded_importance(),
        segments=oracles.scores("segment").astype(int), **options,
    )  # fmt: skip
    close(found, oracles.answers(oracles.PAPER, "hisr", key), 1e-6)
