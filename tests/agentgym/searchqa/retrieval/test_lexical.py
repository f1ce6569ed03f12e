"""A retriever by its name; BM25 in memory and in a folder, against a naive one; Lucene through a foreseen pyserini."""

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.outside.text import DataError
from agentgym.searchqa.official import read_passages
from agentgym.searchqa.retrieval import engines
from agentgym.searchqa.retrieval.engines import LuceneRetriever, find_retriever
from agentgym.searchqa.retrieval.index_folder import build_index, default_folder, main, open_index
from agentgym.searchqa.retrieval.lexical import LexicalRetriever, PassageFile, PassageWriter
from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.searchqa.retriever import Hit, Passage, Retriever, SearchFailure
from tests.agentgym.searchqa.support import WORDS, Titles, ids, naive_scores, random_passages, rows, write_corpus
from tests.cases import cases
from tests.oracles import oracle
from tests.refusals import refuses

PASSAGES = (
    Passage("0", '"Ada Lovelace"\nShe wrote the first program for an engine.'),
    Passage("1", '"Analytical Engine"\nA machine by Babbage, never finished; engines were costly.'),
    Passage("2", '"The Who"\nA band of London.'),
    Passage("3", '"Müller"\nAND OR NOT body:engine "quoted" (brackets) title^2 wild* fuzzy~1'),
)


@pytest.fixture(scope="module")
def retriever() -> LexicalRetriever:
    return LexicalRetriever(PASSAGES)


def test_words_are_stemmed_folded_and_found_in_titles_first(retriever: LexicalRetriever) -> None:
    assert isinstance(retriever, Retriever)
    engines, muller, finished = retriever.search(["ENGINES", "muller", "finishing"], k=4)
    # In passage 1 it is in the title too; passage 0 has 14 words (the title's two count thrice), passage 3 has 15.
    assert (ids(engines), ids(muller), ids(finished)) == (["1", "0", "3"], ["3"], ["1"])
    assert engines[0].passage == PASSAGES[1]
    the, the_band = retriever.search(["the", "the band"], k=4)
    assert set(ids(the)) == {"0", "2"}
    assert ids(the_band) == ["2"]
    assert retriever.search(["", "  ", "?!", "zebra", "x" * 100_000, "日本語"], k=3) == [()] * 6
    assert retriever.search([], k=3) == []
    filler = [f"w{i}" for i in range(128)]
    inside, outside = retriever.search([" ".join([*filler[:127], "ada"]), " ".join([*filler, "ada"])], k=1)
    assert (ids(inside), ids(outside)) == (["0"], [])
    again = pickle.loads(pickle.dumps(retriever))
    assert again.search(["engine", "band"], 3) == retriever.search(["engine", "band"], 3)
    refuses(TypeError, "sequence of strings", retriever.search, "engine", k=3)
    refuses(TypeError, "sequence of strings", retriever.search, ["engine", None], k=3)
    for k in (0, -1, True, 2.0):
        refuses(ValueError, "integer of at least 1", retriever.search, ["engine"], k=k)
    refuses(ValueError, "threads must be an integer of at least 1", LexicalRetriever, PASSAGES, threads=0)


@cases(
    "query",
    'engine"', "body:engine", "+engine -ada", "engine AND (", "engine*", "engine~2", "[engine TO", "engine^9",
    "NOT engine", "\\engine", "engine\x00", "engine \ud800", "/engine/", "{engine}", "IN [engine]", "*", "\nengine",
)  # fmt: skip
def test_no_character_is_query_syntax(retriever: LexicalRetriever, query: str) -> None:
    (found,) = retriever.search([query], k=4)
    (plain,) = retriever.search(["".join(c if c.isalnum() else " " for c in query)], k=4)
    assert found == plain
    assert ("1" in ids(found)) == ("engine" in query)


@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 60),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
    k=st.integers(1, 12),
)
def test_hits_are_those_of_naive_bm25_and_ties_keep_the_order_of_the_corpus(seed, count, query, k) -> None:
    passages = random_passages(count, seed)
    expected = naive_scores(passages, query)
    (found,) = LexicalRetriever(passages).search([query], k)
    assert isinstance(found, tuple)
    positions = [int(hit.passage.id[1:]) for hit in found]
    assert len(found) == min(k, sum(score > 0 for score in expected))
    for hit, position in zip(found, positions, strict=True):
        # Tantivy sums in single precision, and four decimals stay.
        assert hit.score == pytest.approx(expected[position], abs=1e-4)
    ranked = [(-hit.score, p) for hit, p in zip(found, positions, strict=True)]
    assert ranked == sorted(ranked)
    left_out = [score for position, score in enumerate(expected) if position not in positions]
    if len(found) == k and left_out:
        assert max(left_out) <= found[-1].score + 1e-4
        # Of equal passages the first ones are taken.
        tied = [p for p, passage in enumerate(passages) if passage.contents == found[-1].passage.contents]
        assert positions[-1] in tied[: sum(p in positions for p in tied)]


def test_equal_passages_come_in_order_and_threads_and_forks_find_what_one_query_does() -> None:
    same = LexicalRetriever([Passage(f"p{i}", "Ka\nlo") for i in range(1000)])
    assert ids(same.search(["ka"], k=5)[0]) == [f"p{i}" for i in range(5)]
    assert ids(same.search(["lo ka"], k=2000)[0]) == [f"p{i}" for i in range(1000)]
    passages = random_passages(500, seed=3)
    queries = [f"{a} {b}" for a in WORDS for b in WORDS] * 2
    one = LexicalRetriever(passages, threads=1)
    expected = [one.search([query], 3)[0] for query in queries]
    for threads in (1, 2, 5):
        assert LexicalRetriever(passages, threads=threads).search(queries, 3) == expected
    shared = LexicalRetriever(passages, threads=2)
    with ThreadPoolExecutor(4) as pool:
        assert all(found == expected for found in pool.map(lambda _: shared.search(queries, 3), range(8)))
    queries = [f"{a} {b}" for a in WORDS for b in WORDS]
    retriever = LexicalRetriever(random_passages(100, seed=1), threads=2)
    expected = retriever.search(queries, 2)
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[object] = context.Queue()
    process = context.Process(target=lambda: answers.put(retriever.search(queries, 2)))
    process.start()
    assert answers.get(timeout=60) == expected
    process.join()


@pytest.mark.slow
def test_support_recall_on_the_recorded_questions() -> None:
    """Share of the gold passages among the first hits, mean over questions: at least 0.77 at three."""
    retriever = LexicalRetriever(read_passages(oracle("searchqa", "corpus.jsonl.xz")))
    questions = [row for row in rows("questions.jsonl.xz") if row["supporting_ids"]]
    assert len(questions) == 3_455
    found = retriever.search([row["question"] for row in questions], k=10)
    for k, least in ((3, 0.81), (10, 0.90)):
        gold = [set(row["supporting_ids"]) for row in questions]
        shares = [len(set(ids(hits)[:k]) & names) / len(names) for hits, names in zip(found, gold, strict=True)]
        assert sum(shares) / len(shares) >= least


def test_a_passage_file_gives_back_what_was_written_and_a_damaged_row_is_named(tmp_path: Path) -> None:
    texts = ('"Café"\nCoffee."', "No text", 'line\u2028separator\n\x00 "quoted"\n\n', "E\n" + "x" * 70_000)
    written = tuple(Passage(name, text) for name, text in zip("a7üe", texts, strict=True))
    writer = PassageWriter(tmp_path)
    for passage in written:
        writer.append(passage)
    writer.close()
    passages = PassageFile(tmp_path)
    assert (len(passages), tuple(passages)) == (4, written)
    assert (passages[-1], tuple(passages[1:3])) == (written[-1], written[1:3])
    for position in (4, -5):
        refuses(IndexError, f"passage {position} of 4", passages.__getitem__, position)
    for row in (b"[", b'"x"', b"[1, 2]", b'["a", "b", "c"]', b"[" * 100_000, b"\xff"):
        (tmp_path / "passages.jsonl").write_bytes(json.dumps(["a", "A"]).encode() + row)
        ends = (10, 10 + len(row))
        (tmp_path / "passages.ends").write_bytes(b"".join(end.to_bytes(8, "little") for end in ends))
        passages = PassageFile(tmp_path)
        assert passages[0] == Passage("a", "A")
        refuses(ValueError, f"{tmp_path} is damaged: passage 1 is no row of two texts", passages.__getitem__, 1)


FIFTY = random_passages(50, seed=5)
QUERIES = [*WORDS, *(f"{a} {b}" for a in WORDS for b in WORDS)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.jsonl", FIFTY)


@pytest.fixture(scope="module")
def expected() -> list[object]:
    return list(LexicalRetriever(FIFTY).search(QUERIES, 7))


@pytest.mark.parametrize("stretch", [3, 7, 1000])
def test_a_folder_answers_as_memory_does_however_it_is_cut_into_segments(corpus, tmp_path, expected, stretch) -> None:
    retriever = open_index(build_index(corpus, tmp_path / "deep" / "index", stretch=stretch))
    assert retriever.search(QUERIES, 7) == expected
    assert tuple(retriever.passages) == FIFTY
    assert not list(tmp_path.rglob("*.building"))


def test_what_came_after_the_last_stretch_of_a_killed_build_is_done_again(corpus, tmp_path, expected) -> None:
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
    refuses(DataError, "cannot be read", open_index, tmp_path / "index")
    # As a crash could leave it: passages on disk that the index has not.
    with open(tmp_path / "index.building" / "passages.jsonl", "ab") as stream:
        stream.write(b'["half a ')
    calls: list[tuple[int, float]] = []
    for _ in range(2):  # a finished folder is not built again
        build_index(corpus, tmp_path / "index", progress=lambda *call: calls.append(call), stretch=10)
    assert [done for done, _ in calls] == [40, 50, 50]
    shares = [share for _, share in calls]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    retriever = open_index(tmp_path / "index")
    assert tuple(retriever.passages) == FIFTY
    assert retriever.search(QUERIES, 7) == expected


def test_a_bad_row_ends_a_build_and_a_folder_belongs_to_one_state_of_a_corpus(tmp_path: Path, corpus: Path) -> None:
    path = write_corpus(tmp_path / "c.jsonl", FIFTY[:30])
    good = path.read_text(encoding="utf-8")
    path.write_text(good + '{"id": "x"}\n', encoding="utf-8")
    refuses(DataError, "line 31: no field 'contents'", build_index, path, tmp_path / "index", stretch=10)
    path.write_text(good, encoding="utf-8")
    counts: list[int] = []
    build_index(path, tmp_path / "index", progress=lambda done, _: counts.append(done), stretch=10)
    assert counts == [10, 20, 30, 30]
    path.write_text("\n", encoding="utf-8")
    refuses(DataError, "holds no passages", build_index, path, tmp_path / "other")
    write_corpus(path, [*FIFTY[:9], Passage("p4", "again")])
    refuses(DataError, "lines 5 and 10 have the same id 'p4'", build_index, path, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    build_index(corpus, tmp_path / "states")
    before = default_folder(corpus, tmp_path)
    os.utime(corpus, ns=(1, 1))
    refuses(DataError, r"is the index of corpus\.jsonl in another state", build_index, corpus, tmp_path / "states")
    assert default_folder(corpus, tmp_path) != before
    refuses(DataError, "No such file", build_index, tmp_path / "none", tmp_path / "other")


def test_folders_that_are_no_index_are_named(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for make in (open_index, lambda folder: build_index(corpus, folder)):
        refuses(DataError, "expected an index folder", make, tmp_path / "empty")
    folder = build_index(corpus, tmp_path / "index")
    head = json.loads((folder / "index.json").read_text())
    for changed, words in (
        (head | {"version": 99}, "has version 99 of the format"), (head | {"passages": 51}, "50 passages, expected 51"),
        ({"version": 1}, "is something else"), ([], "is something else"), ("[" * 200_000, "cannot be read"),
    ):  # fmt: skip
        (folder / "index.json").write_text(changed if isinstance(changed, str) else json.dumps(changed))
        refuses(DataError, words, open_index, folder)
    (folder / "index.json").write_text(json.dumps(head))
    with open(folder / "passages.jsonl", "ab") as stream:
        stream.write(b"x")
    refuses(DataError, "is damaged", open_index, folder)
    (folder / "passages.ends").write_bytes(b"12345")
    refuses(DataError, "is damaged: 5 bytes", open_index, folder)
    (folder / "passages.ends").unlink()
    refuses(DataError, "is damaged", open_index, folder)


def test_an_index_without_its_files_and_a_build_of_others_are_left_alone(corpus: Path, tmp_path: Path) -> None:
    for i, noted in enumerate(("", "[", "[" * 200_000, "7", "\ufffd")):  # an unfinished build begins anew
        unfinished = tmp_path / f"{i}.building"
        unfinished.mkdir()
        (unfinished / "started.json").write_text(noted)
        (unfinished / "passages.jsonl").write_text("rubbish")
        assert len(open_index(build_index(corpus, tmp_path / str(i))).passages) == len(FIFTY)
    folder = build_index(corpus, tmp_path / "index")
    for path in (folder / "tantivy").iterdir():
        path.unlink()
    refuses(DataError, "is damaged", open_index, folder)
    assert list((folder / "tantivy").iterdir()) == []
    unfinished = tmp_path / "other.building"
    unfinished.mkdir()
    (unfinished / "thesis.txt").write_text("mine")
    words = r"other\.building holds 'thesis\.txt', which belongs to no index"
    refuses(DataError, words, build_index, corpus, tmp_path / "other")
    assert (unfinished / "thesis.txt").read_text() == "mine"


def test_who_comes_second_waits_and_finds_the_folder(corpus: Path, tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()
    counts: list[int] = []

    def slowly(done: int, share: float) -> None:
        counts.append(done)
        begun.set()
        assert go_on.wait(60)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(build_index, corpus, tmp_path / "index", progress=slowly, stretch=25)
        assert begun.wait(60)
        second = pool.submit(build_index, corpus, tmp_path / "index", progress=lambda done, _: counts.append(-done))
        go_on.set()
    assert first.result() == second.result() == tmp_path / "index"
    assert counts == [25, 50, 50]


def test_whoever_may_read_a_folder_may_search_it(corpus: Path, tmp_path: Path, expected: list[object]) -> None:
    folder = build_index(corpus, tmp_path / "index")
    assert len({path.stat().st_mode & 0o444 for path in folder.rglob("*")}) == 1
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


THIRTY = random_passages(30, seed=4)


def test_a_retriever_of_ones_own_and_a_url_are_taken_as_they_are_and_what_cannot_be_is_named(tmp_path: Path) -> None:
    own = Titles()
    assert find_retriever(own, THIRTY) is own
    remote = find_retriever("http://host:9/x", THIRTY)
    assert isinstance(remote, HttpRetriever)
    assert remote.url == "http://host:9/x"
    refuses(ValueError, "did you mean 'lexical'", find_retriever, "lexicl", THIRTY)
    refuses(ValueError, r"must have search\(queries, k\)", find_retriever, 3, THIRTY)
    refuses(DataError, "No such file", find_retriever, "lexical", tmp_path / "none.jsonl")
    refuses(DataError, "holds no passages", find_retriever, "lexical", ())
    refuses(DataError, "same id 'a'", find_retriever, "lexical", [Passage("a", "x"), Passage("a", "y")])
    refuses(ValueError, "expected an index folder", find_retriever, "lexical", tmp_path)
    refuses(DataError, "give its folder as the corpus", find_retriever, "lucene", THIRTY)
    path = tmp_path / "corpus.jsonl"
    path.symlink_to("corpus.jsonl")
    refuses((OSError, ValueError), r"corpus\.jsonl", find_retriever, "lexical", path)


def test_environments_of_a_process_share_one_index_of_a_corpus(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "c.jsonl", THIRTY)
    of_file = find_retriever("lexical", path)
    assert find_retriever("lexical", str(path)) is of_file
    of_passages = find_retriever("lexical", THIRTY)
    assert find_retriever("lexical", THIRTY) is of_passages
    assert find_retriever("lexical", list(THIRTY)) is not of_passages
    folder = build_index(path, tmp_path / "index")
    of_folder = find_retriever("lexical", folder)
    assert find_retriever("lexical", folder) is of_folder
    for retriever in (of_file, of_passages, of_folder, pickle.loads(pickle.dumps(of_folder))):
        assert isinstance(retriever, LexicalRetriever)
        assert retriever.search(WORDS, 3) == LexicalRetriever(THIRTY).search(WORDS, 3)
    write_corpus(path, THIRTY[:10])
    changed = find_retriever("lexical", path)
    assert isinstance(changed, LexicalRetriever)
    assert len(changed.passages) == 10


def test_a_large_corpus_is_indexed_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_MOST_IN_MEMORY", 10)
    path = write_corpus(tmp_path / "c.jsonl", THIRTY)
    monkeypatch.setenv("AGENTGYM_CACHE", "off")
    refuses(DataError, "index_folder CORPUS FOLDER", find_retriever, "lexical", path)
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    retriever = find_retriever("lexical", path)
    assert isinstance(retriever, LexicalRetriever)
    assert isinstance(retriever.passages, PassageFile)
    (folder,) = (tmp_path / "cache").glob("searchqa-c-*[0-9a-f]")
    assert retriever.passages.folder == folder


RAW = {"7": json.dumps({"id": "7", "contents": '"T"\ntext'}), "8": "no JSON", "9": None}


class Searcher:
    """What is used of pyserini's class: its answers depend on the query's words."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def batch_search(self, queries: list[str], qids: list[str], k: int, threads: int) -> dict[str, list[Any]]:
        hits = [[SimpleNamespace(docid=word, score=2.0) for word in query.split() if word in RAW] for query in queries]
        return {name: found[:k] for name, found in zip(qids, hits, strict=True)}

    def doc(self, docid: str) -> Any:
        return SimpleNamespace(raw=lambda: RAW[docid])


class NoJava(ModuleType):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("class file version 65.0")


def test_hits_carry_the_rows_that_the_index_keeps_and_what_is_missing_is_named(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "segments_1").touch()
    module = ModuleType("pyserini.search.lucene")
    module.LuceneSearcher = Searcher  # type: ignore[attr-defined]
    for made in (ModuleType("pyserini"), ModuleType("pyserini.search"), module):
        monkeypatch.setitem(sys.modules, made.__name__, made)
    lucene = find_retriever("lucene", tmp_path)
    assert isinstance(lucene, Retriever)
    seven, eight = Hit(Passage("7", '"T"\ntext'), 2.0), Hit(Passage("8", "no JSON"), 2.0)
    queries: Sequence[str] = ["8 7", "none", " ", "7 8", "8 7", "7 \ud800"]
    assert lucene.search(queries, 1) == [(eight,), (), (), (seven,), (eight,), (seven,)]
    assert (lucene.search(["7 8"], 2), lucene.search([], 2)) == ([(seven, eight)], [])
    found, other = LuceneRetriever(tmp_path).search(["7 9", "7"], 3)
    assert isinstance(found, SearchFailure)
    assert "--storeRaw" in found.reason
    assert isinstance(other, tuple)
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", NoJava("pyserini.search.lucene"))
    words = r"Java does not start: it needs 21 or later \(class file version 65"
    refuses(ImportError, words, LuceneRetriever, tmp_path)
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", None)
    refuses(ImportError, r"needs pyserini: pip install .*\[search\]", LuceneRetriever, tmp_path)
    (tmp_path / "segments_1").unlink()
    refuses(ValueError, "is no Lucene index", LuceneRetriever, tmp_path)
