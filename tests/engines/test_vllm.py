"""vLLM samples from the trainer's policy, in this process and as a server. Run by `./do engines vllm`."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pytest

vllm = pytest.importorskip("vllm", reason="needs vLLM in an environment of its own: ./do engines vllm")

import torch  # noqa: E402
from vllm.lora.request import LoRARequest  # noqa: E402

from agentgym.corridor.env import DIRECTIONS, MEANING  # noqa: E402
from baselines import train  # noqa: E402
from baselines.environments.registry import settings_of  # noqa: E402
from baselines.environments.settings import tasks  # noqa: E402
from baselines.imitation.cloning import clone  # noqa: E402
from baselines.runs.config import make_config  # noqa: E402
from baselines.runs.stack import make_envs  # noqa: E402
from policies.decode.loop import LoopSampler  # noqa: E402
from policies.engines.engine import EngineError, save_weights  # noqa: E402
from policies.engines.server import ServerSampler  # noqa: E402
from policies.engines.vllm import VllmSampler  # noqa: E402
from policies.lora import LoraSettings, add_lora  # noqa: E402
from policies.tiny import tiny_policy  # noqa: E402

pytestmark = pytest.mark.engines

#: Largest difference of log-probabilities in nats, float32; and one that only other weights or temperatures make.
CLOSE, FAR = 2e-5, 0.05
TEMPERATURE = 0.7
TEXTS = ["look at the desk", "go to the shelf", "up down left right"]
#: The last one is longer than a block of the prefix cache.
OBSERVATIONS = [*TEXTS, "open the drawer and take the mug " * 8]
#: The CPU kernels take heads of 32 numbers, not of 16.
SHAPE = {"layers": 2, "width": 64, "heads": 2, "kv_heads": 1, "positions": 1024}
ENGINE = {"dtype": "float32", "enforce_eager": True, "max_model_len": 1024, "max_num_seqs": 8}
for name, value in {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING", "HF_HUB_OFFLINE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
}.items():  # fmt: skip
    os.environ.setdefault(name, value)


def policy_of(**settings):
    return tiny_policy(TEXTS, seed=0, max_new_tokens=8, temperature=TEMPERATURE, **SHAPE).with_settings(**settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    policy_of().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def engine(folder, tmp_path_factory):
    """One engine for all tests; the work folder of the first sampler."""
    started = time.perf_counter()
    sampler = VllmSampler.start(folder, work=tmp_path_factory.mktemp("work"), lora_rank=8, **ENGINE)
    print(f"\n{', '.join(found())}; started in {time.perf_counter() - started:.0f} s")
    return sampler._engine


def found():
    for name in ("vllm", "vllm-cpu", "torch", "transformers", "peft"):
        with contextlib.suppress(PackageNotFoundError):
            yield f"{name} {version(name)}"


def adapted():
    return add_lora(policy_of(), LoraSettings(rank=4, alpha=8.0), seed=0)


def move(policy, seed, part="lora_B"):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if part in name:
                weight.add_(torch.randn(weight.shape, generator=generator) * 0.1)


def act(policy, seed=0):
    return policy.act(OBSERVATIONS, {}, np.random.default_rng(seed))


def apart(policy, replies, temperature=None):
    """Largest difference between the log-probabilities of replies and those of the trainer, in nats."""
    scores = policy.score([one.prompt_ids for one in replies], [one.token_ids for one in replies], temperature)
    rows = zip(replies, scores.logprobs.tolist(), strict=True)
    return max(abs(a - b) for one, row in rows for a, b in zip(one.logprobs, row, strict=False))


def report(what, number):
    print(f"{what}: {number:.2g} nats")
    return number


def test_log_probabilities_are_the_trainers_at_the_sampling_temperature(engine, tmp_path):
    policy = policy_of()
    player = policy.with_sampler(VllmSampler(engine, tmp_path))
    replies = act(player)
    assert report("sampled, temperature 0.7", apart(policy, replies)) < CLOSE
    assert report("the same against temperature 1", apart(policy, replies, 1.0)) > FAR
    assert [one.token_ids for one in act(player)] == [one.token_ids for one in replies]  # the same seeds
    assert [one.token_ids for one in act(player, 1)] != [one.token_ids for one in replies]
    greedy, alone = (each.with_settings(temperature=0.0) for each in (player, policy))
    assert isinstance(alone.sampler, LoopSampler)
    assert [one.token_ids for one in act(greedy)] == [one.token_ids for one in act(alone)]
    assert report("greedy, against temperature 1", apart(policy, act(greedy), 1.0)) < CLOSE


def test_log_probabilities_of_prompts_are_those_at_temperature_1(engine):
    policy = policy_of()
    replies = act(policy)
    params = vllm.SamplingParams(prompt_logprobs=0, max_tokens=1, temperature=TEMPERATURE, detokenize=False)
    prompts = [{"prompt_token_ids": [*one.prompt_ids, *one.token_ids]} for one in replies]
    outputs = engine.generate(prompts, params, use_tqdm=False)
    for temperature, differs in ((1.0, False), (TEMPERATURE, True)):
        scores = policy.score([o.prompt_ids for o in replies], [o.token_ids for o in replies], temperature).logprobs
        largest = 0.0
        for one, output, row in zip(replies, outputs, scores.tolist(), strict=True):
            given = output.prompt_logprobs[len(one.prompt_ids) :]
            for token, entry, mine in zip(one.token_ids, given, row, strict=False):
                largest = max(largest, abs(entry[token].logprob - mine))
        report(f"prompt_logprobs against temperature {temperature}", largest)
        assert largest > FAR if differs else largest < CLOSE


def test_adapters_are_swapped_under_fresh_ids_and_stale_ones_are_noticed(engine, tmp_path):
    policy = adapted()
    sampler = VllmSampler(engine, tmp_path)
    player = policy.with_sampler(sampler)
    differences = []
    for seed in range(3):
        if seed:
            move(policy, seed)
        replies = act(player)
        differences.append(apart(policy, replies))
        assert [one.version for one in replies] == [seed] * len(replies)
    assert report("three adapters by fresh ids", max(differences)) < CLOSE
    sampler.send = lambda model, version: None  # the engine keeps the adapter of before
    move(policy, 3)
    with pytest.raises(EngineError, match="does not sample from the trainer's policy") as caught:
        act(player)
    print(str(caught.value).partition(". Usual")[0])


def test_an_adapter_under_its_old_id_is_stale_unless_loaded_in_place(engine, tmp_path):
    policy = adapted()
    sampler = VllmSampler(engine, tmp_path / "unused")
    player, largest = policy.with_sampler(sampler), {}
    sampler.send = lambda model, version: None
    sampler._proved = True
    path = tmp_path / "adapter"
    for step, (kind, options) in enumerate([("first", {}), ("stale", {}), ("in place", {"load_inplace": True})]):
        if step < 2:
            move(policy, step)
            again = tmp_path / f"made-{step}"
            save_weights(policy.model, again)
            path.mkdir(exist_ok=True)
            for file in again.iterdir():
                (path / file.name).write_bytes(file.read_bytes())
        sampler._adapter = LoRARequest("fixed", 977, str(path), **options)
        sampler.follow(policy.model, step)
        sampler._proved = True
        if options:
            assert engine.reset_prefix_cache()  # its blocks are those of the adapter before
        largest[kind] = report(f"one id, {kind}", apart(policy, act(player)))
    assert largest["first"] < CLOSE
    assert largest["stale"] > FAR
    assert largest["in place"] < CLOSE


def test_replies_end_at_stop_texts_with_all_their_tokens(engine, tmp_path):
    settings = {"prefix": "", "suffix": "", "max_new_tokens": 40, "stop": ("e", "o")}
    policy = policy_of(**settings)
    replies = act(policy.with_sampler(VllmSampler(engine, tmp_path)))
    for one in replies:
        ends = [policy._is_end(one.token_ids[: length + 1]) for length in range(len(one.token_ids))]
        assert not any(ends[:-1])
        assert one.finish == ("stop" if ends[-1] else "length")
    ended = [one for one in replies if one.finish == "stop"]
    assert any(one.token_ids[-1] != policy.tokenizer.eos_token_id for one in ended)
    assert report("replies with stop texts", apart(policy, replies)) < CLOSE


@pytest.fixture(scope="module")
def server(folder, tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = [
        # `vllm serve` asks for the version of a distribution "vllm", which vllm-cpu is not.
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder),
        "--served-model-name", "base",
        "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager", "--max-model-len", "1024",
        "--max-num-seqs", "8", "--enable-lora", "--max-lora-rank", "8", "--logprobs-mode", "processed_logprobs",
    ]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 1500
    try:
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(log.read_text(errors="replace")[-3000:])
            time.sleep(1)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def test_a_server_samples_from_the_trainers_policy_and_loads_adapters_while_it_runs(server, tmp_path):
    base = policy_of()
    replies = act(base.with_sampler(ServerSampler(server, "base", retries=0)))
    assert report("server, temperature 0.7", apart(base, replies)) < CLOSE
    for run in ("one", "resumed"):  # the second begins with names of its own
        policy = adapted()
        player, largest = policy.with_sampler(ServerSampler(server, "base", work=tmp_path / run, retries=0)), 0.0
        for seed in range(3):
            if seed:
                move(policy, seed)
            largest = max(largest, apart(policy, act(player)))
        assert report(f"server, three adapters, run {run}", largest) < CLOSE
    with urllib.request.urlopen(f"{server}/v1/models", timeout=30) as answer:
        names = answer.read().decode()
    assert names.count("version-2-") >= 2
    assert "version-1-" not in names  # those that are out of use are unloaded


def test_a_whole_run_trains_an_adapter_by_the_engines_replies(tmp_path):
    """Clone, then `train(engine="vllm")`: the probe holds at every step, success rises, and a longer run continues."""
    row = settings_of("corridor", {"length": 3})
    config = make_config(row, methods=["grpo"], seeds=[0], model=str(tmp_path), history=0, sizes=row.quick)
    envs = make_envs(config, 32, expert=True)
    texts = [prompt[-1]["content"] for prompt in envs.reset(options=tasks("train", 32))[0]]
    start = tiny_policy(texts, seed=0, extra_words=[*MEANING, *DIRECTIONS], **SHAPE)
    clone(start, envs, tasks("train", 200), epochs=4, learning_rate=3e-3, seed=0)
    start.save_pretrained(tmp_path / "start")
    rows = []
    for iterations in (4, 8):
        run = train(
            "corridor", "graphgpo", options={"length": 3}, history=0, model=tmp_path / "start", lora=8, engine="vllm",
            out=tmp_path / "run", iterations=iterations, groups=8, group_size=8, learning_rate=6e-3, loss={"kl": 0.0},
            schedule={"shape": "constant"}, validation={"every": 4}, rollout={"probe_every": 1}, progress=False,
        )  # fmt: skip
        assert run.log[: len(rows)] == rows
        rows = run.log
    assert [each["iteration"] for each in rows] == list(range(9))
    report("trainer against engine, whole run", max(each["mismatch_max"] for each in rows[1:]))
    assert all(each["mismatch_max"] < CLOSE and each["grad_norm"] > 0 for each in rows[1:])
    won = [each["validation_sampled_success"] for each in rows if "validation_sampled_success" in each]
    print(f"success by sampled play: {won}")
    assert won[-1] > won[0] + 0.2


def test_whole_weights_arrive_or_the_probe_says_that_they_did_not(engine, tmp_path):
    """Last of all, for the engine's base changes; builds differ in what they take."""
    policy = policy_of()
    player = policy.with_sampler(VllmSampler(engine, tmp_path))
    before = act(player)
    move(policy, 1, "layers")
    assert apart(policy, before) > FAR
    try:
        replies = act(player)
    except EngineError as error:
        print(str(error).partition(". Usual")[0])
    else:
        assert report("whole weights", apart(policy, replies)) < CLOSE
