"""Training an adapter: what learns, what is stored, that a resumed run is the same to the last bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.rollout import collect
from baselines.evaluation import evaluate
from baselines.recipes import RECIPES
from baselines.records.checkpoint import load_checkpoint
from baselines.scorers.critic import Critic
from baselines.trainer import Trainer
from policies.huggingface import HuggingFacePolicy
from policies.lora import LoraSettings, add_lora
from policies.training import trained_state
from tests.baselines.corridor_learning import CONFIG, TASKS, babbling_policy, corridor, repeatable


def adapted(seed: int = 0) -> HuggingFacePolicy:
    return add_lora(babbling_policy(seed), LoraSettings(rank=4, alpha=16.0), seed=0)


def trainer(policy: HuggingFacePolicy, folder: Path | None = None, *, recipe: str = "grpo", **changes: Any) -> Trainer:
    config = CONFIG.changed(checkpoint={"every": 1}, **{"learning_rate": 2e-2} | changes)
    return Trainer(policy, corridor(), RECIPES[recipe], TASKS, config, folder=folder, resume=True)


def state(policy: HuggingFacePolicy) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in policy.model.state_dict().items()}


def test_an_adapter_learns_the_corridor_and_its_base_stands_still(tmp_path: Path) -> None:
    policy = adapted()
    before, start = state(policy), evaluate(corridor(), policy, TASKS, seed=9, repeats=20).success_rate
    trainer(policy, iterations=15, group_size=8, loss={"kl": 0.0}, memory={"microbatch_tokens": 200}).run()
    assert start < 0.5
    assert evaluate(corridor(), policy, TASKS, seed=9, repeats=20).success_rate > 0.9
    after = state(policy)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all("lora_" in name for name in changed)
    policy.save_pretrained(tmp_path)
    loaded = HuggingFacePolicy.from_pretrained(tmp_path, device="cpu")
    found, expected = (evaluate(corridor(), each, TASKS, seed=9, repeats=20).summary() for each in (loaded, policy))
    assert found == expected


def test_the_reference_is_the_base() -> None:
    policy = adapted()
    made = trainer(policy, iterations=3, loss={"kl": 0.05}, optimiser={"minibatch_rows": 1000})
    assert made.learner.reference.model is policy.model
    rows = made.run()
    assert rows[1]["kl"] == 0.0  # a fresh adapter is its base, and one update per iteration sees the start
    assert rows[2]["kl"] > 0


@pytest.mark.parametrize("recipe", ["grpo", "ppo"])
def test_a_resumed_run_is_the_same_to_the_last_bit(tmp_path: Path, recipe: str) -> None:
    policy = adapted()
    whole = trainer(policy, tmp_path / "whole", iterations=4, recipe=recipe).run()
    trainer(adapted(), tmp_path / "parts", iterations=2, recipe=recipe).run()
    again = adapted()
    with torch.no_grad():
        for weight in trained_state(again.model).values():
            weight.add_(1.0)  # what was trained comes from the checkpoint alone
    resumed = trainer(again, tmp_path / "parts", iterations=4, recipe=recipe)
    assert resumed.iteration == 2
    assert repeatable(resumed.run()) == repeatable(whole)
    assert all(torch.equal(value, again.model.state_dict()[name]) for name, value in state(policy).items())


def test_a_checkpoint_holds_adapters_alone_and_knows_their_base(tmp_path: Path) -> None:
    made = trainer(adapted(), tmp_path, iterations=1, loss={"kl": 0.05})
    made.run()
    assert all("lora_" in name for name in load_checkpoint(tmp_path, made._identity()).model)
    with pytest.raises(ValueError, match="frozen: checkpoint"):
        trainer(adapted(seed=1), tmp_path, iterations=2, loss={"kl": 0.05})


def test_a_critic_beside_an_adapter_shares_the_base() -> None:
    policy = adapted()
    critic = Critic(policy)
    base = {id(weight) for weight in policy.model.parameters() if not weight.requires_grad}
    inside = {id(weight) for weight in critic.model.parameters() if not weight.requires_grad}
    assert inside
    assert inside <= base  # no copy of what neither trains
    assert not {id(weight) for weight in critic.model.parameters() if weight.requires_grad} & {
        id(weight) for weight in policy.model.parameters()
    }
    assert all("lora_" in name or name.startswith(("head", "scale")) for name in critic.state_dict()["model"])
    before = state(policy)
    table = collect(corridor(), policy, tasks=TASKS, group_size=2, seed=0)
    values = critic.scores(table)
    assert (values == 0).all()
    for _ in range(30):
        figures = critic.update(table, values, np.ones(len(table)), np.random.default_rng(0), 1e-2)
    assert figures["value_loss"] < 0.05
    assert critic.scores(table) == pytest.approx(1.0, abs=0.3)
    assert all(torch.equal(value, before[name]) for name, value in state(policy).items())


def test_a_reference_in_16_bits_is_half_as_large_and_resumes(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"loss.kl": 0.05, "loss.reference": "bfloat16", "learning_rate": 1e-2}
    made = trainer(babbling_policy(), tmp_path / "whole", iterations=3, **changes)
    assert {weight.dtype for weight in made.learner.reference.model.parameters()} == {torch.bfloat16}
    whole = made.run()
    trainer(babbling_policy(), tmp_path / "parts", iterations=1, **changes).run()
    assert repeatable(trainer(babbling_policy(), tmp_path / "parts", iterations=3, **changes).run()) == repeatable(
        whole
    )
