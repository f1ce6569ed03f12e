"""Trials of folders in a bad state, and of several writers at once: links that lead in circles, nowhere
or out, and what may not be read or written.

Each is tried in a process of its own, which has no more rights than the files give it and is ended when it hangs.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gymnasium as gym
from hypothesis import strategies as st

from agentgym.outside.files import LockedError, locked, write_file
from tests.robustness.damage import check_words, put
from tests.robustness.files import FORMATS, NEEDS
from tests.robustness.trial import Trial, record

#: What is done to a path of a folder of files. A pipe in the place of a file that is named by its path is read: it is
#: how shells hand over what a program prints.
DEEDS = (
    "to itself", "to nothing", "to its folder", "to a copy", "to another", "a folder", "empty", "unreadable",
    "a folder that may not be listed", "a folder that may not be entered",
)  # fmt: skip
#: What is put beside the files.
STRANGERS = ("self", "up", "nowhere", "here", "pipe", "away")
_PATIENCE = 60


def without_privileges() -> None:
    """Give up what only the administrator may: permissions of files hold from here on."""
    if os.geteuid() == 0:
        head, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None, use_errno=True).capset(head, none) == 0


def tried(work: Callable[[], None]) -> str:
    """Do something in a process without privileges; "" when it ended well, else what was wrong."""

    def run(pipe: int) -> None:
        without_privileges()
        signal.alarm(_PATIENCE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                work()
            except Exception:
                os.write(pipe, traceback.format_exc(limit=-6)[-3_000:].encode("utf-8", "replace"))

    process, pipe = in_child(run)
    with os.fdopen(pipe, "rb") as stream:
        words = stream.read().decode()
    status = os.waitpid(process, 0)[1]
    return words or (f"the process ended with status {status} (it hung?)" if status else "")


def spoil(path: Path, deed: str, beside: Path) -> None:
    """Do one of the deeds to a file, or to the folder it is in."""
    if deed.startswith("a folder that"):
        path.parent.chmod(0o311 if deed.endswith("listed") else 0o644)
        return
    if deed == "unreadable":
        path.chmod(0)
        return
    content = path.read_bytes()
    path.unlink()
    if deed == "a folder":
        path.mkdir()
    elif deed == "empty":
        path.touch()
    else:
        copy, others = beside / "away" / path.name, sorted(each for each in path.parent.iterdir() if each.is_file())
        if deed == "to a copy":
            put(copy, content)
        leads = {"to itself": path.name, "to nothing": "nowhere", "to its folder": ".", "to a copy": copy}
        path.symlink_to(leads.get(deed, [*others, "nowhere"][0]))


def strange(folder: Path, kinds: Iterable[str], away: Path) -> None:
    """Put links and pipes into a folder and all in it."""
    for place in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        for kind in kinds:
            if kind == "pipe":
                os.mkfifo(place / kind)
            else:
                leads = {"self": "self", "up": "..", "nowhere": "not there", "here": ".", "away": str(away)}[kind]
                (place / kind).symlink_to(leads)


def check(given: dict[str, Any]) -> None:
    """The folder is read, or refused by name; what a link leads to is as it was."""
    form = FORMATS[given["format"]]
    with tempfile.TemporaryDirectory() as name:
        folder, away = form.written(Path(name) / "given"), Path(name) / "away"
        put(away / "theirs.txt", b"theirs")
        strange(folder, given["strangers"], away)
        for number, deed in given["deeds"]:
            path = folder / sorted(form.make())[number % len(form.make())]
            if path.is_file() and not path.is_symlink():
                spoil(path, deed, Path(name))

        def load() -> None:
            try:
                form.load(folder)
            except (ValueError, OSError) as error:
                check_words(error, name)

        wrong = tried(load)
        for path in (folder, *folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        assert not wrong, wrong
        assert (away / "theirs.txt").read_bytes() == b"theirs"


# Folders that may not be written to


def check_cache(given: dict[str, Any]) -> None:
    """Without a cache that can be written an environment plays all the same, or says which folder it is about."""
    with tempfile.TemporaryDirectory() as name:
        data, cache = FORMATS["games"].written(Path(name) / "data"), Path(name) / "cache"
        cache.mkdir()
        place = {"a folder": cache, "below it": cache / "new" / "folder", "a file": Path(name) / "file"}[given["place"]]
        put(Path(name) / "file", b"")
        if given["filled"]:
            in_cache(given["env"], data, cache)
        for path in (cache, *cache.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)

        def load() -> None:
            try:
                in_cache(given["env"], data, place)
            except (ValueError, OSError) as error:
                check_words(error, name)

        wrong = tried(load)
        for path in (cache, *cache.rglob("*")):
            path.chmod(0o755)
        shutil.rmtree(cache)
        assert not wrong, wrong


def in_cache(kind: str, data: Path, cache: Path) -> None:
    """Use what is kept in a folder of caches."""
    from agentgym.outside.chat.answer_cache import AnswerCache
    from agentgym.webshop import shop

    if kind == "answers":
        answers = AnswerCache(cache)
        assert answers.load(["k"]) in ({}, {"k": 1})
        answers.store({"k": 1} if not answers.load(["k"]) else {})
    elif kind == "games":
        env: Any = gym.make("AgentRL/ALFWorld-v0", data=data, cache=cache, split="train", disable_env_checker=True)
        env.reset(seed=0)
    else:
        large, shop.LARGE_SHOP = shop.LARGE_SHOP, 3
        shop.open_catalogue.cache_clear()
        shop.open_search.cache_clear()
        shop.open_tasks.cache_clear()
        try:
            env = gym.make("AgentRL/WebShop-v0", num_products=12, cache=cache, disable_env_checker=True)
            env.reset(seed=0)
        finally:
            shop.LARGE_SHOP = large


_deeds = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(DEEDS)).map(list), min_size=1, max_size=2)
_strangers = st.lists(st.sampled_from(STRANGERS), unique=True, max_size=3)
_cached = record(
    env=st.sampled_from(["games", "shop", "answers"]), place=st.sampled_from(["a folder", "below it", "a file"]),
    filled=st.booleans(),
)  # fmt: skip
TRIALS = [
    *(
        Trial(
            f"disks/{kind}", record(format=st.just(kind), deeds=_deeds, strangers=_strangers), check, 8, cheap=False,
            needs=NEEDS.get(kind, ()),
        )
        for kind in FORMATS
    ),
    Trial("disks/cache", _cached, check_cache, 8, cheap=False),
]  # fmt: skip


def in_child(work: Callable[[int], None]) -> tuple[int, int]:
    """Run something in a forked process; return its id and the end of the pipe that it may write to."""
    read, write = os.pipe()
    process = os.fork()
    if process:
        os.close(write)
        return process, read
    try:  # the child: no cleaning up after the parent's open things
        os.close(read)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            work(write)
        os._exit(0)
    except BaseException:
        os._exit(1)


def reported(pipe: int) -> int:
    """How many bytes the child has written: one for each thing that it had finished."""
    with os.fdopen(pipe, "rb") as stream:
        return len(stream.read())


def check_writers(sizes: list[int]) -> None:
    """Several processes write one file and take one lock: the file is one writer's, and the lock is held by one."""

    def work(size: int, letter: bytes) -> Callable[[int], None]:
        def run(pipe: int) -> None:
            for _ in range(10):
                write_file(path, letter * size)
                try:
                    with locked(lock, wait=False):
                        before = counter.read_bytes()
                        time.sleep(0.001)
                        write_file(counter, before + b".")
                        os.write(pipe, b".")
                except LockedError:
                    pass

        return run

    with tempfile.TemporaryDirectory() as name:
        path, lock, counter = (Path(name) / each for each in ("x", "lock", "counter"))
        counter.write_bytes(b"")
        children = [in_child(work(size, b"abcd"[i : i + 1])) for i, size in enumerate(sizes)]
        taken = sum(reported(pipe) for _, pipe in children)
        assert [os.waitpid(process, 0)[1] for process, _ in children] == [0] * len(children)
        assert path.read_bytes() in [b"abcd"[i : i + 1] * size for i, size in enumerate(sizes)]
        assert len(counter.read_bytes()) == taken
        assert sorted(each.name for each in Path(name).iterdir()) == ["counter", "lock", "x"]


TRIALS.append(
    Trial("crashes/writers", st.lists(st.integers(0, 300_000), min_size=2, max_size=4), check_writers, 4, cheap=False)
)
