"""Checkpoints: complete, atomic, and refused where they do not belong."""

import json
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from agentgym.outside.files import seal
from agentgym.outside.text import DataError
from baselines.records.checkpoint import (
    Checkpoint,
    deferred,
    describe_run,
    differences,
    load_checkpoint,
    remove_leftovers,
    save_checkpoint,
    save_policy,
)
from tests.baselines.corridor_learning import CONFIG, TASKS, small_policy
from tests.refusals import refuses

IDENTITY: dict[str, Any] = {"model": {"w": "float32[2]"}, "config": {"loss.kl": 0.01}}


def checkpoint(**changes: Any) -> Checkpoint:
    values = {"identity": IDENTITY, "iteration": 3, "seconds": 1.5, "model": {"w": torch.tensor([1.0, 2.0])}}
    return Checkpoint(**(values | {"optimizer": {"state": {}}} | changes))  # type: ignore[arg-type]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_round_trip(tmp_path: Path) -> None:
    # The state of an optimiser: integers for keys, tuples, numbers that JSON must not round, a scalar tensor.
    state = {0: {"step": torch.tensor(3.0), "exp_avg": torch.tensor([0.1, 1e-30])}}
    groups = [{"lr": 0.1 + 0.2, "betas": (0.9, 0.999), "params": [0], "fused": None}]
    scorer = {"model": {"v": torch.tensor(1, dtype=torch.int64)}}
    save_checkpoint(tmp_path, checkpoint(optimizer={"state": state, "param_groups": groups}, scorer=scorer))
    found = load_checkpoint(tmp_path, IDENTITY)
    assert (found.iteration, found.seconds) == (3, 1.5)
    assert (found.optimizer["param_groups"], found.optimizer["state"].keys()) == (groups, {0})
    for name, value in state[0].items():
        assert torch.equal(found.optimizer["state"][0][name], value)
    assert torch.equal(found.model["w"], torch.tensor([1.0, 2.0]))
    assert torch.equal(found.scorer["model"]["v"], torch.tensor(1))
    assert names(tmp_path) == ["checkpoint-000003"]
    assert names(tmp_path / "checkpoint-000003") == [
        "model.safetensors", "optimizer.safetensors", "scorer.safetensors", "seal.json", "state.json"
    ]  # fmt: skip
    assert load_file(tmp_path / "checkpoint-000003" / "model.safetensors").keys() == {"w"}  # as any tool reads it


def test_checkpoints_of_earlier_versions_are_read(tmp_path: Path) -> None:
    given = checkpoint(identity=IDENTITY | {"scorer": {"rate": 1.0}}, scorer={"v": torch.tensor([7.0])})
    save_checkpoint(tmp_path, given)
    path = tmp_path / "checkpoint-000003"
    (path / "scorer.safetensors").rename(path / "critic.safetensors")
    state = json.loads((path / "state.json").read_text())
    state["trees"]["critic"] = state["trees"].pop("scorer")
    state["identity"]["critic"] = state["identity"].pop("scorer")
    (path / "state.json").write_text(json.dumps(state))
    (path / "seal.json").unlink()
    seal(path)
    found = load_checkpoint(tmp_path, given.identity)
    assert found.scorer["v"].tolist() == [7.0]
    save_checkpoint(tmp_path, checkpoint(identity={"config": {"groups": 4, "kl": 0.01, "validate_every": 2}}))
    load_checkpoint(tmp_path, {"config": {"groups": 4, "loss.kl": 0.01, "validation.every": 2}})
    with pytest.raises(ValueError, match=r"config.loss.kl: checkpoint 0.01, here 0.1"):
        load_checkpoint(tmp_path, {"config": {"groups": 4, "loss.kl": 0.1, "validation.every": 2}})


def test_only_the_newest_are_kept_and_one_of_the_same_iteration_is_replaced(tmp_path: Path) -> None:
    for iteration in (9, 10, 100, 1_000_000, 1_000_000):
        model = {"w": torch.tensor([5.0, len(names(tmp_path))])}
        save_checkpoint(tmp_path, checkpoint(iteration=iteration, model=model), keep=3)
    assert names(tmp_path) == ["checkpoint-000010", "checkpoint-000100", "checkpoint-1000000"]
    found = load_checkpoint(tmp_path, IDENTITY)
    assert (found.iteration, found.model["w"].tolist()) == (1_000_000, [5.0, 3.0])
    remove_leftovers(tmp_path, keep=1)
    assert names(tmp_path) == ["checkpoint-1000000"]


def test_no_flipped_bit_goes_unnoticed_and_the_checkpoint_before_is_named(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint(iteration=2))
    save_checkpoint(tmp_path, checkpoint(iteration=3))
    newest = tmp_path / "checkpoint-000003"
    words = r"damaged.*the one before, of iteration 2, is whole: remove .*checkpoint-000003 to go on"
    for name in names(newest):
        path = newest / name
        content = path.read_bytes()
        for place in (0, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            refuses(ValueError, words, load_checkpoint, tmp_path, IDENTITY)
        path.unlink()
        refuses(ValueError, f"damaged.*{name}", load_checkpoint, tmp_path, IDENTITY)
        path.write_bytes(content)
    assert load_checkpoint(tmp_path, IDENTITY).iteration == 3
    for path in tmp_path.glob("*/state.json"):
        path.write_bytes(path.read_bytes()[:-5])
    words = "there is no other that could be read: train into an empty folder"
    refuses(ValueError, words, load_checkpoint, tmp_path, IDENTITY)
    shutil.rmtree(newest)
    refuses(ValueError, "damaged.*checkpoint-000002|checkpoint-000002.*damaged", load_checkpoint, tmp_path, IDENTITY)


def test_missing_broken_and_foreign_folders(tmp_path: Path) -> None:
    refuses(DataError, "no checkpoint in", load_checkpoint, tmp_path, IDENTITY)
    (tmp_path / "checkpoint-000009").mkdir()
    words = "not a checkpoint of this trainer"
    refuses(ValueError, f"{words}: seal.json cannot be read", load_checkpoint, tmp_path, IDENTITY)
    (tmp_path / "checkpoint-000009").rmdir()
    save_checkpoint(tmp_path, checkpoint())
    state = tmp_path / "checkpoint-000003" / "state.json"

    def write(value: Any) -> None:
        state.write_text(json.dumps(value))
        seal(state.parent)

    whole = json.loads(state.read_text())
    write({"weights": 1})
    refuses(ValueError, rf"{words} \(KeyError", load_checkpoint, tmp_path, IDENTITY)
    write({**whole, "trees": {**whole["trees"], "model": {"dict": [["w", {"tensor": "v"}]]}}})
    words = rf"{words} \(DataError: no tree of tensors, or not all of them: 'v'"
    refuses(ValueError, words, load_checkpoint, tmp_path, IDENTITY)
    write({"format": 99, "news": 1})
    refuses(ValueError, "format 99, this version reads 2", load_checkpoint, tmp_path, IDENTITY)


def test_another_run_is_named_field_by_field_and_a_description_covers_what_matters(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint())
    other = {"model": {"w": "float32[4]"}, "config": {"loss.kl": 0.01}, "method": "grpo()"}
    words = r"model.w: checkpoint float32\[2\], here float32\[4\]\n  method: checkpoint ab"
    refuses(ValueError, words, load_checkpoint, tmp_path, other)
    save_checkpoint(tmp_path, checkpoint(identity={f"w{i}": 0 for i in range(11)}))
    refuses(ValueError, "and 3 more", lambda: load_checkpoint(tmp_path, {f"w{i}": 1 for i in range(11)}))

    def described(policy: Any = None, config: Any = CONFIG, tasks: Any = TASKS) -> dict[str, Any]:
        return describe_run(policy or small_policy(), config, "grpo()", tasks)

    base = described()
    assert differences(base, described(small_policy(seed=3))) == []  # weights are content, not identity
    assert differences(base, described(config=CONFIG.changed(iterations=9, checkpoint={"every": 9}))) == []
    linear = described(config=CONFIG.changed(schedule={"shape": "linear"}))
    longer = described(config=CONFIG.changed(iterations=9, schedule={"shape": "linear"}))
    assert differences(linear, longer) == ["config.iterations: checkpoint 6, here 9"]
    for other, name in ((described(tasks=TASKS[:2]), "tasks"), (described(small_policy(batch_size=3)), "policy.batch")):
        (line,) = differences(base, other)
        assert line.startswith(name)


def test_a_second_ctrl_c_acts_at_once_a_second_sigterm_does_not_and_other_threads_leave_the_handlers_alone() -> None:
    reached = []

    def block() -> None:
        with deferred():
            for _ in range(3):
                reached.append(True)
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert len(reached) == 2
    with deferred() as interruption:
        for _ in range(3):  # from a scheduler and from a parent process
            os.kill(os.getpid(), signal.SIGTERM)
            reached.append(True)
    assert len(reached) == 5
    refuses(SystemExit, "143", interruption.raise_if_asked)
    seen = []

    def work() -> None:
        with deferred() as interruption:
            seen.append((interruption.signal, signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


class Saved:
    """A policy of one file beside its configuration."""

    def __init__(self, text: str) -> None:
        self.text = text

    def save_pretrained(self, folder: Path) -> None:
        for name in ("config.json", "model.safetensors"):
            (folder / name).write_text(self.text)


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_what_is_not_of_a_policy_is_kept_and_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "final"
    save_policy(Saved("old"), path)
    (path / "notes.txt").write_text("mine")
    with pytest.warns(UserWarning, match=r"final held notes\.txt, .* kept as final\.kept-1$"):
        save_policy(Saved("new"), path)
    assert names(path) == ["config.json", "model.safetensors"]
    kept = {"config.json": "old", "model.safetensors": "old", "notes.txt": "mine"}
    assert texts(tmp_path / "final.kept-1") == kept
    (path / "base").mkdir()
    (path / "base" / "thesis.tex").write_text("mine")
    with pytest.warns(UserWarning, match=r"held base/thesis\.tex, .* kept as final\.kept-2$"):
        save_policy(Saved("newer"), path)
    assert (tmp_path / "final.kept-2" / "base" / "thesis.tex").read_text() == "mine"
    shutil.rmtree(path)
    path.write_text("a file")
    with pytest.warns(UserWarning, match=r"final was a file: .* kept as final\.kept-3$"):
        save_policy(Saved("newest"), path)
    assert (tmp_path / "final.kept-3").read_text() == "a file"
    assert (texts(tmp_path / "final.kept-1"), texts(path)["config.json"]) == (kept, "newest")


def test_what_a_kill_between_two_steps_left_beside_its_name_is_put_back(tmp_path: Path) -> None:
    save_policy(Saved("old"), tmp_path / "final")
    (tmp_path / "final").rename(tmp_path / ".final.replaced")
    for rest in (".final.x1.partial", ".best-000010.removed.partial", ".best-photos.x.partial", ".final.mine"):
        (tmp_path / rest).mkdir()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".best-photos.x.partial", ".final.mine", "final"]
    assert texts(tmp_path / "final")["config.json"] == "old"


def test_a_policy_that_is_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    save_policy(Saved("old"), tmp_path / "disk" / "model")
    (tmp_path / "final").symlink_to(tmp_path / "disk" / "model")
    save_policy(Saved("new"), tmp_path / "final")
    assert (tmp_path / "final").is_symlink()
    assert texts(tmp_path / "disk" / "model")["config.json"] == "new"


def test_every_file_that_a_policy_writes_is_known_as_its_own(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    from policies.lora import LoraSettings, add_lora

    adapted = add_lora(small_policy(), LoraSettings(rank=2, alpha=4.0), seed=0)
    for policy in (small_policy(), adapted, small_policy()):
        for _ in range(2):
            save_policy(policy, tmp_path / "model")
    assert not [each for each in recwarn if "no policy writes" in str(each.message)]
    assert names(tmp_path) == ["model"]
