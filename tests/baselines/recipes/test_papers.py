"""Printed settings against a table written by hand from the papers' own tables."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from baselines.config import Optimiser, TrainerConfig
from baselines.recipes.papers import PAPERS, Paper, paper
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes

ABSENT = object()
#: method, env, source: steps per episode, prompt, reply, groups, group size, mini-batch, rate, kl, temperatures of
#: training and validation, iterations; None = not printed.
TRAINING: dict[tuple[str, str, str], tuple[Any, ...]] = {
    ("rewardflow", "alfworld", "paper"): (25, 2048, 512, 16, 8, 256, 1e-6, 0.01, 0.4, 0.4, 100),
    ("rewardflow", "alfworld", "script"): (25, 2048, 512, 16, 8, 256, 1e-6, 0.01, 0.4, 0.4, 100),
    ("rewardflow", "webshop", "paper"): (15, 4096, None, 16, 8, 64, 1e-6, 0.01, 0.4, 0.4, 100),
    ("rewardflow", "sokoban", "paper"): (15, None, None, 16, 8, 256, 1e-6, 0.01, 0.4, 0.4, None),
    ("rewardflow", "sokoban", "script"): (15, None, None, 16, 8, 256, 1e-6, 0.01, 0.4, 0.4, None),
    ("rewardflow", "searchqa", "paper"): (4, 4096, None, 256, 5, 512, 1e-6, 0.01, 0.4, 0.4, 200),
    ("rewardflow", "searchqa", "script"): (4, 4096, None, 256, 5, 512, 1e-6, 0.01, 0.4, 0.4, 200),
    ("graphgpo", "alfworld", "paper"): (50, 2048, 512, 16, 8, 256, 1e-6, 0.01, 1.0, 0.4, 150),
    ("graphgpo", "webshop", "paper"): (15, 5120, None, 16, 8, 64, 1e-6, 0.01, 1.0, 0.4, 150),
    ("graphgpo", "sokoban", "paper"): (15, None, None, 16, 8, 64, 1e-6, 0.01, 1.0, 0.4, None),
    ("graphgpo", "sokoban", "script"): (15, None, None, 32, 8, 64, 1e-6, 0.01, 1.0, 0.4, None),
    ("rewardflow", "visualsokoban", "paper"): (15, None, None, 16, 8, 256, 1e-6, 0.01, 0.4, 0.4, 100),
    ("rewardflow", "visualsokoban", "script"): (15, None, None, 16, 8, 256, 1e-6, 0.01, 0.4, 0.4, None),
    ("graphgpo", "visualsokoban", "paper"): (15, None, None, 16, 8, 64, 1e-6, 0.01, 1.0, 0.4, None),
    ("graphgpo", "visualsokoban", "script"): (15, None, None, 32, 8, 64, 1e-6, 0.01, 1.0, 0.4, None),
    ("istar", "webshop", "paper"): (None, 4096, None, None, None, 64, 5e-7, 0.0, None, None, 200),
    ("istar", "webshop", "script"): (10, 4096, None, None, None, 64, 5e-7, 0.0, None, None, 200),
    ("istar", "sokoban", "paper"): (15, None, None, 32, 8, 64, 5e-7, 0.0, None, None, None),
    ("istar", "sotopia", "paper"): (None, 6144, 2048, 16, 8, 64, 5e-7, 0.0, 0.7, None, 800),
    ("hisr", "alfworld", "paper"): (40, None, None, None, None, None, 1e-5, 0.01, 0.7, 0.0, None),
    ("hisr", "webshop", "paper"): (10, None, None, None, None, None, 1e-5, 0.01, 0.7, 0.0, None),
    ("hisr", "virtualhome", "paper"): (40, None, None, None, None, None, 1e-5, 0.01, 0.7, 0.0, None),
    ("search_r1", "searchqa", "script"): (3, 4096, 500, 512, 5, 256, 1e-6, 0.001, 1.0, None, 1005),
    ("stepsearch", "searchqa", "script"): (6, 4096, 800, 128, 1, 32, 5e-7, 0.001, 1.0, None, 1120),
}
#: What belongs to the method.
METHOD: dict[tuple[str, str, str], dict[str, Any]] = {
    ("rewardflow", "alfworld", "paper"): {"gamma": 0.9, "invalid_penalty": 0.1, "success_reward": 1.0},
    ("rewardflow", "alfworld", "script"): {"gamma": 0.9, "success_reward": 10.0, "loss.dual_clip": 3.0},
    ("rewardflow", "webshop", "paper"): {"gamma": 0.9},
    ("rewardflow", "sokoban", "paper"): {"gamma": 0.9, "board": "6x6"},
    ("rewardflow", "sokoban", "script"): {"gamma": 0.9, "board": "8x8", "loss.dual_clip": 3.0},
    ("rewardflow", "searchqa", "paper"): {"gamma": 0.9, "invalid_penalty": 0.01, "similar_states": "cosine 0.9"},
    ("rewardflow", "searchqa", "script"): {"gamma": 0.95, "invalid_penalty": 0.01},
    ("graphgpo", "alfworld", "paper"): {"omega": 0.1, "success_reward": 10.0, "loss.dual_clip": ABSENT},
    ("graphgpo", "webshop", "paper"): {"omega": 0.2, "observation": "text_rich"},
    ("graphgpo", "sokoban", "paper"): {"omega": 0.8, "board": "6x6"},
    ("graphgpo", "sokoban", "script"): {"omega": 0.8, "loss.dual_clip": 3.0},
    ("rewardflow", "visualsokoban", "paper"): {"gamma": 0.9, "invalid_penalty": 0.1, "board": "6x6"},
    ("rewardflow", "visualsokoban", "script"): {"gamma": 0.9, "board": "8x8", "loss.dual_clip": 3.0},
    ("graphgpo", "visualsokoban", "paper"): {"omega": 0.8, "board": "6x6"},
    ("graphgpo", "visualsokoban", "script"): {"omega": 0.8, "loss.dual_clip": 3.0},
    ("istar", "webshop", "paper"): {"alpha": 1.0, "beta": 0.05, "rate": 1e-6 / 5e-7, "reduce": "sum",
                                    "loss.ratio": "step", "memory.microbatch_rows": 8, "loss.clip_low": ABSENT,
                                    "outer_advantage": "rloo"},
    ("istar", "sokoban", "paper"): {"alpha": 1.0, "loss.ratio": "step", "board": "6x6"},
    ("istar", "sotopia", "paper"): {"alpha": 1.0, "loss.ratio": "step"},
    ("hisr", "alfworld", "paper"): {"alpha": 0.3, "gamma": 0.99, "lam": 0.95, "lora_rank": 8,
                                    "critic_learning_rate": 1e-4, "executable_reward": 0.3, "success_reward": 1.0},
    ("hisr", "webshop", "paper"): {"reward_model_batch": 48, "segments": False},
    ("hisr", "virtualhome", "paper"): {"batches": (24, 16, 192)},
    # 28.5 % of 1005 and of 1120 iterations.
    ("search_r1", "searchqa", "script"): {"schedule.warmup": round(0.285 * 1005), "top_k": 3, "loss.kl_form": "k3"},
    ("stepsearch", "searchqa", "script"): {"schedule.warmup": round(0.285 * 1120), "gamma": 1.0, "lam": 1.0,
                                            "loss.kl_in": "reward"},
}  # fmt: skip


def test_printed_rows_have_entries_and_recipes_their_options() -> None:
    assert set(PAPERS) == set(TRAINING)
    table = episodes("a -x-> b -x-> goal +", "a -y-> c -y-> pit")
    for found in PAPERS.values():
        made = found.recipe()
        assert np.isfinite(made(table)).all()
        assert made.options.items() >= found.options.items()
        plain = {name: value for name, value in found.scorer.items() if not isinstance(value, dict)}
        assert all(getattr(made.scorer, name) == value for name, value in plain.items())
    hindsight = paper("hisr", "alfworld").recipe().scorer.hindsight
    assert (hindsight.beta, hindsight.clip, hindsight.hindsight) == (0.3, None, "cloze")
    known = r"beacon in sokoban \(paper\) are known, but the method is not in this"
    refuses(NotImplementedError, known, Paper("beacon", "sokoban").recipe)
    known = r"no paper's settings for the method 'reward-flow'.*did you mean 'rewardflow'"
    refuses(ValueError, known, paper, "reward-flow", "alfworld")
    known = r"paper of 'graphgpo' prints no settings for 'sotopia'; known: 'alfworld'"
    refuses(ValueError, known, paper, "graphgpo", "sotopia")
    assert paper("graphgpo", "webshop", "script") is paper("graphgpo", "webshop")  # no script of its own
    assert paper("stepsearch", "searchqa").source == "script"  # nothing else was read


@pytest.mark.parametrize("key", list(TRAINING), ids="-".join)
def test_training_settings_are_those_printed(key: Any) -> None:
    found = PAPERS[key]
    names = ("groups", "group_size", "optimiser.minibatch_rows", "learning_rate", "loss.kl", "temperature")
    mine = (
        found.environment.get("steps"), found.prompt_tokens, found.reply_tokens,
        *(found.training.get(name) for name in names), found.validation_temperature, found.training.get("iterations"),
    )  # fmt: skip
    assert mine == TRAINING[key]
    config = found.config()  # every name is a setting, every value allowed
    assert found.differences(config) == []
    if key[0] != "hisr":
        assert dataclasses.replace(config.optimiser, minibatch_rows=64) == Optimiser(weight_decay=0.01)


@pytest.mark.parametrize("key", list(METHOD), ids="-".join)
def test_what_belongs_to_the_method_is_as_printed(key: Any) -> None:
    found = PAPERS[key]
    facts = {**found.training, **found.options, **found.scorer, **found.environment, **found.others}
    facts["lora_rank"] = found.lora_rank
    for name, value in METHOD[key].items():
        assert facts.get(name, ABSENT) == value, name


def test_differences_and_facts_that_are_set_elsewhere_are_listed() -> None:
    found = paper("rewardflow", "alfworld")
    config = found.config(iterations=3, optimiser={"minibatch_rows": 64})
    assert found.differences(config) == [
        "optimiser.minibatch_rows: paper 256, here 64", "iterations: paper 100, here 3"
    ]  # fmt: skip
    elsewhere = {"steps: 25", "success_reward: 1.0", "reply_tokens: 512", "validation_temperature: 0.4"}
    assert elsewhere <= set(found.unset())
    assert found.config().loss.dual_clip is TrainerConfig().loss.dual_clip
