"""Learned credit's `paper` presets against a float64 reference of the papers' formulas, on 120 groups in one table."""

import numpy as np
import pytest

from tests.wrappers.credit.learned import PAPER, answers, batches, mask, scores, token_logprobs
from tests.wrappers.credit.oracles import table
from wrappers.credit.istar import istar
from wrappers.credit.prime import prime
from wrappers.credit.process_reward import process_reward

#: iStar's and PRIME's, in the files of answers.
BETA = 0.05


def _same(ours, *keys):
    # The file holds eight significant digits.
    np.testing.assert_allclose(ours, answers(PAPER, *keys), rtol=1e-7, atol=1e-7)


def _step_rewards():
    return BETA * (token_logprobs("prm") - token_logprobs("old")).sum(1)


def _token_rewards():
    return BETA * (token_logprobs("prm") - token_logprobs("init"))


def test_the_rows_of_the_log_probabilities_are_those_of_the_answers():
    _same(_step_rewards(), "istar", "step_reward")
    _same(_token_rewards()[mask()], "prime", "token_reward")


def test_istar():
    _same(istar(table(), scores=_step_rewards()), "istar", "advantage")
    _same(istar(table(), scores=_step_rewards(), alpha_trajectory=0.0), "istar", "step_adv")
    _same(istar(table(), scores=_step_rewards(), alpha=0.0), "istar", "episode_adv")


def test_istar_against_the_others():
    options = {"scores": _step_rewards(), "relative": "rloo"}
    _same(istar(table(), **options, alpha_trajectory=0.0), "istar", "step_adv_rloo")
    _same(istar(table(), **options, alpha=0.0), "istar", "episode_adv_rloo")


def test_scores_of_a_judge():
    judge = scores("judge")
    assert set(judge) == {-1.0, 0.0, 1.0}
    _same(process_reward(table(), scores=judge), "scores", "reward", "advantage")
    _same(process_reward(table(), scores=judge, alpha_trajectory=0.0), "scores", "reward", "step_adv")
    to_go = process_reward(table(), scores=judge, alpha_trajectory=0.0, horizon="to_go", gamma=0.95)
    _same(to_go, "scores", "return", "step_adv")
    _same(process_reward(table(), scores=judge, alpha_trajectory=0.0, compare="state"), "scores", "state", "step_adv")


@pytest.mark.parametrize(("whiten", "key"), [(False, "advantage"), (True, "advantage_whitened")])
def test_prime(whiten, key):
    # The reference was given one case at a time, which whitening sees.
    rewards, replies = _token_rewards(), mask()
    ours = [prime(of, scores=rewards[rows], mask=replies[rows], whiten=whiten)[replies[rows]] for of, rows in batches()]
    _same(np.concatenate(ours), "prime", key)
