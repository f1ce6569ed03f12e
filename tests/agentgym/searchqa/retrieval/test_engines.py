"""A retriever by its name: Lucene through a pyserini that a test foresees, and vectors."""

import json
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401  # registers the environments
from agentgym.outside.text import DataError
from agentgym.searchqa.question import Question
from agentgym.searchqa.retrieval import engines
from agentgym.searchqa.retrieval.dense import DenseRetriever, encode_folder, main, normalised
from agentgym.searchqa.retrieval.engines import LuceneRetriever, find_retriever
from agentgym.searchqa.retrieval.index_folder import build_index
from agentgym.searchqa.retrieval.lexical import LexicalRetriever, PassageFile
from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.searchqa.retriever import Found, Hit, Passage, Retriever, SearchFailure
from tests.agentgym.searchqa.support import WORDS, random_passages, write_corpus
from tests.refusals import refuses

PASSAGES = random_passages(30, seed=4)


class Own:
    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        return [() for _ in queries]


def test_a_retriever_of_ones_own_and_a_url_are_taken_as_they_are() -> None:
    own = Own()
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


@pytest.mark.parametrize("url", ["http://me:hush@127.0.0.1:1/retrieve", "http://127.0.0.1:1/retrieve?api_key=hush"])
def test_a_credential_in_a_url_is_refused_where_it_would_stay_in_a_spec(url: str) -> None:
    questions = [Question("1", "Who?", ("Ada",), "nq", "test")]
    with pytest.raises(ValueError, match=r"HttpRetriever\(url\)") as caught:
        gym.make("AgentRL/SearchQA-v0", questions=questions, retriever=url)
    assert "hush" not in str(caught.value)
    env = gym.make("AgentRL/SearchQA-v0", questions=questions, retriever=HttpRetriever(url))
    assert env.spec is not None
    assert b"hush" not in pickle.dumps(env.spec)
    assert "hush" not in repr(env.spec)


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
    refuses(ImportError, r"needs pyserini: pip install .*\[search\]", LuceneRetriever, folder)
    (folder / "segments_1").unlink()
    refuses(ValueError, "is no Lucene index", LuceneRetriever, folder)


def test_java_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    class NoJava(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("class file version 65.0")

    for name in ("pyserini", "pyserini.search"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", NoJava("pyserini.search.lucene"))
    refuses(ImportError, r"Java does not start: it needs 21 or later \(class file version 65", LuceneRetriever, folder)


faiss = pytest.importorskip("faiss", reason="needs the extra dense: pip install faiss-cpu")
FORTY = random_passages(40, seed=7)


def counts(texts: Sequence[str]) -> np.ndarray:
    """How often each of the known words is in a text: a vector that can be worked out by hand."""
    return np.array([[text.split().count(word) for word in WORDS] for text in texts], np.float32)


def naive(passages: Sequence[Passage], query: str, k: int) -> list[tuple[float, int]]:
    """The k largest cosines, rounded, with their positions, ties in order."""
    (asked,) = counts([query]).astype(float)
    scored = []
    for position, vector in enumerate(counts([passage.contents for passage in passages]).astype(float)):
        length = float(np.linalg.norm(asked) * np.linalg.norm(vector))
        scored.append((-round(float(asked @ vector) / length, 4), position))
    return sorted(scored)[:k]


@pytest.mark.parametrize("count", [9, 40])
def test_equal_scores_come_in_the_order_of_the_corpus_however_many_there_are(count: int) -> None:
    # Cosines of 1 - x^2 / 2 for x from count * 1e-4 down to 1e-4: all are 1.0000, and the last is the largest.
    vectors = np.array([[1.0, (count - i) * 1e-4] for i in range(count)], np.float32)
    far = np.array([[0.0, 1.0]], np.float32)
    dense = DenseRetriever(
        FORTY[:count], lambda texts: np.array([[1.0, 0.0]] * len(texts)), vectors=normalised(vectors)
    )
    (found,) = dense.search(["any"], k=3)
    assert isinstance(found, tuple)
    assert [(hit.passage.id, hit.score) for hit in found] == [(passage.id, 1.0) for passage in FORTY[:3]]
    apart = np.concatenate([vectors[:1], np.repeat(far, count - 1, 0)])
    dense = DenseRetriever(FORTY[:count], lambda texts: np.array([[1.0, 0.0]] * len(texts)), vectors=normalised(apart))
    (found,) = dense.search(["any"], k=1)
    assert isinstance(found, tuple)
    assert [hit.passage.id for hit in found] == [FORTY[0].id]


@pytest.mark.parametrize("known", ["none", "vectors", "index", "file"])
def test_hits_are_the_largest_cosines(tmp_path: Path, known: str) -> None:
    index = faiss.IndexFlatIP(len(WORDS))
    index.add(normalised(counts([passage.contents for passage in FORTY])))
    faiss.write_index(index, str(tmp_path / "flat.index"))
    vectors = {
        "none": None,
        "vectors": normalised(counts([passage.contents for passage in FORTY])),
        "index": index,
        "file": tmp_path / "flat.index",
    }[known]
    dense = DenseRetriever(FORTY, counts, vectors=vectors)
    assert isinstance(dense, Retriever)
    queries = ["ka ka lo", "mi", "ka ka lo", "ro su"]
    found = dense.search([*queries, " "], k=3)
    assert found[-1] == ()
    for query, hits in zip(queries, found, strict=False):
        assert isinstance(hits, tuple)
        expected = naive(FORTY, query, len(FORTY))
        assert [hit.score for hit in hits] == pytest.approx([-score for score, _ in expected[:3]], abs=1.1e-4)
        cosine = {FORTY[position].id: -score for score, position in expected}
        assert [hit.score for hit in hits] == pytest.approx([cosine[hit.passage.id] for hit in hits], abs=1.1e-4)
    everything = dense.search(["ka"], k=1000)[0]
    assert isinstance(everything, tuple)
    assert len(everything) == len(FORTY)


def test_prefixes_are_those_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def encode(texts: Sequence[str], device: str | None = None) -> np.ndarray:
        seen.extend(texts)
        return np.ones((len(texts), 2))

    monkeypatch.setattr("agentgym.searchqa.retrieval.dense.load_encoder", lambda model, device: encode)
    passages = [Passage("a", "T\nx")]
    for model, expected in (
        ("intfloat/e5-base-v2", ["passage: T\nx", "query: q"]),
        ("all-MiniLM-L6-v2", ["T\nx", "q"]),
    ):
        seen.clear()
        DenseRetriever(passages, model).search(["q"], 1)
        assert seen == expected
    seen.clear()
    DenseRetriever(passages, "intfloat/e5-base-v2", query_prefix="Q ", passage_prefix="").search(["q"], 1)
    assert seen == ["T\nx", "Q q"]


def test_vectors_that_are_not_of_the_passages_are_refused() -> None:
    with pytest.raises(ValueError, match="39 vectors for 40 passages"):
        DenseRetriever(FORTY, counts, vectors=np.ones((39, 8), np.float32))


def test_a_folder_is_encoded_once_and_goes_on_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_index(write_corpus(tmp_path / "c.jsonl", FORTY), tmp_path / "index")
    refuses(DataError, "holds no vectors", find_retriever, "dense", folder)

    def interrupt(done: int, share: float) -> None:
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_folder(folder, "counts", encode=counts, progress=interrupt, stretch=10)
    with open(folder / "dense.f32", "ab") as stream:
        stream.write(b"half a vector")
    refuses(DataError, "holds vectors of counts", encode_folder, folder, "another", encode=counts)
    done: list[int] = []
    for _ in range(2):
        encode_folder(folder, "counts", encode=counts, progress=lambda n, _: done.append(n), stretch=10)
    assert done == [30, 40]
    monkeypatch.setattr("agentgym.searchqa.retrieval.dense.load_encoder", lambda model, device: counts)
    dense = find_retriever("dense", folder)
    assert dense.search(list(WORDS), 4) == DenseRetriever(FORTY, counts).search(list(WORDS), 4)
    refuses(DataError, "holds vectors of counts", encode_folder, folder, "another", encode=counts)


@pytest.mark.parametrize(
    "head",
    ["[", "[" * 200_000, "[]", '{"model": 1}', '{"model": "m", "dimensions": 0}', '{"model": "m", "dimensions": "8"}',
     '{"model": "m", "dimensions": [8]}', '{"model": "m", "dimensions": 1e400}', '{"model": "m"}'],
)  # fmt: skip
def test_a_damaged_note_beside_vectors_is_named(tmp_path: Path, head: str) -> None:
    folder = build_index(write_corpus(tmp_path / "c.jsonl", FORTY), tmp_path / "index")
    np.ones((40, 8), np.float32).tofile(folder / "dense.f32")
    (folder / "dense.json").write_text(head)
    refuses(DataError, f"{folder} holds no vectors", DenseRetriever.from_folder, folder)


@pytest.mark.parametrize("package", ["faiss", "sentence_transformers"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    refuses(ImportError, r"\[dense\]", find_retriever, "dense", FORTY)


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main([str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err
