import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agentgym.outside.text import DataError
from agentgym.searchqa.retrieval.dense import DenseRetriever, encode_folder, main, normalised
from agentgym.searchqa.retrieval.engines import find_retriever
from agentgym.searchqa.retrieval.index_folder import build_index
from agentgym.searchqa.retriever import Passage, Retriever
from tests.agentgym.searchqa.support import WORDS, random_passages, write_corpus
from tests.refusals import refuses

faiss = pytest.importorskip("faiss", reason="needs the extra dense: pip install faiss-cpu")
PASSAGES = random_passages(40, seed=7)


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
    def found(vectors: np.ndarray, k: int) -> list[tuple[str, float]]:
        def encode(texts: Sequence[str]) -> np.ndarray:
            return np.array([[1.0, 0.0]] * len(texts))

        (hits,) = DenseRetriever(PASSAGES[:count], encode, vectors=normalised(vectors)).search(["any"], k)
        assert isinstance(hits, tuple)
        return [(hit.passage.id, hit.score) for hit in hits]

    # Cosines of 1 - x^2 / 2 for x from count * 1e-4 down to 1e-4: all are 1.0000, and the last is the largest.
    vectors = np.array([[1.0, (count - i) * 1e-4] for i in range(count)], np.float32)
    assert found(vectors, 3) == [(passage.id, 1.0) for passage in PASSAGES[:3]]
    far = np.array([[0.0, 1.0]], np.float32)
    assert found(np.concatenate([vectors[:1], np.repeat(far, count - 1, 0)]), 1) == [(PASSAGES[0].id, 1.0)]


@pytest.mark.parametrize("known", ["none", "vectors", "index", "file"])
def test_hits_are_the_largest_cosines(tmp_path: Path, known: str) -> None:
    flat = normalised(counts([passage.contents for passage in PASSAGES]))
    index = faiss.IndexFlatIP(len(WORDS))
    index.add(flat)
    faiss.write_index(index, str(tmp_path / "flat.index"))
    vectors = {"none": None, "vectors": flat, "index": index, "file": tmp_path / "flat.index"}[known]
    dense = DenseRetriever(PASSAGES, counts, vectors=vectors)
    assert isinstance(dense, Retriever)
    queries = ["ka ka lo", "mi", "ka ka lo", "ro su"]
    found = dense.search([*queries, " "], k=3)
    assert found[-1] == ()
    for query, hits in zip(queries, found, strict=False):
        assert isinstance(hits, tuple)
        expected = naive(PASSAGES, query, len(PASSAGES))
        assert [hit.score for hit in hits] == pytest.approx([-score for score, _ in expected[:3]], abs=1.1e-4)
        cosine = {PASSAGES[position].id: -score for score, position in expected}
        assert [hit.score for hit in hits] == pytest.approx([cosine[hit.passage.id] for hit in hits], abs=1.1e-4)
    everything = dense.search(["ka"], k=1000)[0]
    assert isinstance(everything, tuple)
    assert len(everything) == len(PASSAGES)


def test_prefixes_are_those_of_the_model_and_vectors_those_of_the_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def encode(texts: Sequence[str], device: str | None = None) -> np.ndarray:
        seen.extend(texts)
        return np.ones((len(texts), 2))

    monkeypatch.setattr("agentgym.searchqa.retrieval.dense.load_encoder", lambda model, device: encode)
    for model, given, expected in (
        ("intfloat/e5-base-v2", {}, ["passage: T\nx", "query: q"]),
        ("all-MiniLM-L6-v2", {}, ["T\nx", "q"]),
        ("intfloat/e5-base-v2", {"query_prefix": "Q ", "passage_prefix": ""}, ["T\nx", "Q q"]),
    ):
        seen.clear()
        DenseRetriever([Passage("a", "T\nx")], model, **given).search(["q"], 1)
        assert seen == expected
    refuses(TypeError, "from_folder", pickle.dumps, DenseRetriever(PASSAGES, counts))
    wrong = np.ones((39, 8), np.float32)
    refuses(ValueError, "39 vectors for 40 passages", DenseRetriever, PASSAGES, counts, vectors=wrong)


def test_a_folder_is_encoded_once_goes_on_after_an_interruption_and_may_be_damaged(tmp_path: Path, monkeypatch) -> None:
    folder = build_index(write_corpus(tmp_path / "c.jsonl", PASSAGES), tmp_path / "index")
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
    assert dense.search(list(WORDS), 4) == DenseRetriever(PASSAGES, counts).search(list(WORDS), 4)
    refuses(DataError, "holds vectors of counts", encode_folder, folder, "another", encode=counts)
    for head in ("[", "[]", '{"model": 1}', '{"model": "m", "dimensions": 0}', '{"model": "m"}'):
        (folder / "dense.json").write_text(head)
        refuses(DataError, f"{folder} holds no vectors", DenseRetriever.from_folder, folder)


@pytest.mark.parametrize("package", ["faiss", "sentence_transformers"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    refuses(ImportError, r"\[dense\]", find_retriever, "dense", PASSAGES)


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main([]), main([str(tmp_path / "none")])) == (2, 1)
    assert "No such file" in capsys.readouterr().err
