import multiprocessing
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentgym.outside.chat.answer_cache import AnswerCache
from tests.refusals import refuses


def test_values_come_back_in_any_number_and_the_first_one_stays(tmp_path: Path) -> None:
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


def test_a_transaction_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path)
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


def test_another_file_in_its_place_is_named_and_one_that_cannot_be_opened_is_not_said_to_be_damaged(
    tmp_path: Path,
) -> None:
    """The advice was to remove it, whatever the reason."""
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
