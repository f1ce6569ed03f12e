"""Action values: their loss and gradient, what they start from and learn, and that they go on to the bit."""

from typing import Any

import numpy as np
import pytest
import torch

from agentgym.trajectory import StepTable
from baselines.scorers.action_value import ActionValue, ActionValueConfig, action_loss
from tests.baselines.corridor_learning import small_policy
from tests.baselines.scorers.heads import awake, finite_differences, learn, played, two_layers
from tests.wrappers.credit import learned, oracles
from wrappers.credit import action_targets


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
