"""Implicit reward on two made worlds: one where one action decides, and one where nothing but the length does."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from baselines.scorers.implicit_reward import ImplicitReward, ImplicitRewardConfig
from tests.baselines.corridor_learning import babbling_policy
from wrappers.credit.evidence import pair_accuracy

CELLS, DECISIVE = 5, 2


@cache
def _policy() -> Any:
    return babbling_policy()


def _table(cells: list[np.ndarray], won: Any, seed: int) -> StepTable:
    """Episodes in groups of eight, each a walk through given cells whatever is done; `won(words)` is their outcome."""
    seen = np.concatenate(cells)
    trajectory = np.repeat(np.arange(len(cells)), [len(walk) for walk in cells])
    replies = _policy().act([f"cell {cell}" for cell in seen], {}, np.random.default_rng(seed))
    words = np.array([reply.text for reply in replies])
    outcome = np.array([won(words[trajectory == one], cells[one]) for one in range(len(cells))])
    return StepTable.from_arrays(
        group=trajectory // 8,
        trajectory=trajectory,
        t=np.concatenate([np.arange(len(walk)) for walk in cells]),
        state=seen,
        action=words,
        next_state=seen,
        reward=np.zeros(len(seen)),
        won=outcome[trajectory],
        replies=replies,
    )


def _crossroads(seed: int, episodes: int = 128) -> StepTable:
    """All five cells in turn; what is answered in the third decides."""
    return _table([np.arange(CELLS)] * episodes, lambda words, _: "right" in words[DECISIVE], seed)


def _waiting(seed: int, episodes: int = 128) -> StepTable:
    """Two to six random cells; short episodes are won."""
    rng = np.random.default_rng(seed)
    walks = [rng.integers(0, CELLS, rng.integers(2, 7)) for _ in range(episodes)]
    return _table(walks, lambda words, _: len(words) <= 3, seed)


def _learned(world: Any, iterations: int, **changes: Any) -> tuple[ImplicitReward, list[float]]:
    """A reward model, and how it ordered the pairs of each table before it learned from it."""
    reward, rng = ImplicitReward(_policy(), ImplicitRewardConfig(beta=0.5, **changes)), np.random.default_rng(0)
    accuracies = []
    for seed in range(iterations):
        table = world(seed)
        scores = reward.scores(table)
        accuracies.append(pair_accuracy(table, scores))
        reward.update(table, scores, None, rng, 2e-3)
    return reward, accuracies


def test_the_decisive_step_scores_highest_and_sums_must_be_centred() -> None:
    reward, accuracies = _learned(_crossroads, 30, reduce="sum")
    table = _crossroads(seed=999, episodes=256)
    steps = reward.scores(table).reshape(-1, CELLS)[table.trajectory_won]
    assert len(steps) > 50
    assert (steps.argmax(1) == DECISIVE).mean() > 0.9  # .99 measured; at random .2
    assert accuracies[-1] > 0.95 > 0.5 == accuracies[0]
    table = _waiting(seed=999, episodes=2048)
    plain, _ = _learned(_waiting, 40, reduce="sum")
    scores = plain.scores(table)
    assert pair_accuracy(table, scores) > 0.9  # though no answer made a difference
    assert pair_accuracy(table, scores, centred=True) == pytest.approx(0.5, abs=0.05)
    centred, _ = _learned(_waiting, 40, reduce="sum", centre=True)
    assert pair_accuracy(table, centred.scores(table)) == pytest.approx(0.5, abs=0.05)
