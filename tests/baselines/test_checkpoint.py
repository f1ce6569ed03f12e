"""Checkpoints: complete, atomic, and refused where they do not belong."""

import hashlib
import importlib
import os
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from baselines.checkpoint import (
    Checkpoint,
    deferred,
    describe_run,
    differences,
    load_checkpoint,
    remove_leftovers,
    save_checkpoint,
)
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
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["iteration"] == 3  # a file of torch still


def test_no_flipped_bit_goes_unnoticed_and_the_checkpoint_before_is_named(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint(iteration=2))
    save_checkpoint(tmp_path, checkpoint(iteration=3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.previous.pt", "checkpoint.pt"]
    path = tmp_path / "checkpoint.pt"
    content = path.read_bytes()
    generator = np.random.default_rng(0)
    places = [*generator.integers(8 * len(content), size=200).tolist(), 0, 8 * len(content) - 1]
    for place in places:
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(
            ValueError, match=r"damaged.*the one before, of iteration 2, is whole: rename .*checkpoint\.previous\.pt to"
        ):
            load_checkpoint(tmp_path, IDENTITY)
    (tmp_path / "checkpoint.previous.pt").rename(path)
    assert load_checkpoint(tmp_path, IDENTITY).iteration == 2


def test_where_the_checkpoint_before_is_damaged_too_the_error_says_so(tmp_path: Path) -> None:
    for iteration in (1, 2):
        save_checkpoint(tmp_path, checkpoint(iteration=iteration))
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="there is no other that could be read: train into an empty folder"):
        load_checkpoint(tmp_path, IDENTITY)


def test_a_file_system_without_hard_links_keeps_the_checkpoint_before_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError("operation not permitted")

    monkeypatch.setattr("os.link", unsupported)
    for iteration in (1, 2, 3):
        save_checkpoint(tmp_path, checkpoint(iteration=iteration))
    assert load_checkpoint(tmp_path, IDENTITY).iteration == 3
    (tmp_path / "checkpoint.previous.pt").replace(tmp_path / "checkpoint.pt")
    assert load_checkpoint(tmp_path, IDENTITY).iteration == 2


#: Calls of the system that writing a checkpoint is made of.
CALLS = ("os.fsync", "os.link", "os.replace", "os.unlink", "os.chmod", "os.fdopen")


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
    for number in range(12):
        folder = tmp_path / str(number)
        save_checkpoint(folder, checkpoint(iteration=1))
        if after:
            save_checkpoint(folder, checkpoint(iteration=2))
        process = os.fork()
        if not process:
            at_call(number, lambda: os._exit(9), monkeypatch)
            save_checkpoint(folder, checkpoint(iteration=7))
            os._exit(0)
        _, status = os.waitpid(process, 0)
        newest = load_checkpoint(folder, IDENTITY).iteration
        assert newest in ((7, 1 + after) if status else (7,))
        remove_leftovers(folder)
        (folder / "checkpoint.pt").unlink()
        if (folder / "checkpoint.previous.pt").exists():
            (folder / "checkpoint.previous.pt").rename(folder / "checkpoint.pt")
            assert load_checkpoint(folder, IDENTITY).iteration in (1, 2)
        assert [path.name for path in folder.iterdir()] in ([], ["checkpoint.pt"])
        if not status:
            break
    assert 5 <= number < 11


def test_a_full_disk_at_any_byte_leaves_the_checkpoint(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint())
    size = (tmp_path / "checkpoint.pt").stat().st_size
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
        assert (
            "checkpoint.pt" in {path.name for path in tmp_path.iterdir()} <= {"checkpoint.pt", "checkpoint.previous.pt"}
        )


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

    def write(value: Any) -> None:
        torch.save(value, path)
        data = path.read_bytes()
        path.write_bytes(data + b"\nsha256 " + hashlib.sha256(data).hexdigest().encode())

    torch.save({"weights": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="not a checkpoint of this trainer: the digest at its end does not fit"):
        load_checkpoint(tmp_path, IDENTITY)
    write({"weights": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"not a checkpoint of this trainer \(KeyError"):
        load_checkpoint(tmp_path, IDENTITY)
    write({"format": 99, "news": 1})
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
