import dataclasses
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
import torch

from agentgym.outside.text import DataError
from baselines.environments.registry import SETTINGS
from baselines.environments.settings import SMOLLM2, TINY
from baselines.recipes import recipe
from baselines.runs.stack import (
    ObservationLog,
    cloning,
    find_model,
    keep_pictures,
    learned_policy,
    make_envs,
    make_lanes,
    new_policy,
    trainer_config,
)
from policies import smollm2
from policies.prompts import FIRST_PICTURE
from policies.tiny import tiny_policy
from policies.vision import data_url
from policies.vision import policy as vision
from tests.baselines.configs import config_of
from tests.refusals import refuses

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


def test_a_folder_is_taken_as_it_is_and_what_is_no_name_on_the_hub_is_a_missing_one(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert find_model(str(tmp_path)) == str(tmp_path)
    for name in ("/nowhere/at/all", "./nowhere", "a/b/c", "a b", ""):
        refuses(DataError, r"no config.json\)$", find_model, name, download=True)


def test_an_unknown_name_says_how_to_fetch_it(monkeypatch):
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
