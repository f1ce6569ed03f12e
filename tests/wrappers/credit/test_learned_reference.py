"""Learned credit's `paper` presets against a float64 reference of the papers' formulas, on 120 groups in one table."""

import numpy as np

from tests.wrappers.credit.learned import PAPER, answers, mask, token_logprobs

#: iStar's, in the files of answers.
BETA = 0.05


def test_the_rows_of_the_log_probabilities_are_those_of_the_answers():
    gain = BETA * (token_logprobs("prm") - token_logprobs("old"))
    np.testing.assert_allclose(gain.sum(1), answers(PAPER, "istar", "step_reward"), rtol=0, atol=1e-9)
    gain = BETA * (token_logprobs("prm") - token_logprobs("init"))
    np.testing.assert_allclose(gain[mask()], answers(PAPER, "prime", "token_reward"), rtol=0, atol=1e-9)
