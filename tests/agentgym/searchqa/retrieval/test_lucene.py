import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from agentgym.searchqa.retrieval.engines import find_retriever
from agentgym.searchqa.retrieval.lucene import LuceneRetriever
from agentgym.searchqa.retriever import Hit, Passage, Retriever, SearchFailure

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


def install(monkeypatch: pytest.MonkeyPatch, searcher: Any) -> None:
    module = ModuleType("pyserini.search.lucene")
    module.LuceneSearcher = searcher  # type: ignore[attr-defined]
    for name in ("pyserini", "pyserini.search"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "segments_1").touch()
    return tmp_path


def test_hits_carry_the_rows_that_the_index_keeps(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    install(monkeypatch, Searcher)
    lucene = find_retriever("lucene", folder)
    assert isinstance(lucene, Retriever)
    seven, eight = Hit(Passage("7", '"T"\ntext'), 2.0), Hit(Passage("8", "no JSON"), 2.0)
    queries: Sequence[str] = ["8 7", "none", " ", "7 8", "8 7", "7 \ud800"]
    assert lucene.search(queries, 1) == [(eight,), (), (), (seven,), (eight,), (seven,)]
    assert lucene.search(["7 8"], 2) == [(seven, eight)]
    assert lucene.search([], 2) == []


def test_an_index_without_its_rows_fails_as_a_search(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    install(monkeypatch, Searcher)
    found, other = LuceneRetriever(folder).search(["7 9", "7"], 3)
    assert isinstance(found, SearchFailure)
    assert "--storeRaw" in found.reason
    assert isinstance(other, tuple)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyserini", None)
    with pytest.raises(ImportError, match=r"needs pyserini: pip install \"stepcredit\[search\]\""):
        LuceneRetriever(folder)
    (folder / "segments_1").unlink()
    with pytest.raises(ValueError, match="is no Lucene index"):
        LuceneRetriever(folder)


def test_java_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    class NoJava(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("class file version 65.0")

    for name in ("pyserini", "pyserini.search"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", NoJava("pyserini.search.lucene"))
    with pytest.raises(ImportError, match=r"Java does not start: it needs 21 or later \(class file version 65"):
        LuceneRetriever(folder)
