"""A retriever by its name, and Lucene through a pyserini that a test foresees."""

import json
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from agentgym.outside.text import DataError
from agentgym.searchqa.retrieval import engines
from agentgym.searchqa.retrieval.engines import LuceneRetriever, find_retriever
from agentgym.searchqa.retrieval.index_folder import build_index
from agentgym.searchqa.retrieval.lexical import LexicalRetriever, PassageFile
from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.searchqa.retriever import Hit, Passage, Retriever, SearchFailure
from tests.agentgym.searchqa.support import WORDS, Titles, random_passages, write_corpus
from tests.refusals import refuses

PASSAGES = random_passages(30, seed=4)


def test_a_retriever_of_ones_own_and_a_url_are_taken_as_they_are() -> None:
    own = Titles()
    assert find_retriever(own, PASSAGES) is own
    remote = find_retriever("http://host:9/x", PASSAGES)
    assert isinstance(remote, HttpRetriever)
    assert remote.url == "http://host:9/x"


def test_environments_of_a_process_share_one_index_of_a_corpus(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "c.jsonl", PASSAGES)
    of_file = find_retriever("lexical", path)
    assert find_retriever("lexical", str(path)) is of_file
    of_passages = find_retriever("lexical", PASSAGES)
    assert find_retriever("lexical", PASSAGES) is of_passages
    assert find_retriever("lexical", list(PASSAGES)) is not of_passages
    folder = build_index(path, tmp_path / "index")
    of_folder = find_retriever("lexical", folder)
    assert find_retriever("lexical", folder) is of_folder
    for retriever in (of_file, of_passages, of_folder, pickle.loads(pickle.dumps(of_folder))):
        assert isinstance(retriever, LexicalRetriever)
        assert retriever.search(WORDS, 3) == LexicalRetriever(PASSAGES).search(WORDS, 3)
    write_corpus(path, PASSAGES[:10])
    changed = find_retriever("lexical", path)
    assert isinstance(changed, LexicalRetriever)
    assert len(changed.passages) == 10


def test_a_large_corpus_is_indexed_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_MOST_IN_MEMORY", 10)
    path = write_corpus(tmp_path / "c.jsonl", PASSAGES)
    monkeypatch.setenv("AGENTGYM_CACHE", "off")
    refuses(DataError, "index_folder CORPUS FOLDER", find_retriever, "lexical", path)
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    retriever = find_retriever("lexical", path)
    assert isinstance(retriever, LexicalRetriever)
    assert isinstance(retriever.passages, PassageFile)
    (folder,) = (tmp_path / "cache").glob("searchqa-c-*[0-9a-f]")
    assert retriever.passages.folder == folder


def test_what_cannot_be_is_named(tmp_path: Path) -> None:
    refuses(ValueError, "did you mean 'lexical'", find_retriever, "lexicl", PASSAGES)
    refuses(ValueError, r"must have search\(queries, k\)", find_retriever, 3, PASSAGES)
    refuses(DataError, "No such file", find_retriever, "lexical", tmp_path / "none.jsonl")
    refuses(DataError, "holds no passages", find_retriever, "lexical", ())
    refuses(DataError, "same id 'a'", find_retriever, "lexical", [Passage("a", "x"), Passage("a", "y")])
    refuses(ValueError, "expected an index folder", find_retriever, "lexical", tmp_path)
    refuses(DataError, "give its folder as the corpus", find_retriever, "lucene", PASSAGES)
    path = tmp_path / "corpus.jsonl"
    path.symlink_to("corpus.jsonl")
    refuses((OSError, ValueError), r"corpus\.jsonl", find_retriever, "lexical", path)


RAW = {"7": json.dumps({"id": "7", "contents": '"T"\ntext'}), "8": "no JSON", "9": None}


class Searcher:
    """What is used of pyserini's class: its answers depend on the query's words."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def batch_search(self, queries: list[str], qids: list[str], k: int, threads: int) -> dict[str, list[Any]]:
        return {
            name: [SimpleNamespace(docid=word, score=2.0) for word in query.split() if word in RAW][:k]
            for query, name in zip(queries, qids, strict=True)
        }

    def doc(self, docid: str) -> Any:
        return SimpleNamespace(raw=lambda: RAW[docid])


class NoJava(ModuleType):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("class file version 65.0")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index, and a pyserini that finds `RAW` in it."""
    (tmp_path / "segments_1").touch()
    module = ModuleType("pyserini.search.lucene")
    module.LuceneSearcher = Searcher  # type: ignore[attr-defined]
    for made in (ModuleType("pyserini"), ModuleType("pyserini.search"), module):
        monkeypatch.setitem(sys.modules, made.__name__, made)
    return tmp_path


def test_hits_carry_the_rows_that_the_index_keeps(folder: Path) -> None:
    lucene = find_retriever("lucene", folder)
    assert isinstance(lucene, Retriever)
    seven, eight = Hit(Passage("7", '"T"\ntext'), 2.0), Hit(Passage("8", "no JSON"), 2.0)
    queries: Sequence[str] = ["8 7", "none", " ", "7 8", "8 7", "7 \ud800"]
    assert lucene.search(queries, 1) == [(eight,), (), (), (seven,), (eight,), (seven,)]
    assert (lucene.search(["7 8"], 2), lucene.search([], 2)) == ([(seven, eight)], [])


def test_an_index_without_its_rows_fails_as_a_search(folder: Path) -> None:
    found, other = LuceneRetriever(folder).search(["7 9", "7"], 3)
    assert isinstance(found, SearchFailure)
    assert "--storeRaw" in found.reason
    assert isinstance(other, tuple)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", NoJava("pyserini.search.lucene"))
    refuses(ImportError, r"Java does not start: it needs 21 or later \(class file version 65", LuceneRetriever, folder)
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", None)
    refuses(ImportError, r"needs pyserini: pip install .*\[search\]", LuceneRetriever, folder)
    (folder / "segments_1").unlink()
    refuses(ValueError, "is no Lucene index", LuceneRetriever, folder)
