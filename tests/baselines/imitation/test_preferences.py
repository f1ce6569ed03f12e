"""Preferences: pairs, and the methods that learn from them."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import baselines.imitation.spear
from agentgym.trajectory import Reply
from agentgym.trajectory.episode import Step, Trajectory
from baselines.imitation.cloning import Demonstrator
from baselines.imitation.episodes import expert_episodes
from baselines.imitation.ipr import IPR, Shown, shown_steps
from baselines.imitation.preferences import Preference, episode_preferences, prefer
from baselines.imitation.spear import SPEAR
from baselines.imitation.step_agent import Advised, StepAgent
from baselines.losses import preference
from baselines.update import update
from tests.baselines.corridor_learning import TASKS, babbling_policy
from tests.baselines.imitation.corridor_setting import a_round, losing_policy, said, seen
from tests.cases import cases
from tests.refusals import refuses


def test_the_loss_of_a_pair() -> None:
    # Log-ratios: better -1 - (-3) = 2 and -4 - (-4) = 0; worse -2 - (-2) = 0 and -1 - (-2) = 1. With beta .5:
    # -log sigma(.5 * 2) = log(1 + e^-1) = .31326, and -log sigma(.5 * -1) = log(1 + e^.5) = .97408.
    better = torch.tensor([-1.0, -4.0], requires_grad=True)
    found = preference(better, torch.tensor([-2.0, -1.0]), torch.tensor([-3.0, -4.0]), torch.tensor([-2.0, -2.0]), 0.5)
    assert found.tolist() == pytest.approx([0.31326, 0.97408], abs=1e-5)
    found.sum().backward()
    # The slope is -beta sigma(-beta d): -.5 / (1 + e) and -.5 / (1 + e^-.5).
    assert better.grad.tolist() == pytest.approx([-0.5 / (1 + math.e), -0.5 / (1 + math.exp(-0.5))], abs=1e-6)
    policy = babbling_policy()
    pairs = pairs_of(policy)
    learned = prefer(policy, pairs, seed=0, learning_rate=1e-6, batch_size=2)
    assert (learned.loss, learned.margin) == pytest.approx((math.log(2), 0.0), abs=1e-5)
    nats = [sum(-logratio(policy, _Zero(), (row,)) for row in pair.better) for pair in pairs]
    learned = prefer(policy, pairs, seed=0, learning_rate=1e-6, batch_size=2, likelihood=0.1)
    assert learned.loss == pytest.approx(math.log(2) + 0.1 * np.mean(nats), abs=1e-3)


def episode(group, name, won, reward=0.0, text="left"):
    steps = (Step(0, "s", text, "u", reward, True, Reply(text, (1,), (len(text),))),)
    return Trajectory(group, name, won, True, False, steps)


def names(pairs):
    return [(pair.better[0].text, pair.worse[0].text) for pair in pairs]


def test_pairs_by_outcome_and_return() -> None:
    episodes = [
        episode("a", 0, True, text="A"), episode("a", 1, False, text="AA"), episode("a", 2, False, text="AAA"),
        episode("b", 3, True, text="B"), episode("c", 4, False, text="C"),
    ]  # fmt: skip
    assert names(episode_preferences(episodes)) == [("A", "AA"), ("A", "AAA")]
    assert len(episode_preferences(episodes, per_task=1)) == 1
    assert names(episode_preferences(episodes, between=lambda better, worse: worse == 2)) == [("A", "AAA")]
    episodes = [episode("a", i, False, reward, text="x" * (i + 1)) for i, reward in enumerate((0.5, 0.0, 0.4))]
    assert episode_preferences(episodes) == []
    # .5 and .4 are within .2 of each other, both are more than .2 above 0.
    assert sorted(names(episode_preferences(episodes, margin=0.2))) == [("x", "xx"), ("xxx", "xx")]
    silent = Trajectory("a", 1, False, False, True, (Step(0, "s", "", "s", 0.0, False, Reply("")),))
    assert episode_preferences([episode("a", 0, True), silent]) == []


def pairs_of(policy):
    right, left = ([said(policy, cell, word) for cell in (1, 2, 3)] for word in ("right", "left"))
    # The second pair shares its first row: it cancels.
    return [Preference((right[0], right[1]), (left[0],)), Preference((right[1], right[2]), (right[1], left[2]))]


def logratio(policy, start, side):
    with torch.no_grad():
        score = [
            p.score([r.prompt_ids for r in side], [r.token_ids for r in side], temperature=1.0).logprobs.sum()
            for p in (policy, start)
        ]
    return float(score[0] - score[1])


class _Zero:
    """Gives every token probability 1."""

    def score(self, prompts, replies, temperature, **given):
        return SimpleNamespace(logprobs=torch.zeros(len(replies), max(map(len, replies))))


def test_passes_change_memory_and_nothing_else():
    found = []
    for rows in (None, 2):
        policy = babbling_policy()
        prefer(policy, pairs_of(policy), seed=0, learning_rate=5e-3, batch_size=2, epochs=3, microbatch_rows=rows)
        found.append(policy.model.state_dict())
    for name, tensor in found[0].items():
        assert torch.allclose(tensor, found[1][name], atol=1e-5), name


def test_bad_numbers_and_empty_sides_are_refused() -> None:
    policy = babbling_policy()
    for wrong in ({"beta": 0.0}, {"beta": math.nan}, {"likelihood": -1.0}, {"likelihood": math.inf}):
        with pytest.raises(ValueError, match="finite beta above 0 and a finite likelihood of at least 0"):
            prefer(policy, pairs_of(policy), **wrong, seed=0, learning_rate=1e-3)
    with pytest.raises(ValueError, match="at least one reply"):
        prefer(policy, [Preference((), (said(policy, 1, "left"),))], seed=0, learning_rate=1e-3)
    assert prefer(policy, [], seed=0, learning_rate=1e-3).pairs == 0
    episodes = [episode("a", i, i < 2, float(i < 2)) for i in range(4)]
    assert len(episode_preferences(episodes)) == 4
    for wrong in ({"per_task": -1}, {"per_task": 1.5}, {"margin": -1.0}, {"margin": math.nan}):
        refuses(ValueError, next(iter(wrong)), episode_preferences, episodes, **wrong)


@cases(
    "wrong",
    {"epochs": 0}, {"batch_size": 0}, {"microbatch_rows": 0}, {"learning_rate": 0.0}, {"warmup": -1},
    {"learning_rate": math.nan}, {"learning_rate": math.inf},
    ids=str,
)  # fmt: skip
def test_numbers_are_looked_at_before_anything_is_scored(wrong):
    policy = babbling_policy()
    with pytest.raises(ValueError, match=next(iter(wrong))):
        prefer(policy, pairs_of(policy), reference=_Unasked(), **{"seed": 0, "learning_rate": 1e-3} | wrong)


class _Unasked:
    def score(self, *arguments, **options):
        raise AssertionError("the reference was asked")


def test_the_experts_steps_have_the_state_before_them():
    policy = babbling_policy()
    part = a_round(policy)
    steps = shown_steps(part, Demonstrator(policy), TASKS)
    # From cells 1, 2 and 3 the way to cell 4 takes 3, 2 and 1 steps.
    assert [(step.episode.group, step.t) for step in steps] == [
        ("start-1", 0), ("start-1", 1), ("start-1", 2), ("start-2", 0), ("start-2", 1), ("start-3", 0)
    ]  # fmt: skip
    _, infos = part.setting.envs.restore([0, 1], [steps[1].state, steps[5].state])
    assert infos["state_key"][:2].tolist() == ["2", "3"]
    assert len(expert_episodes(part)) == 6


def shown(actions, t=0):
    steps = tuple(
        Step(i, f"{i}", action, f"{i + 1}", 0.0, True, Reply(action, (i,), (ord(action),)))
        for i, action in enumerate(actions)
    )
    return Shown(None, t, Trajectory("a", 0, True, True, False, steps))


def way(actions, won):
    return dataclasses.replace(shown(actions).episode, won=won)


@cases(
    "span, own, won, values, better",
    ("rest", "lll", False, (1.0, 0.4), "bc"),  # .6 is more than .5
    ("rest", "lll", False, (0.9, 0.4), None),  # .5 is not
    ("rest", "lll", True, (1.0, 0.0), None),  # the policy's way on won: its rest is no worse
    ("step", "lll", True, (1.0, 0.0), "b"),
    ("rest", "l", True, (0.0, 1.0), "l"),  # the other way round, and shorter
    ("rest", "lll", True, (0.0, 1.0), None),  # longer than the expert's
    ("rest", "l", False, (0.0, 1.0), None),  # lost
)
def test_a_step_pair_needs_a_gap_between_the_values(span, own, won, values, better):
    found = IPR(span=span, threshold=0.5).pair(shown("abc", t=1), way(own, won), *values)
    assert (None if found is None else "".join(reply.text for reply in found.better)) == better


def test_values_are_shares_of_continuations_that_won_and_the_buffer_forgets_what_is_old():
    # Right from cell 3 wins at once, whoever continues; left leads to cell 2.
    policy = babbling_policy()
    part = a_round(policy)
    last = shown_steps(part, Demonstrator(policy), TASKS)[-1]
    left = dataclasses.replace(last.episode.steps[0], reply=said(policy, 3, "left"))
    own = dataclasses.replace(last.episode, steps=(left,), won=False)
    ((expert, other),) = IPR(continuations=8)._values(part, [(last, own)])
    assert expert == 1.0
    assert 0.0 <= other < 1.0
    part = a_round(babbling_policy())
    SPEAR(buffer=10_000).learn(part)
    assert len(part.state["kept"]) > 0
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
    reply = said(policy, 1, "left")
    with torch.no_grad():
        now = float(policy.score([reply.prompt_ids], [reply.token_ids], temperature=1.0).logprobs)
    # Two rounds wrote the same: one as the policy of today would, one to whom it was e^5 times less likely. With
    # advantages above 0 the clip holds the second alone: half of the tokens.
    row = reply.prompt_ids, reply.token_ids
    kept = [[*row, (old,), (), 1.0, number] for number, old in ((19, now - 5.0), (20, now))]
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
