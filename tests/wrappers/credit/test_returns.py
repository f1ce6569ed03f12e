import numpy as np

from tests.playing import filled
from wrappers.credit.grpo import PRESETS
from wrappers.credit.returns import discounted_returns, episode_scores, penalties

TABLE = filled(
    trajectory=list("abaa"), t=[0, 0, 1, 2], state=list("suvw"), next_state=list("vtwz"), reward=[1.0, 8.0, 2.0, 4.0],
    won=[True, False, True, True], valid=[True, False, False, True],
)  # fmt: skip


def test_returns_and_penalties_by_hand() -> None:
    # a: 4; 2 + 4/2 = 4; 1 + 4/2 = 3. b: 8.
    assert discounted_returns(TABLE, 0.5).tolist() == [3.0, 8.0, 4.0, 4.0]
    assert discounted_returns(TABLE, 1.0).tolist() == [7.0, 8.0, 6.0, 4.0]
    assert discounted_returns(TABLE, 0.0).tolist() == [1.0, 8.0, 2.0, 4.0]
    assert discounted_returns(TABLE, 0.5, np.array([0.0, 0.0, 0.0, 1.0])).tolist() == [0.25, 0.0, 0.5, 1.0]
    # a is worth 1 + 2 + 4 = 7 and has one invalid step, b is worth 8 and is invalid.
    options = {**PRESETS["paper"], "invalid_penalty": 0.5}
    assert episode_scores(TABLE, {**options, "penalty": "row"}).tolist() == [7.0, 7.5, 6.5, 7.0]
    assert episode_scores(TABLE, {**options, "penalty": "discounted"}).tolist() == [6.5, 7.5, 6.5, 6.5]
    assert episode_scores(TABLE, {**options, "penalty": "advantage"}).tolist() == [7.0, 8.0, 7.0, 7.0]
    assert episode_scores(TABLE, {**options, "outcome": "won"}).tolist() == [1.0, -0.5, 0.5, 1.0]
    assert penalties(TABLE, {**options, "penalty": "row"}, "row").tolist() == [0.0, 0.5, 0.5, 0.0]
    assert penalties(TABLE, {**options, "penalty": "row"}, "discounted").tolist() == [0.0] * 4
