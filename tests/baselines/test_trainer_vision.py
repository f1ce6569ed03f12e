"""A policy that sees is trained as any other: tiny, on VisualSokoban, by GRPO and with a critic; and resumed."""

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

import agentgym  # noqa: F401  # registers the environments
from baselines.config import Checkpoints, Loss, TrainerConfig, Validation
from baselines.imitation.cloning import clone
from baselines.recipes import recipe
from baselines.trainer import Trainer
from policies.vision.policy import VisionPolicy
from policies.vision.tiny import tiny_vision_policy
from tests.baselines.corridor_learning import repeatable
from tests.cases import cases
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser

pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike

TASKS = [{"split": "train", "index": i} for i in range(4)]
CONFIG = TrainerConfig(
    iterations=2, groups=2, group_size=2, learning_rate=1e-3,
    loss=Loss(kl=0.01), validation=Validation(every=0), checkpoint=Checkpoints(every=1),
)  # fmt: skip


def envs(**options: Any) -> Any:
    bare = gym.make_vec(
        "AgentRL/VisualSokoban-v0", 4, autoreset_mode="Disabled", tile_size=8, max_episode_steps=5, **options
    )
    return VectorPromptWindow(VectorReplyParser(bare), history=0, instructions=False)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a clone: it knows that commands are to be given."""
    policy = tiny_vision_policy(["Boxes on targets: 0 of 2."], seed=0, layers=1, width=32, mlp=64)
    clone(policy, envs(expert=True), TASKS, epochs=4, seed=0, warmup=2)
    folder = tmp_path_factory.mktemp("start")
    policy.save_pretrained(folder)
    return folder


def trained(
    start: Path, folder: Path, method: str, *callbacks: Any, **changes: Any
) -> tuple[list[dict[str, float]], VisionPolicy]:
    policy = VisionPolicy.from_pretrained(start, device="cpu")
    policy.pictures.keep_in(folder / "pictures")
    config = dataclasses.replace(CONFIG, **changes)
    return Trainer(policy, envs(), recipe(method), TASKS, config, folder=folder, resume=True).run(*callbacks), policy


@cases(
    "method, changes",
    ("grpo", {}),
    ("grpo", {"memory.microbatch_tokens": 400, "memory.activation_checkpointing": True}),
    ("rewardflow", {"memory.microbatch_tokens": 400, "memory.share_prefixes": True}),
    ("ppo", {}),  # with a critic, which sees as well
)
def test_training_moves_the_vision_tower(start: Path, tmp_path: Path, method: str, changes: dict[str, Any]) -> None:
    before = VisionPolicy.from_pretrained(start, device="cpu").model.state_dict()
    rows, policy = trained(start, tmp_path, method, **changes)
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    assert rows[-1]["rows"] > 1  # pictures are told apart
    moved = [name for name, weight in policy.model.state_dict().items() if not torch.equal(weight, before[name])]
    assert any("visual.blocks" in name for name in moved)
    assert any("language_model" in name for name in moved)


#: The next iteration's episodes are played before an update: they stand in the checkpoint.
AHEAD = {"rollout.staleness": 1, "loss.old_logprobs": "recompute", "loss.tis": 2.0}


@pytest.mark.parametrize("changes", [{}, AHEAD], ids=["in turn", "one step ahead"])
def test_a_run_that_is_stopped_goes_on_as_if_it_was_not(start: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    whole, _ = trained(start, tmp_path / "whole", "grpo", **changes)
    trained(start, tmp_path / "parts", "grpo", lambda trainer, table, row: row["iteration"] < 1, **changes)
    parts, _ = trained(start, tmp_path / "parts", "grpo", **changes)
    assert repeatable(parts) == repeatable(whole)
