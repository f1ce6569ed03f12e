"""`train`: what it prints before it starts, what a run leaves, and that the same command goes on."""

import dataclasses
import json
import os
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import huggingface_hub
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoModelForCausalLM

from agentgym.outside.text import DataError
from baselines.environments.registry import settings_of
from baselines.imitation.episodes import read_episodes
from baselines.recipes import RECIPES
from baselines.recipes.papers import paper
from baselines.records.metrics import read_log
from baselines.runs.settings import run_settings
from baselines.scorers.hindsight import HindsightConfig
from benchmarks.training import train as train_page
from policies.tiny import tiny_policy
from tests.agentgym.alfworld.support import unpack
from tests.baselines.corridor_learning import repeatable
from tests.benchmarks import command
from tests.cases import cases


def test_the_hours_of_the_plan_are_replaced_by_measured_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings: Any = types.SimpleNamespace(training=types.SimpleNamespace(iterations=10))
    plan: Any = types.SimpleNamespace(seconds={"total": 3600.0})
    clock = iter([0.0, 5.0, 25.0, 65.0, 85.0])  # the start, the validation of the start, three iterations
    monkeypatch.setattr(train_page.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(train_page, "_REFRESH", 1000.0)
    live, said = train_page._Live(settings, tmp_path, plan), []
    for number in range(4):
        trainer: Any = types.SimpleNamespace(iteration=2 * number)  # no page: it is written after the first
        live(trainer, None, {})
        said.append(live.left(trainer))
    # The plan's hour an iteration; then 60 s in two of them, and 80 s in three.
    times = ("; 10 h 0 min remaining (plan)", "; 8 h 0 min remaining (plan)", "; 3 min remaining", "; 2 min remaining")
    assert said == list(times)


SMALL = ["--method", "rewardflow", "--quick", "--groups", "2", "--group-size", "2", "--validation-tasks", "4"]


def run(*arguments: Any, status: int = 0) -> str:
    given = () if {"--clone", "--from"} & set(arguments) else ("--clone", 0)
    return command.run("train", *given, *arguments, status=status)


def test_what_differs_from_a_papers_row_is_printed() -> None:
    """What is printed where nothing else is asked for is in the golden studies/settings."""
    asked = ("--paper", "--method", "rewardflow", "--env", "alfworld", "--lora", 32, "--groups", 4)
    shown = run(*asked, "--set", "loss.kl=0.02", "--print")
    assert "differs loss.kl: paper 0.01, here 0.02 differs groups: paper 16, here 4" in shown
    assert "--set learning_rate=1e-05" in shown
    assert "groups = 4 " in shown
    asked = ("--paper", "--method", "graphgpo", "--env", "alfworld", "--print")
    shown = run(*asked, "--option", "max_episode_steps=30")
    assert "differs steps: paper 50, here max_episode_steps=30" in shown
    assert "set steps" not in shown


@cases(
    "arguments, said",
    (["--paper", "--method", "grpo"], "no paper's settings for the method 'grpo'"),
    (["--method", "rewardflo"], "unknown method 'rewardflo'; known: '"),
    (["--set", "klx=1"], "TrainerConfig: unknown setting 'klx'"),
    (["--set", "kl"], "expected name=value"),
    (["--set", "loss.kl=-1"], "Loss.kl must be at least 0, got -1"),
    (["--model", "/nowhere"], "no Hugging Face model in the folder"),
    (["--tracker", "mlflow"], "unknown tracker 'mlflow'; known: 'tensorboard', 'wandb', 'trackio'"),
    (["--set", "lss"], "did you mean 'loss'"),
    (["--card", "h100"], "--card is a part of --plan"),
    (["--precision", "fp16"], "--precision is bf16 or fp32"),
    (["--clone", "nowhere.jsonl"], "there is no nowhere.jsonl"),
    (["--from", "nowhere"], "nowhere holds no policy"),
    (["--push", "mymodel"], "such as me/my-model"),
    (["--env", "corridor", "--data", "x"], "plays no data of others"),
    (["--truncate", "right"], "--truncate is one of ('raise', 'left', 'end-episode'), got 'right'"),
)
def test_what_is_asked_wrongly_is_named(arguments: list[str], said: str) -> None:
    assert said in run(*arguments, status=2)


def test_official_games_stand_in_all_that_a_run_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"train": ("train_240", 4), "valid_seen": ("valid_seen", 2), "valid_unseen": ("valid_unseen", 2)}
    games = unpack(tmp_path / "games", counts)
    out = tmp_path / "run"
    asked = ("--env", "alfworld", "--quick", "--steps", "1", "--groups", "1", "--group-size", "2", "--option",
             "max_episode_steps=2", "--out", str(out))  # fmt: skip
    monkeypatch.setenv("ALFWORLD_DATA", str(games))
    assert "differs data:" not in run("--paper", "--method", "graphgpo", "--print", *asked)
    shown = run(*asked)
    said = shown[shown.index("data: ALF") :]
    assert said.startswith(f"data: ALFWORLD_DATA={games}; tasks: train 4, valid_seen 2, valid_unseen 2; fingerprint ")
    mark = said.partition("fingerprint ")[2].split()[0]
    assert "training_tasks 100 -> 4, validation_tasks 12 -> 2" in shown
    first = json.loads((out / "log.jsonl").read_text().splitlines()[0])
    assert (first["data"], first["data_fingerprint"]) == (f"ALFWORLD_DATA={games}", mark)
    assert mark in (out / "report.html").read_text()
    assert json.loads((out / "final" / "data_source.json").read_text())["fingerprint"] == mark
    played = {json.loads(line)["group"] for line in (out / "samples.jsonl").read_text().splitlines()}
    assert played
    assert all((games / "json_2.1.1" / "train" / game.partition(" ")[0]).is_dir() for game in played)
    monkeypatch.delenv("ALFWORLD_DATA")
    before = (out / "log.jsonl").read_bytes()
    other = run(*asked, status=2)
    assert ("holds a run on other data" in other, mark in other) == (True, True)
    assert (out / "log.jsonl").read_bytes() == before
    run(*asked, "--option", f"data={games}")


def test_settings_win_in_order_paper_sizes_changes_and_are_listed() -> None:
    row, printed = settings_of("alfworld"), paper("hisr", "alfworld")
    found = run_settings(row, method="hisr", model="tiny", seed=3, paper=printed, sizes={"groups": 5},
                         changes={"groups": 6, "optimiser.epochs": 2})  # fmt: skip
    assert (found.training.groups, found.config.groups, found.training.optimiser.epochs) == (6, 6, 2)
    assert (found.training.learning_rate, found.training.seed, found.config.lora) == (1e-5, 3, 8)
    hindsight = HindsightConfig(**printed.scorer["hindsight"])
    assert found.method.scorer == dataclasses.replace(
        RECIPES["hisr"].scorer, **{**printed.scorer, "hindsight": hindsight}
    )
    script = run_settings(settings_of("sokoban"), method="rewardflow", model="tiny", seed=0,
                          paper=paper("rewardflow", "sokoban", "script"))  # fmt: skip
    assert (script.training.loss.dual_clip, script.method.options["gamma"]) == (3.0, 0.9)
    every = run("--set", "list")
    assert all(name in every for name in ("learning_rate", "loss.kl", "memory.microbatch_tokens", "schedule.warmup"))
    assert "iterations in which the rate rises linearly" in run("--set", "schedule")


def test_long_prompts_are_as_the_model_and_the_paper_say(tmp_path: Path) -> None:
    run(*SMALL, "--steps", "1", "--out", str(tmp_path), "--truncate", "end-episode")
    assert json.loads((tmp_path / "final" / "policy.json").read_text())["truncate"] == "end-episode"
    assert read_log(tmp_path / "log.jsonl")[1]["prompt_too_long"] == 0.0
    result = run("--paper", "--env", "searchqa", *SMALL, "--steps", "1", "--out", str(tmp_path / "paper"))
    assert "set prompt_tokens: 4096 (max_prompt_tokens)" in result
    assert json.loads((tmp_path / "paper" / "final" / "policy.json").read_text())["max_prompt_tokens"] == 4096


@pytest.mark.long
def test_a_run_with_an_adapter_leaves_all_and_goes_on(tmp_path: Path) -> None:
    for steps, folder in (("1", "b"), ("2", "b"), ("2", "a")):
        # Where the rate does not depend on the length, a longer run goes on from a shorter one.
        run(
            *SMALL, "--steps", steps, "--lora", "4", "--out", str(tmp_path / folder), "--transcript",
            "--set", "schedule.shape=constant", "--set", "validation.every=1",
        )  # fmt: skip
    a, b = (tmp_path / name for name in "ab")
    rows = [repeatable(read_log(folder / "log.jsonl")) for folder in (a, b)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 3
    assert (a / "samples.jsonl").read_text() == (b / "samples.jsonl").read_text()
    assert {json.loads(line)["iteration"] for line in (a / "samples.jsonl").read_text().splitlines()} == {1, 2}
    AutoModelForCausalLM.from_pretrained(a / "merged")
    # Conversations, not windows: later steps show what was said before.
    later = [line for line in map(json.loads, (a / "samples.jsonl").read_text().splitlines()) if line["t"] > 0]
    assert later
    assert all("<action>" in line["prompt"].removesuffix("<action>") for line in later)
    assert (a / "final" / "adapter_config.json").is_file()
    page = (a / "report.html").read_text()
    for text in ("rewardflow on AgentRL/Sokoban-v0", "Steps of iteration 2", "tokens per second of the update"):
        assert text in page
    assert "share of the device" in page
    # Four iterations of tiny runs go nowhere, and the page says so as the log does.
    assert any(key.startswith("warning_") for row in read_log(a / "log.jsonl") for key in row)
    assert "<h2>Warnings</h2>" in page
    assert "give it easier tasks, or a warm start" in page
    assert 'src="http' not in page
    assert (a / "curves.png").read_bytes().startswith(b"\x89PNG")


TINY = ["--env", "corridor", "--quick", "--groups", "2", "--group-size", "2", "--validation-tasks", "4"]


def test_a_run_from_episodes_is_followed_pushed_lengthened_and_begun_from(tmp_path: Path, monkeypatch: Any) -> None:
    sent: list[Any] = []
    package = types.SimpleNamespace(
        __spec__=ModuleSpec("wandb", None),
        init=lambda **_: None,
        finish=lambda: None,
        log=lambda row, step: sent.append((step, set(row))),
    )
    monkeypatch.setitem(sys.modules, "wandb", package)
    hub, files = create_autospec(huggingface_hub.HfApi, instance=True), set[str]()
    hub.whoami.return_value, hub.create_repo.return_value = {"name": "me"}, "https://hub/me/corridor"
    hub.upload_folder.side_effect = lambda folder_path, **_: files.update(os.listdir(folder_path))
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: hub)
    pages: list[str] = []
    whole = train_page.write_page
    monkeypatch.setattr(train_page, "write_page", lambda *given: pages.append(str(given[0])) or whole(*given))
    episodes, out = tmp_path / "shown.jsonl", tmp_path / "a"
    chat = [{"role": "user", "content": "cell 1"}, {"role": "assistant", "content": "east"}]
    episodes.write_text(json.dumps({"messages": chat}) + "\n" + json.dumps({"prompt": "2", "reply": "east"}) + "\n")
    asked = [*TINY, "--clone", str(episodes), "--tracker", "tensorboard,wandb", "--out", str(out), "--set",
             "schedule.shape=linear", "--learning-rate", "0.002"]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["-", "train", "--clone", str(episodes), "--push", "me/corridor"])
    result = run(*asked, "--iterations", "2", "--test-tasks", "2", "--push", "me/corridor")
    for text in ("plan for processor", "memory, update", "time of an iteration", "pushed: https://hub"):
        assert text in result
    assert (out / "clone").is_dir()
    (curves,) = (out / "tensorboard").iterdir()
    events = EventAccumulator(str(curves)).Reload().Tags()["scalars"]
    assert set().union(*(keys for _, keys in sent)) == set(events)
    assert {"probe_mean", "success", "kl"} <= set(events)
    assert "refresh=20" in pages[0]
    assert "remaining (plan)" in pages[0]
    assert "refresh=0" in pages[-1]
    assert "Plan and measurement" in (out / "report.html").read_text()
    card = (out / "final" / "README.md").read_text()
    for text in ("pipeline_tag", "| validation, greedy |", "| test, greedy |", "| learning_rate | 0.002 |"):
        assert text in card
    assert "\n## Command\n\n```sh\nstepcredit train --clone .../shown.jsonl --push me/corridor\n```\n" in card
    assert str(tmp_path) not in card
    assert {"README.md", "model.safetensors", "tokenizer.json"} <= files
    # A finished run is lengthened although its rate falls to the end; fewer iterations are another run.
    with pytest.warns(UserWarning, match="the run of 2 iterations continues to 3"):
        run(*asked, "--iterations", "3")
    assert [row["iteration"] for row in read_log(out / "log.jsonl")] == [0, 1, 2, 3]
    run(*TINY, "--from", str(out), "--iterations", "1", "--out", str(tmp_path / "b"))
    began, ended = (read_log(tmp_path / name / "log.jsonl") for name in "ba")
    assert began[0]["validation_greedy_success"] == ended[-1]["validation_greedy_success"]
    assert json.loads((tmp_path / "b" / "run.json").read_text())["config"]["model"] == "tiny"


def test_an_environment_without_an_expert_says_what_to_give(tmp_path: Path) -> None:
    env = "tests.own_worlds:Mine/Plain-v0"
    result = run("--env", env, "--clone", 5, "--quick", "--out", tmp_path / "run", status=2)
    assert "has no expert whose 5 episodes could be imitated" in result
    assert "--clone FILE.jsonl" in result
    (tmp_path / "bad.jsonl").write_text('{"text": "up"}\n')
    with pytest.raises(DataError, match=r"bad.jsonl, line 1: expected .*messages"):
        read_episodes(tmp_path / "bad.jsonl", tiny_policy(["up"], seed=0, layers=1))
