"""Action values: their loss and gradient, what they start from and learn, and that they go on to the bit."""

import io
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from baselines.scorers.action_value import ActionLoss, ActionValue, ActionValueConfig, action_loss
from policies.lora import LoraSettings, add_lora
from tests.baselines.corridor_learning import TASKS, babbling_policy, corridor, small_policy
from tests.baselines.scorers.heads import awake, finite_differences, learn, two_layers
from tests.cases import cases
from tests.refusals import refuses
from tests.wrappers.credit import learned, oracles
from wrappers.credit import action_targets


def played(size: int = 4, seed: int = 0) -> StepTable:
    return collect(corridor(3 * size), babbling_policy(), tasks=TASKS, group_size=size, seed=seed)


def rollouts_alone(table: StepTable) -> torch.Tensor:
    """What each rollout says for itself, averaged with no other: .95^(T - 1 - t) if it was won."""
    return torch.from_numpy(0.95 ** (np.diff(table.offsets)[table.trajectory] - 1 - table.t) * table.won)


def test_recorded_losses() -> None:
    numbers = {case["case_id"]: i for i, case in enumerate(oracles.cases())}
    for result in learned.load("learned_tiny_model")["results"]:
        table, _ = learned.batches()[numbers[result["case_id"]]]
        states = [result["states"].index(table.states[state]) for state in table.state]
        actions = [result["actions"].index(table.actions[action]) for action in table.action]
        w = torch.tensor(result["w"], dtype=torch.float64, requires_grad=True)
        answer, target = result["answers"]["q_mse"], rollouts_alone(table)
        loss = action_loss(w[states, actions], target, "squared").mean()
        loss.backward()  # type: ignore[no-untyped-call]
        assert w.grad is not None
        assert loss.item() == pytest.approx(answer["loss"], abs=1e-8)
        np.testing.assert_allclose(w.grad.numpy(), answer["gradient"], atol=1e-8)
        with torch.no_grad():
            after = action_loss((w - answer["rate"] * w.grad)[states, actions], target, "squared").mean()
        assert after.item() == pytest.approx(answer["loss_after_one_step"], abs=1e-8)
    said = learned.scores("q")
    results = learned.load(learned.PAPER)["results"]
    for (table, rows), result in zip(learned.batches(), results, strict=True):
        targets = torch.from_numpy(action_targets(table, unit="state"))
        loss = action_loss(torch.logit(torch.from_numpy(said[rows])), targets, "cross-entropy").mean()
        assert loss.item() == pytest.approx(result["agentprm"]["bce"], abs=1e-6)


@pytest.mark.parametrize("kind", ["cross-entropy", "squared"])
def test_a_new_one_says_0_and_one_update_moves_it_and_lowers_its_loss(kind: ActionLoss) -> None:
    table = played()
    scorer = ActionValue(small_policy(), ActionValueConfig(loss=kind, minibatch_rows=1000))
    before = {name: weight.clone() for name, weight in scorer.model.named_parameters()}
    assert np.array_equal(scorer.scores(table), np.zeros(len(table)))
    first, second, third = (learn(scorer, table) for _ in range(3))
    targets = action_targets(table, gamma=0.95, outcome="won")
    assert first["prm_loss"] == pytest.approx(np.log(2) if kind == "cross-entropy" else np.mean(targets**2))
    assert third["prm_loss"] < second["prm_loss"] < first["prm_loss"]
    moved = {name.split(".")[0] for name, weight in scorer.model.named_parameters() if (weight != before[name]).any()}
    assert moved == {"trunk", "head"}
    assert first["explained_variance"] == 0.0  # it said 0 everywhere
    if kind == "cross-entropy":
        assert ((scorer.scores(table) > 0) & (scorer.scores(table) < 1)).all()


@pytest.mark.parametrize("passes", [{}, {"microbatch_rows": 2}, {"microbatch_tokens": 20}])
def test_gradients_are_those_of_finite_differences_however_the_passes_are_cut(passes: Any) -> None:
    table = played()
    targets = action_targets(table, gamma=0.9, outcome="won")
    config = ActionValueConfig(head="mlp", gamma=0.9, minibatch_rows=1000, max_grad_norm=1e9, **passes)

    def loss(scorer: Any) -> float:
        said = scorer.scores(table)
        return float(-np.mean(targets * np.log(said) + (1 - targets) * np.log(1 - said)))

    finite_differences(awake(ActionValue(two_layers(table), config)), table, loss)


def test_it_learns_what_actions_are_worth_in_the_corridor() -> None:
    scorer, rng = ActionValue(small_policy()), np.random.default_rng(0)
    tables = [played(12, seed=seed) for seed in range(3)]
    rows = [learn(scorer, tables[k % 3], rng=rng) for k in range(24)]
    assert rows[-1]["explained_variance"] > 0.2
    table = played(12, seed=9)
    scores = scorer.scores(table)
    said = {(table.states[s], table.actions[a]): x for s, a, x in zip(table.state, table.action, scores, strict=True)}
    # Inside a state the way to the goal is worth most; the step that arrives there is certain.
    assert said["3", "right"] > 0.8
    for cell in "123":
        assert said[cell, "right"] == max(x for (state, _), x in said.items() if state == cell)


def test_given_targets_are_fitted_instead() -> None:
    table = played()
    scorer = ActionValue(small_policy())
    targets = np.linspace(0, 1, len(table))
    assert scorer.update(table, targets, targets, np.random.default_rng(0), 1e-3)["explained_variance"] == 1.0
    with pytest.raises(ValueError, match=r"needs targets between 0 and 1; row 0 has -0\.5"):
        scorer.update(table, targets, targets - 0.5, np.random.default_rng(0), 1e-3)


def test_saved_and_continued_equals_uninterrupted() -> None:
    config, table = ActionValueConfig(minibatch_rows=2), played()
    straight, rng = ActionValue(small_policy(), config), np.random.default_rng(0)
    learn(straight, table, rng=rng)
    file, stream = io.BytesIO(), rng.bit_generator.state
    torch.save(straight.state_dict(), file)
    expected = [learn(straight, table, rng=rng) for _ in range(2)]
    resumed = ActionValue(small_policy(seed=1), config)
    resumed.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    rng.bit_generator.state = stream
    assert [learn(resumed, table, rng=rng) for _ in range(2)] == expected
    assert np.array_equal(resumed.scores(table), straight.scores(table))


def test_beside_an_adapter_only_adapter_and_head_learn() -> None:
    policy = add_lora(small_policy(), LoraSettings(rank=2, alpha=4.0), seed=0)
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    scorer, table = ActionValue(policy), played()
    learn(scorer, table)
    assert scorer.scores(table).any()
    assert all(torch.equal(value, before[name]) for name, value in policy.model.state_dict().items())
    assert all("lora_" in name or not name.startswith("trunk") for name in scorer.state_dict()["model"])


@cases(
    "changes, words",
    ({"level": "token"}, "level must be 'turn'"),
    ({"loss": "hinge"}, "loss must be 'cross-entropy' or 'squared', got 'hinge'"),
    ({"gamma": 1.5}, "gamma must be at least 0 and at most 1"),
    ({"unit": "board"}, "unit must be 'history' or 'state'"),
)
def test_a_wrong_setting_is_named(changes: dict[str, Any], words: str) -> None:
    refuses(ValueError, words, ActionValueConfig, **changes)
