"""SPEAR: what its buffer holds, what it forgets, and how it is replayed."""

import dataclasses

import pytest
import torch

import baselines.imitation.spear
from baselines.imitation.spear import SPEAR
from baselines.update import update
from tests.baselines.corridor_learning import babbling_policy
from tests.baselines.imitation.corridor_setting import a_round, losing_policy, seen

torch.set_num_threads(1)


def test_the_buffer_forgets_what_is_old():
    policy = babbling_policy()
    part = a_round(policy)
    SPEAR(buffer=10_000).learn(part)
    held = len(part.state["kept"])
    assert held > 0
    later = dataclasses.replace(part, number=9)
    SPEAR(buffer=10_000, tolerance=5).learn(later)
    assert {step[-1] for step in later.state["kept"]} <= {9}


@pytest.mark.parametrize(
    "changes", [{}, {"loss.old_logprobs": "recompute", "loss.tis": 2.0, "rollout.staleness": 1}], ids=str
)
def test_a_replay_is_measured_against_the_policies_that_wrote_it(changes, monkeypatch):
    policy = losing_policy()
    part = a_round(policy)
    config = part.setting.training.changed(optimiser={"epochs": 1, "minibatch_rows": 64}, **changes)
    reply = policy.demonstrate(seen(1), "<action>left</action>")
    with torch.no_grad():
        now = float(policy.score([reply.prompt_ids], [reply.token_ids], temperature=1.0).logprobs)
    # Two rounds wrote the same: one as the policy of today would, one to whom it was e^5 times less likely. With
    # advantages above 0 the clip holds the second alone: half of the tokens.
    kept = [
        [reply.prompt_ids, reply.token_ids, (old,), (), 1.0, number] for number, old in ((19, now - 5.0), (20, now))
    ]
    figures = []

    def seen_by(*arguments):
        figures.append(update(*arguments))
        return figures[-1]

    monkeypatch.setattr(baselines.imitation.spear, "update", seen_by)
    part = dataclasses.replace(
        part, number=20, state={"kept": kept}, setting=dataclasses.replace(part.setting, training=config)
    )
    row = SPEAR(buffer=2, ramp=20).learn(part)
    assert (row["success"], row["replayed"]) == (0.0, 2.0)
    assert figures[1]["clip_fraction"] == pytest.approx(0.5)
