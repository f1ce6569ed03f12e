"""StepAgent: what the expert would have written, beside what the policy wrote."""

import dataclasses

import numpy as np
import pytest
import torch

from baselines.imitation.cloning import Demonstrator
from baselines.imitation.step_agent import Advised, StepAgent
from tests.baselines.corridor_learning import babbling_policy
from tests.baselines.imitation.corridor_setting import a_round, losing_policy, seen

torch.set_num_threads(1)


def test_the_advice_is_what_the_expert_would_have_written():
    policy = babbling_policy()
    player = Advised(policy, Demonstrator(policy))
    infos = {"expert_action": np.array(["right", ""], dtype=object)}
    replies = player.act([seen(1), seen(2)], infos, np.random.default_rng(0))
    assert player.advice[id(replies[0])].text == "<action>right</action>"
    assert player.agrees(replies[0]) == (replies[0].text == "<action>right</action>")
    assert player.advice[id(replies[1])].token_ids == ()


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_weights_decay_as_the_setting_says(decay):
    # Who never agrees has advantages of 0 everywhere: nothing but the decay moves the weights, to 1 - rate * decay of
    # what they were in each step.
    part = a_round(losing_policy())
    config = part.setting.training.changed(
        learning_rate=0.1, temperature=0.1, optimiser={"weight_decay": decay}, loss={"kl": 0.0}
    )
    part.setting = dataclasses.replace(part.setting, training=config)
    before = {name: weight.detach().clone() for name, weight in part.policy.model.named_parameters()}
    row = StepAgent(form="agree", samples=2).learn(part)
    assert (row["agreement"], row["grad_norm"]) == (0.0, 0.0)
    factor = (1 - 0.1 * decay) ** row["updates"]
    for name, weight in part.policy.model.named_parameters():
        torch.testing.assert_close(weight.detach(), factor * before[name])
