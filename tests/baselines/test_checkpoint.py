"""Checkpoints: complete, atomic, and refused where they do not belong."""

from pathlib import Path
from typing import Any

import pytest
import torch

from baselines.checkpoint import Checkpoint, describe_run, differences, load_checkpoint, save_checkpoint
from tests.baselines.corridor_learning import CONFIG, TASKS, small_policy

IDENTITY: dict[str, Any] = {"model": {"w": "float32[2]"}, "config": {"kl": 0.01}}


def checkpoint(**changes: Any) -> Checkpoint:
    values = {"identity": IDENTITY, "iteration": 3, "seconds": 1.5, "model": {"w": torch.tensor([1.0, 2.0])}}
    return Checkpoint(**(values | {"optimizer": {"state": {}}, "reference": None} | changes))  # type: ignore[arg-type]


def test_round_trip(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint())
    found = load_checkpoint(tmp_path, IDENTITY)
    assert (found.iteration, found.seconds, found.reference, found.optimizer) == (3, 1.5, None, {"state": {}})
    assert torch.equal(found.model["w"], torch.tensor([1.0, 2.0]))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_failed_write_leaves_the_previous_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, checkpoint())

    def broken(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", broken)
    with pytest.raises(OSError, match="no space"):
        save_checkpoint(tmp_path, checkpoint(iteration=4))
    assert load_checkpoint(tmp_path, IDENTITY).iteration == 3


def test_missing_broken_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        load_checkpoint(tmp_path, IDENTITY)
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(tmp_path, checkpoint())
    content = path.read_bytes()
    for end in (0, 2, 200, len(content) // 2, len(content) - 1, len(content) - 30):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match="not a checkpoint of this trainer"):
            load_checkpoint(tmp_path, IDENTITY)
    torch.save({"weights": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="not a checkpoint of this trainer"):
        load_checkpoint(tmp_path, IDENTITY)
    torch.save({"format": 99, "news": 1}, path)
    with pytest.raises(ValueError, match="format 99, this version reads 1"):
        load_checkpoint(tmp_path, IDENTITY)


def test_another_run_is_named_field_by_field(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint())
    other = {"model": {"w": "float32[4]"}, "config": {"kl": 0.01}, "method": "grpo()"}
    with pytest.raises(
        ValueError, match=r"model.w: checkpoint float32\[2\], here float32\[4\]\n  method: checkpoint ab"
    ):
        load_checkpoint(tmp_path, other)


def test_long_lists_of_differences_are_cut(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint(identity={f"w{i}": 0 for i in range(11)}))
    with pytest.raises(ValueError, match="and 3 more"):
        load_checkpoint(tmp_path, {f"w{i}": 1 for i in range(11)})


def test_the_description_covers_what_matters_only() -> None:
    def described(policy: Any = None, config: Any = CONFIG, tasks: Any = TASKS) -> dict[str, Any]:
        return describe_run(policy or small_policy(), config, "grpo()", tasks)

    from dataclasses import replace

    base = described()
    assert differences(base, described(small_policy(seed=3))) == []  # weights are content, not identity
    assert differences(base, described(config=replace(CONFIG, checkpoint_every=9, iterations=9))) == []
    linear = described(config=replace(CONFIG, schedule="linear"))
    longer = described(config=replace(CONFIG, schedule="linear", iterations=9))
    assert differences(linear, longer) == ["config.iterations: checkpoint 6, here 9"]
    assert [line.split(":")[0] for line in differences(base, described(tasks=TASKS[:2]))] == ["tasks"]
    assert [line.split(":")[0] for line in differences(base, described(small_policy(batch_size=3)))] == [
        "policy.batch_size"
    ]
