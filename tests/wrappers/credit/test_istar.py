from functools import cache
from typing import Any

import numpy as np

from tests.cases import cases
from tests.wrappers.credit.oracles import AUTHORS, answers, assert_agree, batches, mask, spans, table, token_logprobs
from tests.wrappers.credit.small_tables import close, episodes
from wrappers.credit import grpo, process_reward, reinforce_plus_plus_baseline
from wrappers.credit.forks import first_rows
from wrappers.credit.group import whitened
from wrappers.credit.istar import PRESETS, istar

BETA = 0.05
#: The second step of the first episode is refused.
TWO = episodes("s -right-> u -up!-> goal +", "s -left-> v -up-> pit")


@cache
def _scores() -> np.ndarray:
    return BETA * (token_logprobs("prm") - token_logprobs("old")).sum(1)


def _scaled() -> np.ndarray:
    """Step scores as the authors divide them."""
    result = np.concatenate([_scores()[rows] / np.abs(_scores()[rows]).max() for _, rows in batches()])
    close(result, answers(AUTHORS, "istar", "step_score_batch_norm"), 1e-4)
    return result


def test_by_hand() -> None:
    # Outcomes 1 and 0, scores in units of 0.01: -2, 2, 0, 0: mean 0, sample variance 8/3.
    episode = 0.5**0.5
    found = istar(TWO, scores=[-0.02, 0.02, 0.0, 0.0], eps=0.0)
    close(found, [episode - 1.5**0.5, episode + 1.5**0.5, -episode, -episode])
    scores = np.array([-0.02, 0.03, 0.0, 0.01])
    for preset in PRESETS:
        options: Any = {"preset": preset, "eps": 0.0}
        close(istar(TWO, scores=scores, **options), istar(TWO, scores=7 * scores, **options))
    assert (istar(TWO, scores=np.zeros(4)) == grpo(TWO)).all()
    scores = [0.1, 0.2, -0.1, 0.0]
    for preset in ("paper", "authors"):
        assert (istar(TWO, scores=scores, preset=preset) == process_reward(TWO, scores=scores, preset=preset)).all()


@cases(
    "preset, options, key",
    ("authors", {}, "rloo"),
    ("authors", {"alpha_trajectory": 0.0}, "process_only_rloo"),
    ("authors_grpo", {}, "grpo|mean_norm"),
)
def test_authors(preset: str, options: Any, key: str) -> None:
    assert_agree(istar(table(), scores=_scores(), preset=preset, **options), answers(AUTHORS, "istar", key), atol=1e-4)


def test_authors_by_deviation_and_whitening() -> None:
    # In groups whose first rows agree the original divides by 1e-6: advantages of 100,000.
    of, scaled = table(), _scaled()
    outcome = of.trajectory_return[of.trajectory] - 0.1 * ~of.valid
    first = first_rows(of)
    contrast = [spans(values[first], of.group[first])[of.trajectory] for values in (outcome, scaled)]
    theirs = answers(AUTHORS, "istar", "grpo|mean_std_norm")
    ours = istar(of, scores=_scores(), preset="authors_grpo", std="group")
    assert assert_agree(ours, theirs, *contrast) > 8000
    assert np.abs(theirs).max() > 99_000
    assert np.abs(ours).max() < 1000
    lengths = mask().sum(1)
    parts = []
    for of, rows in batches():
        episode = reinforce_plus_plus_baseline(of, preset="authors", over="trajectories", weights=lengths[rows])
        step = istar(of, scores=_scores()[rows], preset="authors_grpo", alpha_trajectory=0.0)
        parts.append(episode + whitened(step, lengths[rows].astype(float)))
    of = table()
    contrast = spans(of.trajectory_return[of.trajectory] - 0.1 * ~of.valid, of.group)
    assert_agree(np.concatenate(parts), answers(AUTHORS, "istar", "rfpp_baseline"), contrast)
    theirs = answers(AUTHORS, "istar_repo_prime_baseline", "advantage")
    scores = answers(AUTHORS, "istar_repo_prime_baseline", "token_score_sum")
    assert_agree(istar(table(), scores=scores, preset="authors", score_norm="none"), theirs, atol=1e-4)
