"""Checkpoints: complete, atomic, and refused where they do not belong."""

import importlib
import json
import os
import resource
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from agentgym.outside.files import damage, seal
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
    optimizer = {
        "state": state,
        "param_groups": [{"lr": 0.1 + 0.2, "betas": (0.9, 0.999), "params": [0], "fused": None}],
    }
    save_checkpoint(
        tmp_path, checkpoint(optimizer=optimizer, scorer={"model": {"v": torch.tensor(1, dtype=torch.int64)}})
    )
    found = load_checkpoint(tmp_path, IDENTITY)
    assert (found.iteration, found.seconds) == (3, 1.5)
    assert (found.optimizer["param_groups"], found.optimizer["state"].keys()) == (optimizer["param_groups"], {0})
    for name, value in state[0].items():
        assert torch.equal(found.optimizer["state"][0][name], value)
    assert torch.equal(found.model["w"], torch.tensor([1.0, 2.0]))
    assert torch.equal(found.scorer["model"]["v"], torch.tensor(1))
    assert names(tmp_path) == ["checkpoint-000003"]
    assert names(tmp_path / "checkpoint-000003") == [
        "model.safetensors", "optimizer.safetensors", "scorer.safetensors", "seal.json", "state.json"
    ]  # fmt: skip
    assert load_file(tmp_path / "checkpoint-000003" / "model.safetensors").keys() == {"w"}  # as any tool reads it


def test_a_critic_of_an_earlier_version_is_the_scorer(tmp_path: Path) -> None:
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


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for iteration in (9, 10, 100, 1_000_000):
        save_checkpoint(tmp_path, checkpoint(iteration=iteration), keep=3)
    assert names(tmp_path) == ["checkpoint-000010", "checkpoint-000100", "checkpoint-1000000"]
    assert load_checkpoint(tmp_path, IDENTITY).iteration == 1_000_000
    remove_leftovers(tmp_path, keep=1)
    assert names(tmp_path) == ["checkpoint-1000000"]


def test_a_checkpoint_of_the_same_iteration_is_replaced(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint())
    save_checkpoint(tmp_path, checkpoint(model={"w": torch.tensor([5.0, 6.0])}))
    assert load_checkpoint(tmp_path, IDENTITY).model["w"].tolist() == [5.0, 6.0]


def test_no_flipped_bit_goes_unnoticed_and_the_checkpoint_before_is_named(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint(iteration=2))
    save_checkpoint(tmp_path, checkpoint(iteration=3))
    newest = tmp_path / "checkpoint-000003"
    generator = np.random.default_rng(0)
    for name in names(newest):
        path = newest / name
        content = path.read_bytes()
        places = [*generator.integers(8 * len(content), size=60).tolist(), 0, 8 * len(content) - 1]
        for place in places:
            flipped = bytearray(content)
            flipped[place // 8] ^= 1 << place % 8
            path.write_bytes(flipped)
            with pytest.raises(
                ValueError,
                match=r"damaged.*the one before, of iteration 2, is whole: remove .*checkpoint-000003 to go on",
            ):
                load_checkpoint(tmp_path, IDENTITY)
        path.unlink()
        refuses(ValueError, f"damaged.*{name}", load_checkpoint, tmp_path, IDENTITY)
        path.write_bytes(content)
    assert load_checkpoint(tmp_path, IDENTITY).iteration == 3
    (newest / "model.safetensors").write_bytes(b"")
    shutil.rmtree(newest)
    assert load_checkpoint(tmp_path, IDENTITY).iteration == 2


def test_where_the_checkpoint_before_is_damaged_too_the_error_says_so(tmp_path: Path) -> None:
    for iteration in (1, 2):
        save_checkpoint(tmp_path, checkpoint(iteration=iteration))
        path = tmp_path / f"checkpoint-{iteration:06d}" / "state.json"
        path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="there is no other that could be read: train into an empty folder"):
        load_checkpoint(tmp_path, IDENTITY)


#: Calls of the system that writing a checkpoint is made of.
CALLS = ("os.fsync", "os.rename", "os.replace", "os.unlink", "os.rmdir", "os.chmod", "os.mkdir", "os.open")


def at_call(number: int, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something in the place of one of the calls, counted from 0."""
    left = [number]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == -1:
                act()
            return real(*arguments, **named)

        return call

    for name in CALLS:
        module, _, attribute = name.partition(".")
        monkeypatch.setattr(name, counted(getattr(importlib.import_module(module), attribute)))


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_call_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    save_checkpoint(tmp_path / "before", checkpoint(iteration=1))
    if after:
        save_checkpoint(tmp_path / "before", checkpoint(iteration=2))
    for number in range(80):
        folder = shutil.copytree(tmp_path / "before", tmp_path / str(number))
        process = os.fork()
        if not process:
            at_call(number, lambda: os._exit(9), monkeypatch)
            save_checkpoint(folder, checkpoint(iteration=7))
            os._exit(0)
        _, status = os.waitpid(process, 0)
        newest = load_checkpoint(folder, IDENTITY).iteration
        assert newest in ((7, 1 + after) if status else (7,))
        remove_leftovers(folder)
        left = names(folder)
        assert all(load_whole(folder / name) for name in left)
        assert len(left) == (2 if after or newest == 7 else 1)
        if not status:
            break
    assert 15 < number < 79


def load_whole(path: Path) -> bool:
    return damage(path) is None


def test_a_full_disk_at_any_byte_leaves_the_checkpoint(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint())
    size = max(path.stat().st_size for path in (tmp_path / "checkpoint-000003").iterdir())
    for limit in (0, 1, 100, size // 2, size - 80, size - 1):
        process = os.fork()
        if not process:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                save_checkpoint(tmp_path, checkpoint(iteration=4))
            except OSError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
        assert load_checkpoint(tmp_path, IDENTITY).iteration == 3
        assert names(tmp_path) == ["checkpoint-000003"]


def test_missing_broken_and_foreign_folders(tmp_path: Path) -> None:
    refuses(DataError, "no checkpoint in", load_checkpoint, tmp_path, IDENTITY)
    (tmp_path / "checkpoint-000009").mkdir()
    with pytest.raises(ValueError, match=r"not a checkpoint of this trainer: seal.json cannot be read"):
        load_checkpoint(tmp_path, IDENTITY)
    (tmp_path / "checkpoint-000009").rmdir()
    save_checkpoint(tmp_path, checkpoint())
    state = tmp_path / "checkpoint-000003" / "state.json"

    def write(value: Any) -> None:
        state.write_text(json.dumps(value))
        seal(state.parent)

    whole = json.loads(state.read_text())
    write({"weights": 1})
    refuses(ValueError, r"not a checkpoint of this trainer \(KeyError", load_checkpoint, tmp_path, IDENTITY)
    write({**whole, "trees": {**whole["trees"], "model": {"dict": [["w", {"tensor": "v"}]]}}})
    with pytest.raises(
        ValueError, match=r"not a checkpoint of this trainer \(DataError: no tree of tensors, or not all of them: 'v'"
    ):
        load_checkpoint(tmp_path, IDENTITY)
    write({"format": 99, "news": 1})
    refuses(ValueError, "format 99, this version reads 2", load_checkpoint, tmp_path, IDENTITY)


def test_a_checkpoint_file_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    torch.save({"format": 1}, tmp_path / "checkpoint.pt")
    with pytest.raises(
        ValueError, match=r"checkpoint.pt is a checkpoint of an earlier version, a file; .*empty folder"
    ):
        load_checkpoint(tmp_path, IDENTITY)


def test_flat_settings_of_version_0_2_are_read(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint(identity={"config": {"groups": 4, "kl": 0.01, "validate_every": 2}}))
    load_checkpoint(tmp_path, {"config": {"groups": 4, "loss.kl": 0.01, "validation.every": 2}})
    with pytest.raises(ValueError, match=r"config.loss.kl: checkpoint 0.01, here 0.1"):
        load_checkpoint(tmp_path, {"config": {"groups": 4, "loss.kl": 0.1, "validation.every": 2}})


def test_another_run_is_named_field_by_field_and_long_lists_are_cut(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint())
    other = {"model": {"w": "float32[4]"}, "config": {"loss.kl": 0.01}, "method": "grpo()"}
    with pytest.raises(
        ValueError, match=r"model.w: checkpoint float32\[2\], here float32\[4\]\n  method: checkpoint ab"
    ):
        load_checkpoint(tmp_path, other)
    save_checkpoint(tmp_path, checkpoint(identity={f"w{i}": 0 for i in range(11)}))
    refuses(ValueError, "and 3 more", lambda: load_checkpoint(tmp_path, {f"w{i}": 1 for i in range(11)}))


def test_the_description_covers_what_matters_only() -> None:
    def described(policy: Any = None, config: Any = CONFIG, tasks: Any = TASKS) -> dict[str, Any]:
        return describe_run(policy or small_policy(), config, "grpo()", tasks)

    base = described()
    assert differences(base, described(small_policy(seed=3))) == []  # weights are content, not identity
    assert differences(base, described(config=CONFIG.changed(iterations=9, checkpoint={"every": 9}))) == []
    linear = described(config=CONFIG.changed(schedule={"shape": "linear"}))
    longer = described(config=CONFIG.changed(iterations=9, schedule={"shape": "linear"}))
    assert differences(linear, longer) == ["config.iterations: checkpoint 6, here 9"]
    assert [line.split(":")[0] for line in differences(base, described(tasks=TASKS[:2]))] == ["tasks"]
    assert [line.split(":")[0] for line in differences(base, described(small_policy(batch_size=3)))] == [
        "policy.batch_size"
    ]


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_the_first_signal_waits_for_the_block(number: signal.Signals, error: type[BaseException]) -> None:
    before = signal.getsignal(number)
    with deferred() as interruption:
        assert interruption.signal is None
        os.kill(os.getpid(), number)
        assert interruption.signal == number
    assert signal.getsignal(number) is before
    with pytest.raises(error):
        interruption.raise_if_asked()


def test_a_second_ctrl_c_acts_at_once() -> None:
    reached = []

    def block() -> None:
        with deferred():
            for _ in range(3):
                reached.append(True)
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert len(reached) == 2


def test_nothing_asked_nothing_raised() -> None:
    with deferred() as interruption:
        pass
    interruption.raise_if_asked()


def test_other_threads_leave_the_handlers_alone() -> None:
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
    """A policy of one file, which ends in the middle where it is told to."""

    def __init__(self, text: str, error: BaseException | None = None) -> None:
        self.text, self.error = text, error

    def save_pretrained(self, folder: Path) -> None:
        (folder / "config.json").write_text(self.text)
        if self.error is not None:
            raise self.error
        (folder / "model.safetensors").write_text(self.text)


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("error", [OSError("No space left on device"), KeyboardInterrupt()])
def test_a_policy_that_cannot_be_written_leaves_the_one_before(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "final"
    save_policy(Saved("old"), path)
    with pytest.raises(type(error)):
        save_policy(Saved("new", error), path)
    assert texts(path) == {"config.json": "old", "model.safetensors": "old"}
    assert names(tmp_path) == ["final"]
    save_policy(Saved("new"), path)
    assert texts(path) == {"config.json": "new", "model.safetensors": "new"}
    assert names(tmp_path) == ["final"]


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
    pytest.importorskip("peft")
    from policies.lora import LoraSettings, add_lora

    adapted = add_lora(small_policy(), LoraSettings(rank=2, alpha=4.0), seed=0)
    for policy in (small_policy(), adapted, small_policy()):
        for _ in range(2):
            save_policy(policy, tmp_path / "model")
    assert not [each for each in recwarn if "no policy writes" in str(each.message)]
    assert names(tmp_path) == ["model"]
