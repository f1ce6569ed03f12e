"""Dense retrieval: a sentence encoder and FAISS (extra `dense`).

    python -m agentgym.searchqa.retrieval.dense indexes/wiki-18 intfloat/e5-base-v2

encodes the passages of an index folder (made by `index_folder`) and resumes after an interruption.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.outside.packages import install, needed
from agentgym.outside.text import DataError, read_json
from agentgym.searchqa.retrieval.index_folder import Progress, run_command, write_json
from agentgym.searchqa.retrieval.lexical import PassageFile
from agentgym.searchqa.retriever import Found, Hit, Passage, check_search

#: The encoder of Search-R1's published index.
MODEL = "intfloat/e5-base-v2"
_VECTORS, _HEAD, _STARTED = "dense.f32", "dense.json", "dense.started.json"
#: Passages between two checkpoints of an encoding.
_STRETCH = 1024
_EXTRA = f"dense retrieval needs sentence-transformers and faiss-cpu: {install('dense')}"

Vectors = NDArray[np.float32]
#: Maps n texts to n vectors, shape (n, dimensions).
Encoder = Callable[[Sequence[str]], Any]


class DenseRetriever:
    """Exact nearest passages by cosine; scores are rounded to four decimals, ties sorted by position.

    Args:
        passages: in memory or a `PassageFile`.
        model: name or folder of a sentence-transformers model, or a function from n texts to n vectors.
        vectors: of the passages, (n, dimensions); or a FAISS index, or its file (memory-mapped). None: computed.
        query_prefix: put before queries; None for the model's ("query: " for the E5 family, else nothing).
        passage_prefix: put before passages ("passage: " for the E5 family).
        device: "cpu", "cuda", ...; None: the library's choice.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        model: str | Path | Encoder = MODEL,
        *,
        vectors: Any = None,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        device: str | None = None,
    ) -> None:
        faiss = needed("faiss", _EXTRA)
        self.passages = passages
        self._recipe: tuple[Path, str | None] | None = None
        self._query_prefix = _prefix("query: ", model) if query_prefix is None else query_prefix
        prefix = _prefix("passage: ", model) if passage_prefix is None else passage_prefix
        self._encode = load_encoder(model, device)
        # A tokeniser serves one thread at a time.
        self._one_at_a_time = threading.Lock()
        if isinstance(vectors, (str, os.PathLike)):
            self._index = faiss.read_index(os.fspath(vectors), faiss.IO_FLAG_MMAP)
        elif isinstance(vectors, faiss.Index):
            self._index = vectors
        else:
            if vectors is None:
                vectors = normalised(self._encode([prefix + passage.contents for passage in passages]))
            self._index = faiss.IndexFlatIP(vectors.shape[1])
            for start in range(0, len(vectors), 65_536):
                self._index.add(np.ascontiguousarray(vectors[start : start + 65_536], np.float32))
        if self._index.ntotal != len(passages):
            raise ValueError(f"{self._index.ntotal} vectors for {len(passages)} passages: they do not belong together")

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str], device: str | None = None) -> DenseRetriever:
        """Return the retriever of an index folder with vectors of `encode_folder`."""
        folder = Path(folder).expanduser()
        try:
            head = _read_head(folder / _HEAD)
            if "dimensions" not in head:
                raise ValueError(f"{_HEAD} names no dimensions")
            vectors = np.memmap(folder / _VECTORS, np.float32, "r").reshape(-1, head["dimensions"])
            self = cls(PassageFile(folder), head["model"], vectors=vectors, device=device)
            self._recipe = folder, device
            return self
        except (OSError, ValueError) as error:
            raise DataError(
                f"{folder} holds no vectors ({error}); "
                "`python -m agentgym.searchqa.retrieval.dense FOLDER MODEL` makes them"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        if self._recipe is None:
            raise TypeError("a DenseRetriever can be pickled when it comes from an index folder (`from_folder`)")
        return DenseRetriever.from_folder, self._recipe

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        check_search(queries, k)
        asked = list(dict.fromkeys([query for query in queries if query.strip()]))
        found: dict[str, Found] = {}
        if asked:
            texts = [self._query_prefix + query.encode(errors="replace").decode() for query in asked]
            with self._one_at_a_time:
                vectors = normalised(self._encode(texts))
            scores, positions = self._best(vectors, k)
            for query, row, places in zip(asked, scores, positions, strict=True):
                best = sorted((-score, place) for score, place in zip(row, places, strict=True) if place >= 0)[:k]
                found[query] = tuple([Hit(self.passages[int(place)], -float(score)) for score, place in best])
        return [found.get(query, ()) for query in queries]

    def _best(self, vectors: Any, k: int) -> tuple[Any, Any]:
        """Return rounded scores and positions of the best k of each vector, and of all ties with the k-th."""
        count = min(k + 4, len(self.passages))
        while True:
            scores, positions = self._index.search(vectors, count)
            scores = np.round(scores.astype(np.float64), 4)
            if count == len(self.passages):
                return scores, positions
            more = (scores[:, -1] == scores[:, k - 1]) & (positions[:, -1] >= 0)
            if not more.any():
                return scores, positions
            count = min(4 * count, len(self.passages))


def encode_folder(
    folder: str | os.PathLike[str],
    model: str | Path = MODEL,
    *,
    encode: Encoder | None = None,
    device: str | None = None,
    progress: Progress = lambda done, share: None,
    stretch: int = _STRETCH,
) -> None:
    """Encode the passages of an index folder, unless that is done; resumes after an interruption.

    `model` is recorded for searching, `encode` replaces it, and `progress` is called after every `stretch` passages.
    Raises a DataError if the folder holds vectors of another model.
    """
    folder = Path(folder).expanduser()
    passages = PassageFile(folder)
    for name in (_HEAD, _STARTED):
        if (folder / name).exists():
            before = _read_head(folder / name)
            if before["model"] != str(model):
                raise DataError(f"{folder} holds vectors of {before['model']}: remove {folder / name} to replace")
            if name == _HEAD:
                return
    encode = load_encoder(model, device) if encode is None else encode
    prefix = _prefix("passage: ", model)
    dimensions = np.asarray(encode([prefix])).shape[1]
    path = folder / _VECTORS
    if not (folder / _STARTED).exists():
        path.write_bytes(b"")
        write_json(folder / _STARTED, {"model": str(model)})
    done = path.stat().st_size // (4 * dimensions)
    with open(path, "r+b") as stream:
        stream.truncate(done * 4 * dimensions)
        stream.seek(0, os.SEEK_END)
        while done < len(passages):
            texts = [prefix + passage.contents for passage in passages[done : done + stretch]]
            stream.write(normalised(encode(texts)).tobytes())
            stream.flush()
            done += len(texts)
            progress(done, done / len(passages))
    write_json(folder / _HEAD, {"model": str(model), "dimensions": dimensions})
    (folder / _STARTED).unlink()


def _read_head(path: Path) -> dict[str, Any]:
    """Return the vectors' metadata: `model`, and `dimensions` if they are complete."""
    try:
        head: Any = read_json(path.read_bytes())
    except DataError as error:
        raise DataError(f"{path} is damaged ({error}); remove it and encode again") from error
    dimensions = head.get("dimensions", 1) if isinstance(head, dict) else 0
    if type(dimensions) is not int or dimensions < 1 or not isinstance(head.get("model"), str):
        raise DataError(f"{path} is damaged: expected a model and its dimensions; remove it and encode again")
    return dict(head)


def normalised(vectors: Any) -> Vectors:
    """Return vectors of length one (the zero vector stays), shape (n, dimensions)."""
    array = np.asarray(vectors, np.float32)
    unit: Vectors = array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), np.float32(1e-12))
    return unit


def load_encoder(model: str | Path | Encoder, device: str | None) -> Encoder:
    """Return a function from texts to vectors: the given one, or a sentence-transformers model's."""
    if not isinstance(model, (str, Path)):
        return model
    transformer = needed("sentence_transformers", _EXTRA).SentenceTransformer(str(model), device=device)
    return lambda texts: transformer.encode(list(texts), show_progress_bar=False, convert_to_numpy=True)


def _prefix(words: str, model: str | Path | Encoder) -> str:
    return words if isinstance(model, (str, Path)) and Path(model).name.lower().startswith("e5-") else ""


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    return run_command(arguments, "dense FOLDER [MODEL]", (1, 2), encode_folder)


if __name__ == "__main__":
    sys.exit(main())
