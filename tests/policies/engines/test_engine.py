"""Samplers over engines: seeds, versions, cuts, and the probe that stops a run whose engine is not the trainer's."""

import copy

import numpy as np
import pytest
import torch

from policies.decode.loop import LoopSampler
from policies.decode.sampler import Completion
from policies.engines import engine
from policies.engines.engine import EngineError, EngineSampler, prove
from policies.huggingface import HuggingFacePolicy
from policies.tiny import tiny_policy
from tests.policies.agreement import check_scores
from tests.policies.engines import fakes
from tests.policies.engines.fakes import adapted, move, over, written
from tests.refusals import refuses

TEXTS = ["look at the desk", "go to the shelf", "open the drawer", "up down left right", "take the mug"]


class FakeEngine(EngineSampler):
    """An engine with weights of its own; `fault` is what is wrong with it."""

    def __init__(self, model, fault=""):
        super().__init__()
        self.model = copy.deepcopy(model)
        self.fault = fault
        self.sent, self.seeds = [], []

    def send(self, model, version):
        self.sent.append(version)
        if self.fault != "stale":
            self.model.load_state_dict(model.state_dict())

    def generate(self, prompts, seeds, decoding):
        self.seeds.append(list(seeds))
        found = written(self.model, prompts, seeds, decoding)
        if self.fault == "temperature":
            for prompt, one in zip(prompts, found, strict=True):
                logits = self.model(torch.tensor([[*prompt, *one.token_ids]])).logits[0, len(prompt) - 1 : -1]
                raw = torch.log_softmax(logits, -1)  # at temperature 1
                one.logprobs = raw[torch.arange(len(one.token_ids)), torch.tensor(one.token_ids)].tolist()
        return found


@pytest.fixture
def policy():
    return tiny_policy(TEXTS, seed=0, layers=1, max_new_tokens=4, temperature=0.7)


def with_engine(policy, fault=""):
    fake = FakeEngine(policy.model, fault)
    return over(policy, fake), fake


def act(policy, seed=0):
    return fakes.act(policy, TEXTS, seed)


def test_an_engine_that_follows_is_used_for_sampled_and_for_greedy_play(policy):
    player, engine = with_engine(policy)
    assert [reply.version for reply in act(player)] == [0] * 5
    move(player)
    second = act(player)
    assert engine.sent == [1]
    assert [reply.version for reply in second] == [1] * 5
    check_scores(player, second)
    greedy, alone = (each.with_settings(temperature=0.0) for each in (player, policy))
    assert [one.token_ids for one in act(greedy)] == [one.token_ids for one in act(alone)]
    assert engine.sent == [1]  # the same weights: nothing to send
    assert copy.deepcopy(player).sampler is engine


def test_seeds_and_wrong_weights(policy) -> None:
    player, engine = with_engine(policy)
    for seed in (0, 0, 1):
        act(player, seed)
    assert engine.seeds[0] == engine.seeds[1] != engine.seeds[2]
    assert len(set(engine.seeds[0])) == 5
    act(player.with_settings(temperature=0.0))
    assert engine.seeds[3] == [None] * 5
    player, engine = with_engine(policy)
    engine.model.load_state_dict(tiny_policy(TEXTS, seed=5, layers=1).model.state_dict())
    refuses(EngineError, r"does not sample from the trainer's policy \(weights 0, temperature 0.7\)", act, player)
    player, _ = with_engine(policy, "temperature")
    refuses(EngineError, "processed_logprobs", act, player)
    # At temperature 1 they are the right ones.
    act(player.with_settings(temperature=1.0))


@pytest.mark.parametrize("acts_before", [False, True])
def test_over_another_model_an_engine_is_kept_and_sent_the_other_weights(policy, acts_before):
    player, engine = with_engine(policy)
    if acts_before:
        act(player)
    other = player.with_model(copy.deepcopy(policy.model))
    move(other)
    assert other.sampler is engine
    for each in (other, player):
        act(each)
        pairs = zip(engine.model.parameters(), each.model.parameters(), strict=True)
        assert all(torch.equal(held, wanted) for held, wanted in pairs)


def test_weights_that_did_not_arrive_are_noticed_and_the_largest_difference_is_named(policy):
    player, engine = with_engine(policy, "stale")
    act(player)
    move(player)
    for words in (r"\(weights 1, .*largest difference is [\d.]+, token \d of reply \d: eng", "weights 1"):
        refuses(EngineError, words, act, player)  # until they are the same
    engine.model.load_state_dict(player.model.state_dict())
    act(player)
    player, engine = with_engine(adapted(policy))
    act(player)
    assert engine.sent == [0]  # an adapter is not part of what the engine began with
    engine.fault = "stale"
    move(player, "lora_B")
    refuses(EngineError, "weights 1", act, player)


def test_what_an_engine_cannot_do_or_does_wrong_is_an_error(policy):
    player, engine = with_engine(policy)
    infos = {"admissible_actions": np.array([("look",)] * 5 + [None], dtype=object)[:5]}
    with pytest.raises(ValueError, match="FakeEngine cannot restrict"):
        player.with_settings(admissible=True).act(TEXTS, infos, np.random.default_rng(0))
    for wrong in (Completion([3], []), Completion([], []), Completion([3], [float("nan")])):
        engine.generate = lambda prompts, seeds, decoding, wrong=wrong: [copy.deepcopy(wrong) for _ in prompts]
        refuses(EngineError, "completion 0 has", act, player)
    engine.generate = lambda prompts, seeds, decoding: []
    refuses(EngineError, "0 completions for 5 prompts", act, player)


def test_a_completion_ends_where_the_loop_would_have_ended_it(policy):
    player, engine = with_engine(policy)
    engine._proved = True
    end = player.tokenizer.eos_token_id
    engine.generate = lambda prompts, seeds, decoding: [
        Completion([12, end, 12], [-1.0] * 3, "length"),
        *(Completion([12] * 7, [-1.0] * 7, "length") for _ in prompts[1:]),
    ]  # fmt: skip
    replies = act(player)
    assert (replies[0].token_ids, replies[0].logprobs, replies[0].finish) == ((12, end), (-1.0, -1.0), "stop")
    assert (replies[1].token_ids, replies[1].finish) == ((12,) * 4, "length")


def test_in_16_bits_the_loops_own_difference_is_the_measure(monkeypatch):
    policy = tiny_policy(TEXTS, seed=0, layers=2, max_new_tokens=6, temperature=0.1, stop=())
    policy = HuggingFacePolicy(policy.model, policy.tokenizer, autocast=torch.bfloat16, **vars(policy.settings))
    prompts = [policy.encode(text) for text in TEXTS]
    draws = np.random.default_rng(0).random((len(prompts), 6))
    found = LoopSampler(policy.model).write(prompts, draws, policy.decoding)
    monkeypatch.setattr(engine, "_TOLERANCE_IN_16_BITS", 1e-3)
    assert prove(policy.model, prompts, found, policy.decoding, 0) > 0.01
    for one in found:
        one.logprobs = [value - 3.0 for value in one.logprobs]
    refuses(EngineError, "does not sample", prove, policy.model, prompts, found, policy.decoding, 0)
