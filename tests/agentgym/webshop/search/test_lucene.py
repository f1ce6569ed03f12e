"""Lucene behind the same interface; the real one is asked where pyserini and its Java are installed."""

import importlib.metadata
import importlib.util
import sys
import types
from types import SimpleNamespace

import pytest

from agentgym.outside.text import DataError
from agentgym.webshop import store
from agentgym.webshop.catalogue import MemoryCatalogue
from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.generated.generator import generate
from agentgym.webshop.search.bm25 import Bm25
from agentgym.webshop.search.bm25_build import build as build_bm25
from agentgym.webshop.search.lucene import Lucene, build
from agentgym.webshop.search.search import documents
from agentgym.webshop.shop import open_search
from tests.agentgym.webshop import oracles
from tests.refusals import refuses

INSTALLED = importlib.util.find_spec("pyserini") is not None


class Searcher:
    """Stands in for pyserini's searcher: a word is a docid, and only four words are taken."""

    def __init__(self, folder):
        self.folder = folder

    def search(self, query, k):
        words = query.encode("utf-8").decode().split(" ")  # fails on half characters, as Java does
        if len(words) > 4:
            raise RuntimeError("maxClauseCount is set to 4")
        if "fail" in words:
            raise RuntimeError("disk")
        return [SimpleNamespace(docid=word) for word in words[:k]]


class Indexer:
    """Stands in for pyserini's indexer."""

    def __init__(self, folder, threads):
        self.folder, self.rows = folder, []

    def add_doc_dict(self, row):
        self.rows.append(row["id"])

    def close(self):
        with open(f"{self.folder}/segments_1", "w") as file:
            file.write(" ".join(self.rows))


@pytest.fixture
def pyserini(monkeypatch):
    for name, content in (
        ("pyserini", {}),
        ("pyserini.search", {}),
        ("pyserini.index", {}),
        ("pyserini.search.lucene", {"LuceneSearcher": Searcher}),
        ("pyserini.index.lucene", {"LuceneIndexer": Indexer}),
    ):
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.44.0")


CATALOGUE = SimpleNamespace(find={"a": 0, "b": 1, "c": 2}.get)


def test_a_shop_can_be_searched_by_lucene(pyserini, tmp_path):
    products = list(generate(3))
    store.build(tmp_path / "shop", products)
    for catalogue in (MemoryCatalogue(products), store.StoredCatalogue(tmp_path / "shop")):
        assert open_search(catalogue, "lucene").top(f"{products[2].asin} {products[0].asin} nothing", 50) == (2, 0)
    assert (tmp_path / "shop" / "lucene" / "segments_1").read_text().split() == [product.asin for product in products]


def test_without_pyserini_or_an_index_the_error_says_what_is_missing(tmp_path, monkeypatch):
    if INSTALLED:
        pytest.skip("pyserini is installed")
    refuses(ImportError, "pyserini", WebShopEnv, data="generated", search="lucene")
    refuses(DataError, "no Lucene index", Lucene, CATALOGUE, tmp_path)

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    refuses(ImportError, r"\[search\].*bm25", build, [], tmp_path)


def test_hits_become_positions_and_any_query_is_answered(pyserini, tmp_path) -> None:
    build([("a", "x"), ("b", "y")], tmp_path / "new")
    assert (tmp_path / "new" / "segments_1").read_text() == "a b"
    search = Lucene(CATALOGUE, tmp_path / "new")
    assert (search.top("c a", 50), search.top("c a", 1), search.top("c a", 0)) == ((2, 0), (2,), ())
    assert (search.top("b unknown a", 50), search.top("b c", 50)) == ((1, 0), (1, 2))
    build([("a", "x")], tmp_path)
    search = Lucene(CATALOGUE, tmp_path)
    assert search.top("a \ud800 b", 50) == (0, 1)
    assert search.top("a b c a b c", 50) == (0, 1, 2, 0)  # 6 words, then 4
    refuses(RuntimeError, "disk", search.top, "fail", 50)


@pytest.mark.parametrize(("version", "java"), [("0.22.1", 11), ("0.34.9", 11), ("0.35.0", 21), ("1.6.0", 21)])
def test_a_failed_start_names_the_java_that_is_needed(tmp_path, monkeypatch, version, java):
    def fail(name):
        raise OSError("no JVM")

    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(importlib, "import_module", fail)
    refuses(RuntimeError, rf"pyserini {version} .* needs Java {java} or newer.*OSError: no JVM", build, [], tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="pyserini is not installed: pip install 'stepcredit[search]'")
def test_lucene_and_bm25_agree(tmp_path):
    shop = oracles.catalogue()
    try:
        build(documents(shop), tmp_path)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"pyserini cannot start here: {error}")
    lucene, bm25 = Lucene(shop, tmp_path), Bm25(build_bm25(documents(shop)))
    for row in oracles.rows("lucene_top50"):
        assert lucene.top(row["query"], 50) == bm25.top(row["query"], 50), row["query"]
