"""What must agree about replies: acting and scoring, and one way of decoding with another."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest


def check_scores(policy: Any, replies: Sequence[Any], **options: Any) -> Any:
    """Check that the log-probabilities of replies are those that scoring finds for their tokens; return the scores."""
    scores = policy.score([one.prompt_ids for one in replies], [one.token_ids for one in replies], **options)
    assert scores.mask.sum(1).tolist() == [len(one.token_ids) for one in replies]
    written = [number for one in replies for number in one.logprobs]
    assert scores.logprobs[scores.mask].tolist() == pytest.approx(written, abs=1e-5)
    return scores


def check_written(found: Sequence[Any], expected: Sequence[Any], rounding: float = 1e-5) -> None:
    """Check that replies or completions are the same but for the rounding of differently shaped products."""
    assert [one.token_ids for one in found] == [one.token_ids for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=rounding)


def answers(queue: Any, count: int, found: dict[int, Any] | None = None) -> dict[int, Any]:
    """Wait until a queue has answered so many requests, those that were found before among them."""
    found = found or {}
    while len(found) < count:
        found |= dict(queue.get())
    return found


def moved(policy: Any, batch: Any, **memory: Any) -> float:
    """How far an update that takes no step finds the policy from the log-probabilities of a batch."""
    import torch

    from baselines.config import Loss, Optimiser, TrainerConfig
    from baselines.update import update

    config = TrainerConfig(loss=Loss(kl=0.0), optimiser=Optimiser(minibatch_rows=64)).changed(memory=memory)
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.0)
    return update(policy, optimizer, batch, config, np.random.default_rng(0))["approx_kl"]
