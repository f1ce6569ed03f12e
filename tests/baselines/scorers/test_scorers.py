"""What every scorer that learns satisfies: it goes on to the bit, beside an adapter too, and names a wrong setting."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.trajectory import StepTable
from baselines.scorers.action_value import ActionValue, ActionValueConfig
from baselines.scorers.contribution import Contribution, ContributionConfig
from baselines.scorers.critic import Critic, CriticConfig
from baselines.scorers.hindsight import Hindsight, HindsightConfig
from baselines.scorers.implicit_reward import ImplicitReward, ImplicitRewardConfig
from baselines.scorers.reply_in_hindsight import ReplyInHindsightConfig
from baselines.scorers.scorer import ScorerConfig
from baselines.scorers.segmented_reward import SegmentedRewardConfig
from baselines.scorers.task_distance import TaskDistanceConfig
from policies.lora import LoraSettings, add_lora
from tests.baselines.corridor_learning import babbling_policy, digest, small_policy
from tests.baselines.scorers.heads import learn, played
from tests.cases import cases
from tests.refusals import refuses
from wrappers.credit import action_targets

RATE = 1e-3


@cases(
    "scorer, config",
    (ActionValue, ActionValueConfig(minibatch_rows=2)),
    (Contribution, ContributionConfig(minibatch_trajectories=5, head="mlp")),
    (Hindsight, HindsightConfig(minibatch_rows=4)),
    (ImplicitReward, ImplicitRewardConfig(minibatch_groups=1)),
    (ImplicitReward, ImplicitRewardConfig(minibatch_groups=1, reference="start", loss="ce")),
    (ImplicitReward, ImplicitRewardConfig(minibatch_groups=1, centre=True)),
    (ImplicitReward, ImplicitRewardConfig(minibatch_groups=1, centre="group", level="token")),
)
def test_a_loaded_state_goes_on_to_the_bit(scorer: Callable[..., Any], config: Any) -> None:
    tables = [played(seed=seed) for seed in range(4)]
    straight, rng = scorer(babbling_policy(), config), np.random.default_rng(1)
    expected = [learn(straight, table, RATE, rng) for table in tables]
    first, rng = scorer(babbling_policy(), config), np.random.default_rng(1)
    rows = [learn(first, table, RATE, rng) for table in tables[:2]]
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    # Other weights than it began with, but where the policy itself is what it is compared with.
    second = scorer(babbling_policy() if scorer is ImplicitReward else small_policy(seed=1), config)
    second.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    assert rows + [learn(second, table, RATE, rng) for table in tables[2:]] == expected
    np.testing.assert_array_equal(second.scores(tables[0]), straight.scores(tables[0]))
    for name, value in straight.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name])


@cases(
    "scorer, config",
    (ActionValue, ActionValueConfig()), (Contribution, ContributionConfig()), (Critic, CriticConfig()),
    (Hindsight, HindsightConfig()), (ImplicitReward, ImplicitRewardConfig()),
    (ImplicitReward, ImplicitRewardConfig(reference="start")),
    (ImplicitReward, ImplicitRewardConfig(centre=True)),
)  # fmt: skip
def test_beside_an_adapter_the_base_is_shared_and_stands_still(scorer: Callable[..., Any], config: Any) -> None:
    policy = add_lora(babbling_policy(), LoraSettings(rank=2, alpha=4.0), seed=0)
    before = digest(policy)
    made, table = scorer(policy, config), played()
    theirs = {weight.data_ptr() for weight in policy.model.parameters() if not weight.requires_grad}
    headed = hasattr(made.model, "trunk")
    trunk = made.model.trunk if headed else made.model
    assert {weight.data_ptr() for weight in trunk.parameters() if not weight.requires_grad} <= theirs
    for _ in range(2):
        learn(made, table)
    assert (made.scores(table) != (1.0 if scorer is Hindsight else 0.0)).any()  # what a new one says
    assert digest(policy) == before
    state = made.state_dict()
    assert all("lora_" in name or (headed and not name.startswith("trunk")) for name in state["model"])
    assert "start" not in state


def won(table: StepTable) -> float:
    return float(table.trajectory_won.mean())


def worth(table: StepTable) -> float:
    return float(np.mean(action_targets(table, gamma=0.95, outcome="won") ** 2))


@cases(
    "scorer, config, unlearned",
    (ActionValue, ActionValueConfig(loss="cross-entropy", minibatch_rows=1000), lambda table: np.log(2)),
    (ActionValue, ActionValueConfig(loss="squared", minibatch_rows=1000), worth),
    (Contribution, ContributionConfig(head="linear"), won),
    (Contribution, ContributionConfig(head="mlp"), won),
    (Hindsight, HindsightConfig(hindsight="outcome"), None),
    (Hindsight, HindsightConfig(hindsight="cloze"), None),
    (ImplicitReward, ImplicitRewardConfig(loss="pair", beta=0.5), lambda table: np.log(2)),  # of ratios that are 1
    (ImplicitReward, ImplicitRewardConfig(loss="ce", beta=0.5), lambda table: np.log(2)),
)
def test_a_new_one_says_nothing_and_one_update_moves_it_and_lowers_its_loss(
    scorer: Callable[..., Any], config: Any, unlearned: Callable[..., float] | None
) -> None:
    table, policy = played(), babbling_policy() if scorer in (Hindsight, ImplicitReward) else small_policy()
    made, kept = scorer(policy, config), digest(policy)
    before = {name: weight.clone() for name, weight in made.model.named_parameters()}
    assert np.array_equal(made.scores(table), np.full(len(table), float(scorer is Hindsight)))
    first, second, third = (learn(made, table, RATE) for _ in range(3))
    assert unlearned is None or first["prm_loss"] == pytest.approx(unlearned(table), abs=1e-5)
    assert third["prm_loss"] < second["prm_loss"] < first["prm_loss"]
    moved = {name.split(".")[0] for name, weight in made.model.named_parameters() if (weight != before[name]).any()}
    assert moved == ({"trunk", "head"} if hasattr(made.model, "trunk") else {"model"})
    assert digest(policy) == kept
    assert first.get("explained_variance", 0.0) == 0.0  # it said the same everywhere
    if getattr(config, "loss", "") == "cross-entropy":
        assert ((made.scores(table) > 0) & (made.scores(table) < 1)).all()


@cases(
    "config, changes, words",
    (ScorerConfig, {"level": "word"}, "level 'word'; known: 'turn', 'token'"),
    (ScorerConfig, {"rate": 0.0}, "rate must be above 0"),
    (ScorerConfig, {"microbatch_tokens": 0}, "microbatch_tokens must be None or at least 1"),
    (ActionValueConfig, {"level": "token"}, "level .*; known: 'turn'"),
    (ActionValueConfig, {"loss": "hinge"}, "loss 'hinge'; known: 'cross-entropy', 'squared'"),
    (ActionValueConfig, {"gamma": 1.5}, "gamma must be between 0 and 1"),
    (ActionValueConfig, {"unit": "board"}, "unit .*; known: 'history', 'state'"),
    (ContributionConfig, {"level": "token"}, "level .*; known: 'turn'"),
    (ContributionConfig, {"head": "deep"}, "head 'deep'; known: 'linear', 'mlp'"),
    (ContributionConfig, {"segments": 4}, "segments must be a function"),
    (ContributionConfig, {"minibatch_trajectories": 0}, "minibatch_trajectories must be at least 1"),
    (SegmentedRewardConfig, {"alpha": 1.5}, "alpha must be between 0 and 1, got 1.5"),
    (SegmentedRewardConfig, {"scale": "two"}, "scale .*; known: 'outcome', 'one', 'predicted'"),
    (SegmentedRewardConfig, {"level": "token"}, "level .*; known: 'turn'"),
    (CriticConfig, {"rate": 0.0}, "CriticConfig.rate must be above 0, got 0.0"),
    (CriticConfig, {"epochs": 0}, "epochs must be at least 1"),
    (CriticConfig, {"value_clip": 0.0}, "value_clip must be None or above 0"),
    (ImplicitRewardConfig, {"beta": 0.0}, "ImplicitRewardConfig.beta must be above 0, got 0.0"),
    (ImplicitRewardConfig, {"loss": "dpo"}, "loss 'dpo'; known: 'pair', 'ce'"),
    (ImplicitRewardConfig, {"centre": "all"}, "centre 'all'; known: 'False', 'True', 'group'"),
    (ImplicitRewardConfig, {"centre": True, "reference": "start"}, "centre must be False or 'group' with reference='s"),
    (ImplicitRewardConfig, {"minibatch_groups": 0}, "minibatch_groups must be at least 1"),
    (ImplicitRewardConfig, {"margin": -1.0}, "margin must be None or at least 0"),
    (HindsightConfig, {"level": "token"}, r"HindsightConfig\.level .*; known: 'turn'"),
    (ReplyInHindsightConfig, {"final": "end"}, "final 'end'; known: 'state', 'outcome'"),
    (ReplyInHindsightConfig, {"level": "token"}, "level .*; known: 'turn'"),
    (ReplyInHindsightConfig, {"temperature": 0.0}, "temperature must be None or above 0"),
    (TaskDistanceConfig, {"gamma": 0.0}, "gamma must be above 0 and at most 1"),
    (TaskDistanceConfig, {"max_tasks": 0}, "max_tasks must be None or at least 1"),
    (TaskDistanceConfig, {"level": "token"}, "level .*; known: 'turn'"),
)
def test_a_wrong_setting_is_named(config: Callable[..., Any], changes: dict[str, Any], words: str) -> None:
    refuses(ValueError, words, config, **changes)
