import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentgym.outside.text import DataError
from agentgym.searchqa.retrieval.index_folder import build_index, default_folder, main, open_index
from agentgym.searchqa.retrieval.lexical import LexicalRetriever
from agentgym.searchqa.retriever import Passage
from tests.agentgym.searchqa.support import WORDS, random_passages, write_corpus
from tests.refusals import refuses

PASSAGES = random_passages(50, seed=5)
QUERIES = [*WORDS, *(f"{a} {b}" for a in WORDS for b in WORDS)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.jsonl", PASSAGES)


@pytest.fixture(scope="module")
def expected() -> list[object]:
    return list(LexicalRetriever(PASSAGES).search(QUERIES, 7))


@pytest.mark.parametrize("stretch", [3, 7, 1000])
def test_a_folder_answers_as_memory_does_however_it_is_cut_into_segments(
    corpus: Path, tmp_path: Path, expected: list[object], stretch: int
) -> None:
    folder = build_index(corpus, tmp_path / "deep" / "index", stretch=stretch)
    retriever = open_index(folder)
    assert retriever.search(QUERIES, 7) == expected
    assert tuple(retriever.passages) == PASSAGES
    assert not list(tmp_path.rglob("*.building"))


def test_a_finished_folder_is_not_built_again(corpus: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, float]] = []
    for _ in range(2):
        build_index(corpus, tmp_path / "index", progress=lambda *call: calls.append(call), stretch=20)
    assert [done for done, _ in calls] == [20, 40, 50]
    shares = [share for _, share in calls]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_an_interrupted_build_goes_on_where_it_was(corpus: Path, tmp_path: Path, expected: list[object]) -> None:
    def interrupt(done: int, share: float) -> None:
        if done == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(corpus, tmp_path / "index", progress=interrupt, stretch=10)
    assert not (tmp_path / "index").exists()
    refuses(DataError, "cannot be read", open_index, tmp_path / "index")
    counts: list[int] = []
    build_index(corpus, tmp_path / "index", progress=lambda done, _: counts.append(done), stretch=10)
    assert counts == [40, 50, 50]
    assert open_index(tmp_path / "index").search(QUERIES, 7) == expected


def test_what_came_after_the_last_stretch_of_a_killed_build_is_done_again(
    corpus: Path, tmp_path: Path, expected: list[object]
) -> None:
    program = f"""
import os
from agentgym.searchqa import official
from agentgym.searchqa.retrieval import index_folder
take = official.PassageReader._passage
def killed(self, line):
    if self.line == 36:
        os._exit(9)
    return take(self, line)
official.PassageReader._passage = killed
index_folder.build_index({str(corpus)!r}, {str(tmp_path / "index")!r}, stretch=10)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
    # As a crash could leave it: passages on disk that the index has not.
    with open(tmp_path / "index.building" / "passages.jsonl", "ab") as stream:
        stream.write(b'["half a ')
    counts: list[int] = []
    build_index(corpus, tmp_path / "index", progress=lambda done, _: counts.append(done), stretch=10)
    assert counts == [40, 50, 50]
    retriever = open_index(tmp_path / "index")
    assert tuple(retriever.passages) == PASSAGES
    assert retriever.search(QUERIES, 7) == expected


def test_a_bad_row_ends_a_build_and_a_changed_corpus_begins_a_new_one(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "c.jsonl", PASSAGES[:30])
    good = path.read_text(encoding="utf-8")
    path.write_text(good + '{"id": "x"}\n', encoding="utf-8")
    refuses(DataError, "line 31: no field 'contents'", build_index, path, tmp_path / "index", stretch=10)
    path.write_text(good, encoding="utf-8")
    counts: list[int] = []
    build_index(path, tmp_path / "index", progress=lambda done, _: counts.append(done), stretch=10)
    assert counts == [10, 20, 30, 30]
    path.write_text("\n", encoding="utf-8")
    refuses(DataError, "holds no passages", build_index, path, tmp_path / "other")


def test_a_folder_belongs_to_one_state_of_a_corpus(corpus: Path, tmp_path: Path) -> None:
    build_index(corpus, tmp_path / "index")
    before = default_folder(corpus, tmp_path)
    os.utime(corpus, ns=(1, 1))
    refuses(DataError, r"is the index of corpus\.jsonl in another state", build_index, corpus, tmp_path / "index")
    assert default_folder(corpus, tmp_path) != before
    refuses(DataError, "No such file", build_index, tmp_path / "none", tmp_path / "other")


def test_folders_that_are_no_index_are_named(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for make in (open_index, lambda folder: build_index(corpus, folder)):
        refuses(DataError, "expected an index folder", make, tmp_path / "empty")
    folder = build_index(corpus, tmp_path / "index")
    head = json.loads((folder / "index.json").read_text())
    for changed, words in (
        (head | {"version": 99}, "has version 99 of the format"),
        (head | {"passages": 51}, "50 passages, expected 51"),
        ({"version": 1}, "is something else"),
        ([], "is something else"),
        ("[" * 200_000, "cannot be read"),
    ):
        (folder / "index.json").write_text(changed if isinstance(changed, str) else json.dumps(changed))
        refuses(DataError, words, open_index, folder)
    (folder / "index.json").write_text(json.dumps(head))
    (folder / "passages.ends").write_bytes(b"12345")
    refuses(DataError, "is damaged", open_index, folder)
    (folder / "passages.ends").unlink()
    refuses(DataError, "is damaged", open_index, folder)


@pytest.mark.parametrize("noted", ["", "[", "[" * 200_000, "7", "\ufffd"])
def test_an_unfinished_build_whose_note_is_damaged_begins_anew(corpus: Path, tmp_path: Path, noted: str) -> None:
    unfinished = tmp_path / "index.building"
    unfinished.mkdir()
    (unfinished / "started.json").write_text(noted)
    (unfinished / "passages.jsonl").write_text("rubbish")
    assert len(open_index(build_index(corpus, tmp_path / "index")).passages) == len(PASSAGES)


def test_an_index_without_its_files_and_a_build_of_others_are_left_alone(corpus: Path, tmp_path: Path) -> None:
    folder = build_index(corpus, tmp_path / "index")
    for path in (folder / "tantivy").iterdir():
        path.unlink()
    refuses(DataError, "is damaged", open_index, folder)
    assert list((folder / "tantivy").iterdir()) == []
    unfinished = tmp_path / "other.building"
    unfinished.mkdir()
    (unfinished / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=r"other\.building holds 'thesis\.txt', which belongs to no index"):
        build_index(corpus, tmp_path / "other")
    assert (unfinished / "thesis.txt").read_text() == "mine"


def test_who_comes_second_waits_and_finds_the_folder(corpus: Path, tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()
    counts: list[int] = []

    def slowly(done: int, share: float) -> None:
        counts.append(done)
        begun.set()
        assert go_on.wait(60)

    def second() -> None:
        build_index(corpus, tmp_path / "index", progress=lambda done, _: counts.append(-done), stretch=25)

    threads = [
        threading.Thread(
            target=build_index, args=(corpus, tmp_path / "index"), kwargs={"progress": slowly, "stretch": 25}
        ),
        threading.Thread(target=second),
    ]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert counts == [25, 50, 50]


def test_an_id_belongs_to_one_passage(tmp_path: Path) -> None:
    twice = [*PASSAGES[:9], Passage("p4", "again")]
    with pytest.raises(DataError, match="lines 5 and 10 have the same id 'p4'"):
        build_index(write_corpus(tmp_path / "c.jsonl", twice), tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_whoever_may_read_a_folder_may_search_it(corpus: Path, tmp_path: Path, expected: list[object]) -> None:
    folder = build_index(corpus, tmp_path / "index")
    assert {path.stat().st_mode & 0o444 for path in folder.rglob("*")} == {
        (folder / "index.json").stat().st_mode & 0o444
    }
    program = f"""
import os, sys, tempfile
from pathlib import Path
os.access = lambda path, mode: False
from agentgym.searchqa.retrieval.index_folder import open_index
before = sorted(Path({str(folder)!r}).rglob("*"))
retriever = open_index({str(folder)!r})
assert not [name for name in os.listdir(tempfile.gettempdir())], "the links are still there"
print(retriever.search({QUERIES!r}, 7))
assert sorted(Path({str(folder)!r}).rglob("*")) == before
"""
    (tmp_path / "links").mkdir()
    found = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(tmp_path / "links")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == repr(expected)


def test_the_command(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(corpus), str(tmp_path / "index")]) == 0
    assert "50 passages, 100% of the file" in capsys.readouterr().err
    assert len(open_index(tmp_path / "index").passages) == 50
    assert main([str(tmp_path / "none"), str(tmp_path / "other")]) == 1
    assert "No such file" in capsys.readouterr().err
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
