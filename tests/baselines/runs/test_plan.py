"""The plan: parts by hand, a pass as it is measured, and what does not fit."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from baselines.environments.registry import settings_of
from baselines.runs.plan import CARDS, GIB, Allocations, Device, DoesNotFitError, Planner, _count
from baselines.runs.settings import run_settings
from benchmarks.run import app
from policies.scoring.head import hidden_at, token_logprobs
from policies.tiny import tiny_policy

#: The shape of a Qwen2 of 1.5 billion parameters.
SHAPE = {
    "model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
    "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151_936, "tie_word_embeddings": True,
    "dtype": "bfloat16", "max_position_embeddings": 32_768,
}  # fmt: skip


def test_allocations_are_counted_while_they_live() -> None:
    with Allocations() as found:
        one = torch.zeros(1000)
        view = one[:10]
        two = torch.zeros(500) + 1  # two storages for a moment
        del one
        assert found.now == 4000 + 2000
        del view
    assert (found.now, found.peak) == (2000, 4000 + 2000 + 2000)
    assert two.sum() == 500


def test_a_pass_takes_what_the_plan_counts_without_memory() -> None:
    policy = tiny_policy(["one two three"], seed=0, layers=2, width=32, mlp=64)
    model = policy.model
    planned = _count(model.config, torch.float32, 0, None, False, 4, 16, 5)  # 4 rows of 16 tokens, 5 of them replies
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    with Allocations() as found:
        ids, lines, places = torch.zeros(4, 16, dtype=torch.int64), torch.arange(20) // 5, 11 + torch.arange(20) % 5
        hidden = hidden_at(model, ids, lines, places, use_cache=False)[0]
        token_logprobs(model.get_output_embeddings(), hidden, ids[0, :1].repeat(20)).logprobs.sum().backward()
    weights = sum(weight.numel() for weight in model.parameters())
    assert planned[:4] == (weights, weights, 0, 4 * weights)
    assert planned[4] == pytest.approx(found.peak, rel=0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder with its config alone."""
    made = tmp_path_factory.mktemp("shape")
    (made / "config.json").write_text(json.dumps(SHAPE))
    return made


def test_a_config_is_enough_and_the_parts_are_those_worked_out_by_hand(folder: Path) -> None:
    settings = run_settings(settings_of("corridor"), method="grpo", model=str(folder), seed=0, lora=32)
    planner = Planner(settings, CARDS["h100"])
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
    whole = dataclasses.replace(settings, config=dataclasses.replace(settings.config, lora=0))
    parts = planner.plan(whole).stages["update"]
    assert (parts["weights"] + parts["gradients"] + parts["optimiser"]) / GIB == pytest.approx(23.0, abs=0.01)
    assert parts["reference"] in (0, 4 * 1_543_714_304)


def test_what_does_not_fit_says_which_settings_make_it_fit(folder: Path) -> None:
    given = ["train", "--plan", "--env", "corridor", "--model", str(folder), "--set", "loss.kl=0.01", "--card"]
    result = CliRunner().invoke(app, [*given, "rtx4090"])
    assert result.exit_code == 1, result.output
    said = " ".join((result.stdout + result.stderr).split())
    assert "the run needs" in said
    assert "--set loss.reference=bfloat16" in said
    assert "--lora 32 makes it" in said
    result = CliRunner().invoke(app, [*given, "h101"])
    assert (result.exit_code, "did you mean 'h100'" in result.output) == (2, True)


def test_no_setting_helps_a_device_that_is_too_small() -> None:
    settings = run_settings(settings_of("corridor"), method="grpo", model="tiny", seed=0, quick=True)
    planner = Planner(settings, Device("stamp", 1e5, 1e12, 1e11, gpu=False))
    with pytest.raises(DoesNotFitError, match="no setting makes it fit"):
        planner.check(settings)


@pytest.mark.parametrize(
    ("changes", "asked", "chosen", "tokens"),
    [
        ({}, None, ("sdpa",), 8192),
        ({}, "eager", ("eager",), 4096),
        ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 0}, None,
         ("flash_attention_2", "flex_attention"), 8192),
    ],
)  # fmt: skip
def test_attention_and_passes_are_those_of_the_run(
    changes: dict[str, Any], asked: str | None, chosen: tuple[str, ...], tokens: int, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SHAPE | changes))
    settings = run_settings(settings_of("corridor"), method="grpo", model=str(tmp_path), seed=0, lora=32)
    settings = dataclasses.replace(settings, training=settings.training.changed(**{"memory.microbatch_rows": None}))
    plan = Planner(settings, CARDS["h100"], asked).plan(settings)
    assert plan.attention in chosen
    assert 0.5 * tokens < plan.tokens["pass"] <= tokens
    # Keys are kept between turns by PyTorch's own attention over all layers alone.
    assert (plan.stages["generation"]["kept between turns"] > 0) == (chosen == ("sdpa",))
