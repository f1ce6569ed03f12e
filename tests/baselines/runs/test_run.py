"""Runs: settings, plans, and from where they come."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import baselines
from baselines import train
from baselines.environments.registry import SETTINGS, settings_of
from baselines.recipes.papers import PAPERS, Paper
from baselines.runs.engine import Engine
from baselines.runs.pass_memory import Allocations, count_pass, pass_sizes
from baselines.runs.plan import CARDS, GIB, Device, DoesNotFitError, Planner
from baselines.runs.settings import RunSettings, run_settings
from policies.huggingface import HuggingFacePolicy
from policies.scoring.head import hidden_at, token_logprobs
from policies.tiny import tiny_policy
from tests import own_worlds
from tests.baselines.corridor_learning import repeatable
from tests.benchmarks import command
from tests.cases import cases
from tests.refusals import refuses

SMALL = {"iterations": 1, "groups": 2, "group_size": 2, "quick": True, "progress": False}


def test_five_lines_give_a_policy_a_log_and_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = train("corridor", method="graphgpo", loss={"kl": 0.0}, **SMALL)
    assert run.folder == Path("runs/train/corridor-graphgpo-seed0")
    assert [row["iteration"] for row in run.log] == [0, 1]
    assert {"clone", "final", "log.jsonl", "samples.jsonl"} <= {path.name for path in run.folder.iterdir()}
    assert (run.trainer.config.groups, run.trainer.config.loss.kl) == (2, 0.0)
    assert run.policy is run.trainer.policy
    assert 0 <= run.test().success_rate <= 1
    assert repr(run).startswith("Run(graphgpo on AgentRL/Corridor-v0, 1 iterations: ")
    # The folder of a run is gone on with, and nothing is trained anew; a call without one begins another.
    assert train("corridor", method="graphgpo", loss={"kl": 0.0}, out=run.folder, **SMALL).log == run.log
    assert train("corridor", method="graphgpo", clone=0, **SMALL).folder.name == "corridor-graphgpo-seed0-2"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A pretrained model, in bfloat16."""
    words = ("north", "south", "east", "west")
    policy = tiny_policy(["a room"], seed=0, layers=1, width=16, mlp=16, extra_words=words, max_new_tokens=1)
    policy.model.to(torch.bfloat16)
    policy.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_under_an_adapter_the_adapter_is_cloned_on_the_stored_type_and_trained_further(stored, tmp_path):
    given = {"model": stored, "lora": 2, "clone": 4, "loss.kl": 0.05, "learning_rate": 1e-2} | SMALL

    def types(run):
        return {weight.requires_grad: weight.dtype for weight in run.policy.model.parameters()}

    whole = train("corridor", out=tmp_path / "whole", **given | {"iterations": 2})
    assert types(whole) == {True: torch.float32, False: torch.bfloat16}
    adapters = [load_file(tmp_path / "whole" / name / "adapter_model.safetensors") for name in ("clone", "final")]
    assert any(float(value.abs().max()) > 0 for name, value in adapters[0].items() if "lora_B" in name)
    assert adapters[0].keys() == adapters[1].keys()
    # The clone is the start of training, and what it is compared with.
    start = whole.trainer.learner.reference.model
    for name, value in load_file(tmp_path / "whole" / "clone" / "adapter_model.safetensors").items():
        assert torch.equal(dict(start.named_parameters())[name.replace(".weight", ".default.weight")], value)
    bases = [dict(model.named_parameters()) for model in (start, whole.policy.model)]
    assert all(value is bases[1][name] for name, value in bases[0].items() if "lora_" not in name)
    train("corridor", out=tmp_path / "parts", **given)
    parts = train("corridor", out=tmp_path / "parts", **given | {"iterations": 2})
    assert repeatable(parts.log) == repeatable(whole.log)


def test_a_run_that_has_cloned_all_weights_goes_on(stored, tmp_path):
    """An older run holds a clone in float32, on which a new adapter is trained."""
    HuggingFacePolicy.from_pretrained(stored, dtype=torch.float32).save_pretrained(tmp_path / "run" / "clone")
    run = train("corridor", out=tmp_path / "run", model=stored, lora=2, clone=4, **SMALL)
    assert {weight.dtype for weight in run.policy.model.parameters()} == {torch.float32}
    assert not hasattr(run.policy.model, "begins_adapted")


def test_train_takes_modules_of_ones_own_and_the_package_has_nothing_else_of_the_kind(tmp_path):
    stairs = "tests.own_worlds:Mine/Stairs-v0"
    numbers = {**SMALL, "iterations": 3, "groups": 4, "group_size": 8, "learning_rate": 1e-2}
    named = train(stairs, method="tests.own_worlds:credit", out=tmp_path / "named", **numbers)
    handed = train(stairs, method=own_worlds.credit, out=tmp_path / "f", **numbers)
    assert np.allclose([row["success"] for row in named.log[1:]], [row["success"] for row in handed.log[1:]])
    assert named.log[-1]["success"] > named.log[1]["success"]
    assert callable(baselines.train)
    assert "method: name of a recipe" in train.__doc__
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        baselines.trian  # noqa: B018


@cases(
    "given, error, words",
    ({"env": "sokban"}, ValueError, "unknown environment 'sokban'"),
    ({"env": "no_module:Env-v0"}, ValueError, "no module 'no_module' can be imported"),
    ({"env": "math:Env-v0"}, ValueError, "math registers no such environment"),
    ({"env": "corridor", "method": "grp"}, ValueError, "unknown method 'grp'"),
    ({"env": "corridor", "model": "tinny"}, ValueError, "did you mean 'tiny'"),
    ({"env": "corridor", "clone": -1}, ValueError, "clone"),
    ({"env": "corridor", "iteration": 3}, TypeError, "did you mean 'iterations'"),
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path, given, error, words):
    refuses(error, words, lambda: train(**given, out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


PLAYED = [one for one in PAPERS.values() if one.env in {row.name for row in SETTINGS}]


def titles(papers: list[Paper]) -> list[str]:
    return [one.title.replace(" ", "-") for one in papers]


def settings(printed: Paper, **given: Any) -> RunSettings:
    row = settings_of(printed.env)
    return run_settings(row, method=printed.method, model="smollm2", seed=0, paper=printed, **given)


def made(found: RunSettings, **more: Any) -> gym.Env[Any, Any]:
    setup = found.config.setup
    return gym.make(found.config.env, **setup.options, **setup.plenty, **more)


def lines(found: RunSettings, kind: str) -> list[str]:
    start = f"  {kind:<9} "
    return [line.removeprefix(start) for line in found.paper_report() if line.startswith(start)]


TIMED = [one for one in PLAYED if "steps" in one.environment]


@pytest.mark.parametrize("printed", TIMED, ids=titles(TIMED))
def test_an_episode_has_the_papers_steps(printed: Paper) -> None:
    found, steps = settings(printed), printed.environment["steps"]
    env = made(found)
    env.reset(seed=0)
    ended = [any(env.step("nothing that any environment knows")[2:4]) for _ in range(steps)]
    assert ended == [False] * (steps - 1) + [True]
    assert any(line.startswith(f"steps: {steps} (max_") for line in lines(found, "set"))


REWARDED = [one for one in PLAYED if "success_reward" in one.environment]


@pytest.mark.parametrize("printed", REWARDED, ids=titles(REWARDED))
def test_success_is_worth_what_the_paper_prints(printed: Paper) -> None:
    env = made(settings(printed), expert=True)
    _, info = env.reset(options={"split": "train", "index": 0})
    rewards, done = [], False
    while not done:
        _, reward, terminated, truncated, info = env.step(info["expert_action"])
        rewards.append(reward)
        done = terminated or truncated
    assert sum(rewards) == rewards[-1] == printed.environment["success_reward"]


BOARDS = [one for one in PLAYED if "board" in one.environment]


@pytest.mark.parametrize("printed", BOARDS, ids=titles(BOARDS))
def test_boards_have_the_papers_size(printed: Paper) -> None:
    found = settings(printed)
    board = made(found).reset(options={"split": "train", "index": 0})[0]
    if isinstance(board, dict):
        sides = [side // 16 for side in board["image"].shape[:2]]  # 16 pixels a cell
    else:
        sides = [len(board.splitlines()), *{len(line) for line in board.splitlines()}]
    assert "x".join(map(str, sides)) == printed.environment["board"]
    assert any(line.startswith(f"board: {printed.environment['board']!r} (size=") for line in lines(found, "set"))


def test_temperatures_and_settings_without_a_paper() -> None:
    warmer = settings(PAPERS["rewardflow", "alfworld", "paper"], changes={"temperature": 1.0})
    assert "validation_temperature: 0.4" in lines(warmer, "not set")
    row = settings_of("sokoban")
    found = run_settings(row, method="grpo", model="smollm2", seed=0)
    assert found.config.setup.options == row.played_by("smollm2").setup.options == {}
    assert (found.prompt_tokens, found.paper_report()) == (None, [])


#: The shape of a Qwen2 of 1.5 billion parameters.
SHAPE = {
    "model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
    "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151_936, "tie_word_embeddings": True,
    "dtype": "bfloat16", "max_position_embeddings": 32_768,
}  # fmt: skip


def test_a_pass_takes_what_the_plan_counts_without_memory() -> None:
    before = torch.zeros(700)
    with Allocations() as found:
        one = torch.zeros(1000)
        view = one[:10]
        earlier = before[:10]  # was there before
        two = torch.zeros(500) + 1  # two storages for a moment
        del one
        assert found.now == 4000 + 2000
        del view
    assert (found.now, found.peak) == (2000, 4000 + 2000 + 2000)
    assert two.sum() + earlier.sum() == 500
    model = tiny_policy(["one two three"], seed=0, layers=2, width=32, mlp=64).model
    counted = count_pass(model.config, torch.float32, 0, None, False, 4, 16, 5)  # 4 rows of 16 tokens, 5 of replies
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    with Allocations() as found:
        ids, lines, places = torch.zeros(4, 16, dtype=torch.int64), torch.arange(20) // 5, 11 + torch.arange(20) % 5
        hidden = hidden_at(model, ids, lines, places, use_cache=False)[0]
        token_logprobs(model.get_output_embeddings(), hidden, ids[0, :1].repeat(20)).logprobs.sum().backward()
    weights = sum(weight.numel() for weight in model.parameters())
    assert counted[:4] == (weights, weights, 0, 4 * weights)
    assert counted.activations == pytest.approx(found.peak, rel=0.1)


@pytest.mark.parametrize(
    ("rank", "precision", "recompute"), [(0, None, False), (0, torch.bfloat16, True), (4, None, True)]
)
def test_few_layers_tell_what_many_take(rank: int, precision: torch.dtype | None, recompute: bool) -> None:
    """A large vocabulary: with few layers the embeddings' gradients are the most, with many the activations."""
    config = tiny_policy([f"word{number}" for number in range(2000)], seed=0, layers=12, width=16, mlp=32).model.config
    how = torch.float32, rank, precision, recompute, 2, 64, 4
    assert pass_sizes(config, *how) == count_pass(config, *how)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder with its config alone."""
    made = tmp_path_factory.mktemp("shape")
    (made / "config.json").write_text(json.dumps(SHAPE))
    return made


def planned(folder: Path, **given: Any) -> tuple[RunSettings, Planner]:
    settings = run_settings(settings_of("corridor"), method="grpo", model=str(folder), seed=0, lora=32, **given)
    return settings, Planner(settings, CARDS["h100"])


def configured(settings: RunSettings, **config: Any) -> RunSettings:
    return dataclasses.replace(settings, config=dataclasses.replace(settings.config, **config))


def test_a_config_is_enough_and_the_parts_are_those_worked_out_by_hand(folder: Path) -> None:
    settings, planner = planned(folder)
    plan = planner.check(settings)
    facts = plan.facts
    assert facts["model"].startswith("1,580,643,840 parameters, 36,929,536 trained (adapter of rank 32)")
    assert "4 letters a token" in facts["episodes"]
    update = plan.stages["update"]
    # The base in bfloat16, the adapter in float32 with gradients and two moments; its base is the reference.
    assert update["weights"] == 2 * 1_543_714_304 + 4 * 36_929_536
    assert (update["gradients"], update["optimiser"]) == (4 * 36_929_536, 8 * 36_929_536)
    assert update["reference"] == 0
    # Keys and values: 2 x 28 layers x 2 heads x 128 numbers of 2 bytes for every token of every row.
    rows, one = min(settings.training.groups * settings.training.group_size, 128), planner.played
    token, generation = 2 * 28 * 2 * 128 * 2, plan.stages["generation"]
    # Decode steps have few shapes: 147 columns become three times 64.
    assert (rows, one.longest + one.reply) == (8, 147)
    assert generation["keys and values"] == 8 * 192 * token
    episodes = settings.training.groups * settings.training.group_size
    assert generation["kept between turns"] == episodes * (one.fresh + one.steps * one.reply) * token
    # A layer's adapted weights: queries and outputs, keys and values, three of the MLP; in the base's type.
    assert generation["a copy to play"] == 2 * 28 * 1536 * (2 * 1536 + 2 * 256 + 3 * 8960)
    assert "a copy to play" not in update
    whole = configured(settings, lora=0)
    parts = planner.plan(whole).stages["update"]
    assert (parts["weights"] + parts["gradients"] + parts["optimiser"]) / GIB == pytest.approx(23.0, abs=0.01)
    assert parts["reference"] in (0, 4 * 1_543_714_304)
    # vLLM takes two fifths of 79.1 GiB beside the trainer; where it sleeps, of rollouts alone.
    for words, taken in (("vllm", 0.4 * 79.1 * GIB), ("vllm:sleep", 0.0)):
        planner._engine = Engine.read(words)
        found = planner.plan(settings).stages
        assert found["generation"]["engine"] == pytest.approx(0.4 * 79.1 * GIB)
        assert found["update"].get("engine", 0.0) == pytest.approx(taken)


def test_larger_validations_and_warm_starts_are_planned(folder: Path) -> None:
    settings, planner = planned(folder)
    validation, one, token = planner.plan(settings).stages["validation"], planner.played, 2 * 28 * 2 * 128 * 2
    # 32 tasks beside 8 episodes; the keys of the greedy player's turns are there while the other one plays.
    assert validation["keys and values"] == 32 * 192 * token
    assert validation["kept between turns"] == 2 * 32 * (one.fresh + one.steps * one.reply) * token
    # Rollouts need 6.1 GiB. Of 7.5 an eighth is for kept keys, and 7.05 are available.
    planner.device = Device("small", 7.5 * GIB, 1e12, 1e12)
    refuses(DoesNotFitError, r"available: --validation-tasks 8 makes it 6\.\d+ GiB", planner.check, settings)
    few = configured(settings, validation_tasks=8)
    assert "validation" not in planner.check(few).stages
    settings, planner = planned(folder, clone=4)
    plan = planner.plan(settings)
    cloning, update = plan.stages["cloning"], plan.stages["update"]
    # The adapter is what is cloned: 36,929,536 weights with gradients and two moments.
    assert {name: cloning[name] for name in ("weights", "gradients", "optimiser")} == {
        name: update[name] for name in ("weights", "gradients", "optimiser")
    }
    whole = configured(settings, lora=0)
    whole = dataclasses.replace(
        whole, training=whole.training.changed(**{"memory.microbatch_tokens": 64, "loss.kl": 0.0})
    )
    plan = planner.plan(whole)
    cloning = plan.stages["cloning"]
    # 16 bytes a weight, and passes of 8 rows of 147 tokens, where the update's have one row.
    assert sum(cloning[name] for name in ("weights", "gradients", "optimiser")) == 16 * 1_543_714_304
    assert {"activations of 1,176 tokens"} < set(cloning)
    assert plan.needed >= sum(cloning.values()) > sum(plan.stages["update"].values())
    bare = configured(whole, clone_tasks=0)
    assert "cloning" not in planner.plan(bare).stages
    assert "cloning" in planner.plan(dataclasses.replace(bare, episodes=folder)).stages


def test_what_does_not_fit_says_which_settings_make_it_fit_if_any(folder: Path) -> None:
    given = ("train", "--plan", "--env", "corridor", "--model", folder, "--set", "loss.kl=0.01", "--card")
    said = command.run(*given, "rtx4090", status=1)
    for words in ("the run needs", "--set loss.reference=bfloat16", "--lora 32 makes it"):
        assert words in said
    assert "did you mean 'h100'" in command.run(*given, "h101", status=2)
    settings = run_settings(settings_of("corridor"), method="grpo", model="tiny", seed=0, quick=True)
    planner = Planner(settings, Device("stamp", 1e5, 1e12, 1e11, gpu=False))
    refuses(DoesNotFitError, "no setting makes it fit", planner.check, settings)


@cases(
    "changes, asked, chosen, tokens",
    ({}, None, ("sdpa",), 8192),
    ({}, "eager", ("eager",), 4096),
    ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 0}, None,
     ("flash_attention_2", "flex_attention"), 8192),
)  # fmt: skip
def test_attention_and_passes_are_those_of_the_run(changes, asked, chosen, tokens, tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SHAPE | changes))
    settings = run_settings(settings_of("corridor"), method="grpo", model=str(tmp_path), seed=0, lora=32)
    settings = dataclasses.replace(settings, training=settings.training.changed(**{"memory.microbatch_rows": None}))
    plan = Planner(settings, CARDS["h100"], asked).plan(settings)
    assert plan.attention in chosen
    assert 0.5 * tokens < plan.tokens["pass"] <= tokens
    # Keys are kept between turns by PyTorch's own attention over all layers alone.
    assert (plan.stages["generation"]["kept between turns"] > 0) == (chosen == ("sdpa",))
