"""Files that are there whole or not at all, locks, answers that are kept, and what is left when a process is killed."""

import contextlib
import hashlib
import json
import multiprocessing
import os
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentgym.outside import files as disk_cache
from agentgym.outside.chat.answer_cache import AnswerCache
from agentgym.outside.files import cache_folder, fingerprint, locked, new_file, new_folder, write_file
from tests.processes import ROOT
from tests.refusals import refuses


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Run a script in another process; it prints a line when it has come to its point."""
    command = [sys.executable, "-c", f"import sys, time\nfrom pathlib import Path\n{script}", *map(str, arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_folders_by_argument_variable_and_default_and_fingerprints_of_facts(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("AGENTGYM_CACHE", raising=False)
    assert cache_folder() == cache_folder(True) == tmp_path / "xdg" / "agentgym"
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "mine"))
    assert (cache_folder(), cache_folder(tmp_path)) == (tmp_path / "mine", tmp_path)
    assert cache_folder("here") == Path.cwd() / "here"
    monkeypatch.setenv("AGENTGYM_CACHE", "off")
    assert cache_folder() is cache_folder(False) is cache_folder("off") is None
    for wrong in (3, b"x", ""):
        refuses(ValueError, "cache must be a folder", cache_folder, wrong)
    path = tmp_path / "x"
    path.write_bytes(b"1")
    facts = ("a", "b"), ("ab",), ("a\nb",), ("a", "b", ""), ("\ud800",), (3,), ()
    prints = [fingerprint(path), *(fingerprint(*each) for each in facts)]
    path.write_bytes(b"12")
    prints.append(fingerprint(path))
    assert len(set(prints)) == len(prints)
    assert all(len(print_) == 16 for print_ in prints)
    assert fingerprint("a", 3) == fingerprint("a", "3")
    refuses(FileNotFoundError, "No such file", fingerprint, tmp_path / "none")


def test_a_block_that_fails_leaves_the_old_file_and_a_new_one_has_the_rights_of_any_other(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x"
    write_file(path, b"old")
    with contextlib.suppress(RuntimeError), new_file(path) as stream:
        stream.write(b"new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]
    for path in (Path(os.devnull), tmp_path):
        refuses(FileExistsError, "is not a regular file", write_file, path, b"x")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    (tmp_path / "plain").write_bytes(b"")
    write_file(tmp_path / "x", b"1")
    with new_folder(tmp_path / "folder"):
        pass
    (tmp_path / "plain folder").mkdir()
    for one, other in (("x", "plain"), ("folder", "plain folder")):
        assert stat.S_IMODE((tmp_path / one).stat().st_mode) == stat.S_IMODE((tmp_path / other).stat().st_mode)
    (tmp_path / "link").symlink_to(tmp_path / "x")
    write_file(tmp_path / "link", b"2")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "x").read_bytes() == b"2"
    (tmp_path / "loop").symlink_to("loop")  # it was a RuntimeError of the standard library
    write_file(tmp_path / "loop", b"1")
    assert (tmp_path / "loop").read_bytes() == b"1"


def test_two_folders_the_second_finds_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with new_folder(folder) as one:
        (one / "x").write_text("first")
        with new_folder(folder) as two:
            (two / "x").write_text("second")
        assert (folder / "x").read_text() == "second"
    assert (folder / "x").read_text() == "second"
    assert list(tmp_path.iterdir()) == [folder]
    with contextlib.suppress(RuntimeError), new_folder(tmp_path / "failed") as three:
        (three / "x").write_text("x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("kind", ["new_file", "new_folder"])
def test_a_writer_killed_in_the_middle_leaves_the_old_state_and_its_rest_is_swept(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x[1]"
    if kind == "new_file":
        path.write_bytes(b"old")
    writer = start(
        f"from agentgym.outside.files import {kind}\n"
        f"with {kind}(Path(sys.argv[1])) as new:\n"
        "    new.write(b'half') if hasattr(new, 'write') else (new / 'half').write_text('half')\n"
        "    print('inside', flush=True); time.sleep(60)",
        path,
    )
    assert writer.stdout.readline() == "inside\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert (path.read_bytes() == b"old") if kind == "new_file" else not path.exists()
    (left,) = [each for each in tmp_path.iterdir() if each != path]
    assert left.name.startswith(".x[1].")
    assert left.name.endswith(".partial")

    (tmp_path / ".x[1].mine").write_text("nobody's rest")
    for old in (False, True):  # what is new may be somebody's who still writes
        if old:
            os.utime(left, (0, 0))
        with getattr(disk_cache, kind)(path):
            pass
        assert left.exists() != old
    assert (tmp_path / ".x[1].mine").exists()


def test_a_file_that_need_not_last_appears_whole_without_a_look_at_its_folder(tmp_path: Path) -> None:
    rest = tmp_path / ".x.1.partial"
    rest.write_text("of a writer that was killed")
    os.utime(rest, (0, 0))
    write_file(tmp_path / "x", b"old", lasting=False)
    write_file(tmp_path / "x", b"new", lasting=False)
    assert (tmp_path / "x").read_bytes() == b"new"
    assert {path.name for path in tmp_path.iterdir()} == {"x", rest.name}
    write_file(tmp_path / "x", b"newer")
    assert not rest.exists()


def test_a_lock_names_who_holds_it_until_it_is_killed_and_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "run" / "lock"
    holder = start(
        "from agentgym.outside.files import locked\n"
        "with locked(Path(sys.argv[1])): print('inside', flush=True); time.sleep(60)",
        path,
    )
    assert holder.stdout.readline() == "inside\n"
    refuses(disk_cache.LockedError, rf"run is in use by process {holder.pid} on ", locked(path, wait=False).__enter__)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with locked(path, wait=False):
        assert path.read_text().startswith(f"process {os.getpid()} on ")
        refuses(disk_cache.LockedError, f"process {os.getpid()}", locked(path, wait=False).__enter__)
    assert path.read_text() == ""
    with pytest.raises(RuntimeError), locked(path):
        raise RuntimeError
    with locked(path, wait=False):
        pass
    path = tmp_path / "lock"
    script = (
        "from agentgym.outside.files import locked\n"
        "counter = Path(sys.argv[2])\n"
        "for _ in range(20):\n"
        "    with locked(Path(sys.argv[1])):\n"
        "        number = int(counter.read_text()); time.sleep(0.001); counter.write_text(str(number + 1))"
    )
    counter = tmp_path / "counter"
    counter.write_text("0")
    workers = [start(script, path, counter) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert counter.read_text() == "60"


@pytest.mark.parametrize("name", ["../outside.txt", "x" * 5000, "sub", ""])
def test_a_seal_that_names_what_is_no_file_of_the_folder_says_so(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    outside = tmp_path / "outside.txt"
    outside.write_text("here")
    (folder / "seal.json").write_text(json.dumps({name: [4, hashlib.blake2b(b"here", digest_size=16).hexdigest()]}))
    assert (disk_cache.damage(folder) or "").endswith("is missing")


@pytest.mark.parametrize("exchanged", [True, False])
def test_a_folder_that_replaces_another_leaves_nothing_of_it(tmp_path: Path, monkeypatch, exchanged: bool) -> None:
    if not exchanged:  # as on systems that cannot
        monkeypatch.setattr("agentgym.outside.files._exchange", lambda one, other: False)
    folder = tmp_path / "model"
    for name in ("first", "second"):
        with new_folder(folder, replace=True) as new:
            (new / name).write_text(name)
            assert not folder.exists() or (folder / "first").exists()
    assert [path.name for path in folder.iterdir()] == ["second"]
    with contextlib.suppress(RuntimeError), new_folder(folder, replace=True) as new:
        (new / "third").write_text("x")
        raise RuntimeError
    assert [path.name for path in folder.iterdir()] == ["second"]
    assert list(tmp_path.iterdir()) == [folder]


#: Kills itself before the step of this number of those that change what names there are.
_KILLED = """
import os, signal, shutil, agentgym.outside.files as cache
left = int(sys.argv[2])
def counted(step):
    def call(*given, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*given, **options)
    return call
swap = cache._exchange if sys.argv[3] == "exchanged" else (lambda one, other: False)
cache._exchange, Path.rename, shutil.rmtree = counted(swap), counted(Path.rename), counted(shutil.rmtree)
with cache.new_folder(Path(sys.argv[1]), replace=True) as new:
    for name in "ab":
        (new / name).write_text("new")
print("done")
"""


@pytest.mark.parametrize("how", ["exchanged", "in two steps"])
def test_a_kill_at_any_step_of_a_replacement_leaves_the_old_folder_or_the_new_one(tmp_path: Path, how: str) -> None:
    seen = []
    for step in range(9):
        folder = tmp_path / str(step) / "model"
        folder.mkdir(parents=True)
        for name in "ab":
            (folder / name).write_text("old")
        done = start(_KILLED, folder, str(step), how).wait() == 0
        if how == "exchanged":
            assert folder.is_dir()
        disk_cache.restore_folder(folder)
        texts = {path.read_text() for path in folder.iterdir()}
        assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]
        assert texts in ({"old"}, {"new"})
        seen += texts
        if done:
            break
    assert done
    assert set(seen) == {"old", "new"}


def test_values_come_back_the_first_one_stays_and_a_broken_transaction_leaves_nothing(tmp_path: Path) -> None:
    values = {f"k{i}": {"text": "é\ud800\u2028\x00 " * (i % 3), "number": i} for i in range(1_234)}
    AnswerCache(tmp_path / "new").store(values)
    cache = AnswerCache(tmp_path / "new")
    assert len(cache) == 1_234
    clean = {f"k{i}": {"text": "é\ufffd\u2028\ufffd " * (i % 3), "number": i} for i in range(1_234)}
    assert (cache.load([*values, "unknown", "k0"]), cache.load([])) == (clean, {})
    cache = AnswerCache(tmp_path)
    cache.store({"a": 1})
    cache.store({"a": 2, "b": 3})
    assert pickle.loads(pickle.dumps(cache)).load(["a", "b"]) == {"a": 1, "b": 3}
    cache = AnswerCache(tmp_path / "broken")
    cache.store({})
    with pytest.raises(TypeError):
        cache.store({"a": 1, "b": object()})
    with pytest.raises(sqlite3.Error):
        cache.store({"a": 1, ("b",): 2})  # type: ignore[dict-item]
    assert len(cache) == 0


def _write(folder: str, writer: int, inherited: AnswerCache | None) -> None:
    cache = inherited or AnswerCache(folder)
    for i in range(40):
        cache.store({f"{writer} {i}": [writer, i], f"shared {i}": "same"})
        assert cache.load([f"shared {i}"]) == {f"shared {i}": "same"}


@pytest.mark.parametrize("inherit", [False, True])
def test_processes_share_the_file(tmp_path: Path, inherit: bool) -> None:
    context: Any = multiprocessing.get_context("fork" if inherit else "spawn")
    cache = AnswerCache(tmp_path)
    cache.store({"here": 1})  # the connection is open when the process forks
    given = cache if inherit else None
    writers = [context.Process(target=_write, args=(str(tmp_path), i, given)) for i in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert len(cache) == 4 * 40 + 40 + 1


def test_another_file_is_named_and_one_that_cannot_be_opened_is_not_called_damaged(tmp_path: Path) -> None:
    # The advice was to remove it, whatever the reason.
    path = tmp_path / "answers.sqlite3"
    path.write_bytes(b"something else entirely" * 100)
    refuses(ValueError, r"answers\.sqlite3 cannot be used as a cache of answers", AnswerCache(tmp_path).load, ["a"])
    path.unlink()
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE answers (other TEXT)")
    refuses(ValueError, r"answers\.sqlite3 cannot be used as a cache of answers", AnswerCache(tmp_path).load, ["a"])
    path.unlink()
    path.mkdir()
    words = r"answers\.sqlite3: unable to open database file; name a folder that can be"
    refuses(OSError, words, AnswerCache(tmp_path).load, ["a"])
