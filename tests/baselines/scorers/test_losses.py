"""Losses of trajectory scores: by hand, and against recorded answers of the papers' formulas and the releases."""

import functools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from agentgym.trajectory import StepTable
from baselines.scorers.losses import Pairs, cross_entropy, outcome_pairs, pair_loss, trajectory_scores
from tests.baselines.scorers.heads import agrees, tiny_models
from tests.cases import cases
from tests.wrappers.credit.oracles import AUTHORS, PAPER, batches, load, mask, token_logprobs

#: iStar's and PRIME's, in the files of answers.
BETA = 0.05


def pairs_of(table: StepTable, **options: Any) -> Pairs:
    return outcome_pairs(table.trajectory_group, table.trajectory_won, table.trajectory_return, **options)


def totals(table: StepTable, steps: Tensor, reduce: Any = "sum") -> Tensor:
    return trajectory_scores(steps, torch.from_numpy(table.trajectory), table.n_trajectories, reduce)


def loss_of(name: str, table: StepTable, steps: Tensor) -> Tensor:
    """One of the losses of the files, by its name there."""
    if name.startswith("ce"):
        return cross_entropy(totals(table, steps), torch.from_numpy(table.trajectory_won))
    return pair_loss(totals(table, steps, "mean" if "mean" in name else "sum"), pairs_of(table))


def test_pairs_margins_and_losses_by_hand() -> None:
    group, won = np.array([0, 1, 0, 0, 1, 2]), np.array([1, 0, 0, 1, 1, 1], bool)
    returns = np.array([10.0, 0.0, 2.0, 9.0, 9.0, 9.0])
    pairs = outcome_pairs(group, won, returns)
    assert list(zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True)) == [(0, 2), (3, 2), (4, 1)]
    assert pairs.weight.tolist() == [0.5, 0.5, 1.0]
    assert outcome_pairs(group, won, returns, pair_weight="flat").weight.tolist() == [1.0, 1.0, 1.0]
    group, won = np.zeros(4, np.int64), np.array([1, 1, 0, 0], bool)
    returns = np.array([1.0, 0.4, 0.5, 0.5])
    pairs = outcome_pairs(group, won, returns, margin=0.0)
    assert list(zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True)) == [
        (0, 1), (0, 2), (0, 3), (2, 1), (3, 1),
    ]  # fmt: skip
    assert len(outcome_pairs(group, won, returns, margin=0.55)) == 1
    assert len(outcome_pairs(group, won, returns, margin=1.0)) == 0
    scores = torch.tensor([2.0, 0.0, 1.0, -1.0])
    pairs = Pairs(np.array([0, 2]), np.array([1, 3]), np.array([1.0, 0.5]))
    expected = (math.log1p(math.exp(-2.0)) + 0.5 * math.log1p(math.exp(-2.0))) / 1.5
    assert float(pair_loss(scores, pairs)) == pytest.approx(expected)
    assert float(pair_loss(scores, pairs, divisor=3.0)) == pytest.approx(expected / 2)
    won = torch.tensor([True, False, False, True])
    terms = math.log1p(math.exp(-2.0)) + math.log(2.0) + 2 * math.log1p(math.exp(1.0))
    assert float(cross_entropy(scores, won)) == pytest.approx(terms / 4)
    assert float(cross_entropy(scores, won, divisor=2.0)) == pytest.approx(terms / 2)
    scores = torch.tensor([-1e4, 1e4], requires_grad=True)
    loss = pair_loss(scores, Pairs(np.array([0]), np.array([1]), np.ones(1)))
    (gradient,) = torch.autograd.grad(loss, scores)
    assert float(loss.detach()) == 2e4
    assert gradient.tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("name", ["dpo_sum", "dpo_mean", "dpo_sum_centred", "ce_sum"])
def test_the_tiny_model_has_its_losses_gradients_and_steps(name: str) -> None:
    for table, result, places in tiny_models():
        old = torch.tensor(result["theta_old"], dtype=torch.float64).log_softmax(1)

        def loss(theta: Tensor, table: StepTable = table, old: Tensor = old, **given: Any) -> Tensor:
            phi = theta.log_softmax(1)
            ratio = (phi - old)[given["places"]]
            if name.endswith("centred"):
                ratio = ratio + (old.exp() * (old - phi)).sum(1)[given["places"][0]]
            return loss_of(name, table, given["beta"] * ratio)

        loss_at = functools.partial(loss, places=places, beta=result["beta"])
        agrees(result["theta"], result["answers"][name], loss_at)


def _by_trajectory(name: str, table: StepTable, steps: np.ndarray) -> tuple[float, np.ndarray]:
    """A loss, and what it would fall by a change of every trajectory's sum (or mean) of log-ratios."""
    ratios = torch.from_numpy(steps / BETA).requires_grad_()
    loss = loss_of(name, table, BETA * ratios)
    (gradient,) = torch.autograd.grad(loss, ratios)
    first = gradient.numpy()[table.order[table.offsets[:-1]]]
    return float(loss.detach()), first * (np.diff(table.offsets) if "mean" in name else 1)


@cases(
    "name, reference, keys, gradient",
    ("dpo_sum", "old", ("istar", "dpo_sum"), "grad_by_trajectory_q"),
    ("dpo_mean", "old", ("istar", "dpo_mean"), "grad_by_trajectory_mean_q"),
    ("ce_sum", "old", ("istar", "ce_sum"), "grad_by_trajectory_q"),
    ("ce", "init", ("prime", "ce"), "grad_by_trajectory_q"),
)
def test_the_papers_losses_and_gradients(name: str, reference: str, keys: tuple[str, str], gradient: str) -> None:
    steps = BETA * (token_logprobs("prm") - token_logprobs(reference)).sum(1)
    compared = 0
    for (table, rows), result in zip(batches(), load(PAPER)["results"], strict=True):
        expected = result[keys[0]][keys[1]]
        if expected["loss"] is None:
            assert not len(pairs_of(table))
            continue
        loss, by_trajectory = _by_trajectory(name, table, steps[rows])
        assert loss == pytest.approx(expected["loss"], abs=1e-8)
        np.testing.assert_allclose(by_trajectory, expected[gradient], atol=1e-8, rtol=1e-6)
        compared += 1
    assert compared > 20  # most synthetic groups are won, or lost, throughout


def test_the_releases_losses_and_gradients() -> None:
    old, compared = BETA * (token_logprobs("prm") - token_logprobs("old")).sum(1), 0
    start = BETA * (token_logprobs("prm") - token_logprobs("init")).sum(1)
    lengths = mask().sum(1)
    for (table, rows), result in zip(batches(), load(AUTHORS)["results"], strict=True):
        assert lengths[rows].all()
        ours = [(_by_trajectory("ce", table, start[rows])[0], result["prime"]["ce_loss"])]
        ratios = torch.from_numpy(old[rows] / BETA).requires_grad_()
        per_step = cross_entropy(BETA * ratios, torch.from_numpy(table.won))
        (gradient,) = torch.autograd.grad(per_step, ratios)
        expected = result["istar"]["ce_per_step"]
        ours.append((float(per_step.detach()), expected["loss"]))
        np.testing.assert_allclose(gradient.numpy(), expected["grad_q_first_token"], atol=1e-6)
        eto = result["istar"]["eto"]
        if len(pairs_of(table)):
            loss = loss_of("dpo_mean", table, BETA * ratios)
            (gradient,) = torch.autograd.grad(loss, ratios)
            ours.append((float(loss.detach()), eto["loss"]))
            np.testing.assert_allclose(gradient.numpy(), eto["grad_q_first_token"], atol=1e-6)
            compared += 1
        for found, theirs in ours:
            assert found == pytest.approx(theirs, abs=1e-5)
    assert compared > 20  # most synthetic groups are won, or lost, throughout
