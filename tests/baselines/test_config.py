"""Numbers of a training run: wrong names and wrong values are named."""

import dataclasses
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

from baselines.config import NAMES, Distillation, Loss, Memory, Schedule, TrainerConfig, Validation, by_name
from baselines.sb3.shaping import SB3Config
from baselines.scorers.critic import CriticConfig
from tests.cases import cases
from tests.refusals import refuses
from wrappers.prompt import PromptStyle


@cases(
    "config, given, meant",
    (TrainerConfig, "lr", "learning_rate"), (TrainerConfig, "n_groups", "groups"),
    (TrainerConfig, "klx", "loss.kl"), (TrainerConfig, "loss.entrop", "loss.entropy"), (Loss, "clip", "clip_low"),
    (CriticConfig, "epoch", "epochs"), (SB3Config, "lr", "learning_rate"), (PromptStyle, "hist", "history"),
)  # fmt: skip
def test_a_field_that_does_not_exist_is_named_with_the_one_meant(config: Any, given: str, meant: str) -> None:
    with pytest.raises(
        TypeError, match=rf"{config.__name__}: unknown (argument|setting) '{given}'; .*did you mean '{meant}'\?"
    ):
        config(**{given: 1})


@cases(
    "name, value, expected",
    ("TrainerConfig.learning_rate", "3", "a number"), ("TrainerConfig.groups", 3.5, "an integer"),
    ("TrainerConfig.groups", True, "an integer"), ("Memory.microbatch_rows", "8", "None or an integer"),
    ("Loss.keep_zero", 1, "True or False"), ("Memory.activation_checkpointing", "yes", "None or True or False"),
    ("Loss.kl", None, "a number"), ("TrainerConfig.loss", 3, "a Loss"),
)  # fmt: skip
def test_a_field_of_another_type_is_named(name: str, value: object, expected: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be {expected}, got {value!r}"):
        TrainerConfig(**{name.removeprefix("TrainerConfig.").lower(): value})  # type: ignore[arg-type]


@cases(
    "changes, words",
    ({"temperature": 0.0}, "temperature must be above 0"),
    ({"groups": 0}, "groups must be at least 1, got 0"),
    ({"schedule.shape": "cosine"}, "shape 'cosine'; known: 'constant', 'linear'"),
    ({"loss.aggregation": "mean"}, "aggregation 'mean'; known: 'token-mean', 'row-mean', 'row-sum', 'constant'"),
    ({"loss.dual_clip": 1.0}, "dual_clip must be None or above 1"),
    ({"memory.microbatch_tokens": 0}, "microbatch_tokens must be 'auto', None or at least 1, got 0"),
    ({"learning_rate": float("nan")}, "learning_rate must be finite and at least 0, got nan"),
    ({"loss.ratio": "sequence"}, "ratio 'sequence'; known: 'token', 'step', 'step-token'"),
    ({"loss.objective": "gspo"}, "unknown Loss.objective 'gspo'; known: 'ppo', 'cispo'"),
    ({"loss.tis": 2.0}, "tis must be None unless old_logprobs='recompute'"),
    ({"loss.tis": 0.0, "loss.old_logprobs": "recompute"}, "tis must be None or above 0"),
    ({"loss.kl_in": "rewards"}, "kl_in .*; known: 'loss', 'reward'"),
    ({"loss.aggregation": "constant"}, "constant_length must be at least 1 with the aggregation 'constant'"),
    ({"loss.constant_length": 5}, "constant_length must be at least 1 with the aggregation 'constant', None with any"),
    ({"rollout.overlong": "cut"}, "overlong .*; known: 'keep', 'mask', 'drop'"),
    ({"rollout.overlong_buffer": -1}, "overlong_buffer must be at least 0"),
)
def test_a_wrong_value_is_named(changes: dict[str, Any], words: str) -> None:
    for make in (TrainerConfig, partial(dataclasses.replace, TrainerConfig(groups=5))):
        refuses(ValueError, words, make, **changes)


def test_settings_are_given_in_groups_or_flat_and_distillation_is_a_part_of_the_loss() -> None:
    config = TrainerConfig(
        groups=np.int64(3), learning_rate=1, loss=Loss(kl=np.float32(0.5)), memory=Memory(microbatch_rows=None)
    )
    assert (config.groups, config.learning_rate, config.loss.kl) == (3, 1, 0.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 1  # type: ignore[misc]
    grouped = TrainerConfig(groups=4, loss=Loss(kl=0.02), schedule=Schedule(shape="linear"), validation=Validation(3))
    names = {"groups": 4, "loss.kl": 0.02, "schedule.shape": "linear", "validation.every": 3}
    flat = {"groups": 4, "kl": 0.02, "schedule": "linear", "validate_every": 3}
    assert TrainerConfig(**names) == grouped  # type: ignore[arg-type]
    assert TrainerConfig(**grouped.settings()) == grouped
    with pytest.warns(FutureWarning, match=r"kl is loss.kl, schedule is schedule.shape, .*loss=Loss\(kl=") as warned:
        assert TrainerConfig(**flat) == grouped  # type: ignore[arg-type]
    assert len(warned) == 1
    with warnings.catch_warnings(action="error"):
        assert by_name(flat) == names  # records and checkpoints
    config = TrainerConfig(loss=Loss(kl=0.5, entropy=0.1))
    expected = TrainerConfig(groups=3, loss=Loss(kl=0.2, entropy=0.1))
    assert config.changed(groups=3, loss={"kl": 0.2}) == config.changed(groups=3, **{"loss.kl": 0.2}) == expected
    assert config.changed(loss=Loss(kl=0.2)).loss == Loss(kl=0.2)  # a whole group
    assert dataclasses.replace(expected, **{"loss.kl": 0.5}) == dataclasses.replace(config, groups=3)  # type: ignore[arg-type]
    with pytest.warns(FutureWarning):
        assert config.changed(kl=0.2, groups=3) == expected
    flat = [
        "iterations", "token_budget", "groups", "group_size", "branches", "branch_at", "common_numbers",
        "resample_rounds", "staleness", "temperature", "learning_rate", "schedule", "warmup", "weight_decay",
        "max_grad_norm", "minibatch_rows", "microbatch_rows", "microbatch_tokens", "share_prefixes",
        "activation_checkpointing", "epochs", "objective", "ratio", "clip_low", "clip_high", "dual_clip", "tis",
        "tis_level", "kl", "reference", "kl_form", "kl_in", "kl_limit", "entropy", "aggregation", "constant_length",
        "overlong", "overlong_buffer", "overlong_penalty", "weighting", "keep_zero", "old_logprobs", "validate_every",
        "validate_tokens", "checkpoint_every", "keep_checkpoints", "seed",
    ]  # fmt: skip
    later = [name for name in NAMES if name.startswith(("distillation.", "rollout.probe_every", "rollout.on_mismatch"))]
    assert sorted([*by_name(dict.fromkeys(flat, 0)), *later]) == sorted(NAMES)
    one = TrainerConfig(loss=Loss(kl=0.5, distillation=Distillation(weight=2.0)))
    for same in ({"distillation.weight": 2.0}, {"distillation": {"weight": 2.0}}, {"loss.distillation.weight": 2.0}):
        assert TrainerConfig(**{"loss.kl": 0.5}, **same) == one
    assert one.settings()["distillation.weight"] == 2.0
    assert TrainerConfig(**one.settings()) == one
    assert one.changed(loss={"kl": 0.0}).loss == Loss(kl=0.0, distillation=Distillation(weight=2.0))
    assert one.changed(loss=Loss(kl=0.0)).loss.distillation == Distillation()
    refuses(TypeError, r"TrainerConfig.distillation must be a Distillation, got 3", TrainerConfig, distillation=3)
