"""Retrievers by name, made once per corpus and process; Lucene needs the extra `search` and Java 21."""

import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from agentgym.checks import suggest
from agentgym.outside.files import cache_folder
from agentgym.outside.packages import install
from agentgym.outside.redaction import refuse_credential
from agentgym.outside.text import DataError, clean, read_json
from agentgym.searchqa.official import check_passages, corpus_state, read_passages
from agentgym.searchqa.retrieval.index_folder import build_index, default_folder, open_index, print_progress
from agentgym.searchqa.retrieval.lexical import LexicalRetriever
from agentgym.searchqa.retriever import MOST_CONTENTS, Found, Hit, Passage, Retriever, SearchFailure, check_search


class LuceneRetriever:
    """Searches a Lucene index whose documents store `{"id", "contents"}` or the contents, with several threads."""

    def __init__(self, folder: str | os.PathLike[str], *, threads: int = 2) -> None:
        folder = Path(folder).expanduser()
        if not list(folder.glob("segments_*")):
            raise ValueError(
                f"{folder} is no Lucene index: it holds no segments_* file. `python -m pyserini.index.lucene` makes "
                "one, with --collection JsonCollection and --storeRaw"
            )
        self._searcher = _searcher_class()(str(folder))
        self._folder, self._threads = folder, threads

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(LuceneRetriever, threads=self._threads), (self._folder,)

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        check_search(queries, k)
        # Lucene's bag of words has no query syntax, but Java accepts no half surrogate pairs.
        words = {query: query.encode(errors="replace").decode() for query in queries if query.strip()}
        if not words:
            return [()] * len(queries)
        names = [str(i) for i in range(len(words))]
        hits = self._searcher.batch_search(list(words.values()), names, k=k, threads=self._threads)
        found = {query: self._found(hits.get(name, ())) for query, name in zip(words, names, strict=True)}
        return [found.get(query, ()) for query in queries]

    def _found(self, hits: Sequence[Any]) -> Found:
        found = []
        for hit in hits:
            document = self._searcher.doc(hit.docid)
            raw = None if document is None else document.raw()
            if raw is None:
                return SearchFailure(f"document {hit.docid} keeps no text: build the Lucene index with --storeRaw")
            found.append(Hit(Passage(str(hit.docid), _contents(raw)), round(float(hit.score), 4)))
        return tuple(found)


def _contents(raw: str) -> str:
    try:
        row = read_json(raw, spare=True)
    except DataError:
        row = None
    contents = row["contents"] if isinstance(row, dict) and isinstance(row.get("contents"), str) else raw
    return clean(contents, MOST_CONTENTS)


def _searcher_class() -> Any:
    try:
        from pyserini.search.lucene import LuceneSearcher
    except ImportError as error:
        raise ImportError(f"the Lucene retriever needs pyserini: {install('search')} ({error})") from error
    except Exception as error:
        # Errors of the bridge to a missing or too old Java have no common class.
        raise ImportError(f"pyserini is installed, but Java does not start: it needs 21 or later ({error})") from error
    return LuceneSearcher


#: Larger corpus files, in bytes, are indexed in a folder instead of in memory.
_MOST_IN_MEMORY = 50_000_000
Corpus = str | os.PathLike[str] | Sequence[Passage]


def find_retriever(retriever: str | Retriever, corpus: Corpus) -> Retriever:
    """Return a retriever: an object with `search` itself, else the one of that name or URL, made once per process.

    `corpus` is a corpus file, an index folder, or passages; a large file is indexed into the user's cache folder
    ($AGENTGYM_CACHE) at its first use. Raises a ValueError if they do not fit, an ImportError for a missing package.
    """
    if not isinstance(retriever, str):
        if not isinstance(retriever, Retriever):
            raise ValueError(
                f"retriever must have search(queries, k), or be one of {', '.join(ENGINES)} or a URL, got {retriever!r}"
            )
        return retriever
    if retriever.startswith(("http://", "https://")):
        refuse_credential("retriever", retriever, "agentgym.searchqa.retrieval.remote.HttpRetriever(url)")
        from agentgym.searchqa.retrieval.remote import HttpRetriever

        return HttpRetriever(retriever)
    if retriever not in ENGINES:
        raise ValueError(f"unknown retriever {retriever!r}; {suggest(retriever, ENGINES)}, or a URL")
    if isinstance(corpus, (str, os.PathLike)):
        path = Path(os.path.realpath(Path(corpus).expanduser()))
        state = None if path.is_dir() else tuple(corpus_state(path).values())
        return _of_path(retriever, path, state)
    return _of_passages(retriever, _Same(corpus))


class _Same:
    """Passages as a key, compared by identity."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.passages is other.passages

    def __hash__(self) -> int:
        return id(self.passages)


@cache
def _of_path(name: str, path: Path, state: tuple[Any, ...] | None) -> Retriever:
    return ENGINES[name](path)


@cache
def _of_passages(name: str, same: _Same) -> Retriever:
    return ENGINES[name](check_passages(same.passages))


def _lexical(corpus: Path | tuple[Passage, ...]) -> Retriever:
    if not isinstance(corpus, Path):
        return LexicalRetriever(corpus)
    if corpus.is_dir():
        return open_index(corpus)
    if corpus.stat().st_size <= _MOST_IN_MEMORY:
        return LexicalRetriever(read_passages(corpus))
    folder = cache_folder()
    if folder is None:
        raise DataError(
            f"corpus {corpus} is too large to be indexed in memory by every process, and $AGENTGYM_CACHE is off: "
            "make a folder with `python -m agentgym.searchqa.retrieval.index_folder CORPUS FOLDER` and give it as the "
            "corpus"
        )
    return open_index(build_index(corpus, default_folder(corpus, folder), progress=print_progress()))


def _dense(corpus: Path | tuple[Passage, ...]) -> Retriever:
    from agentgym.searchqa.retrieval.dense import DenseRetriever

    if isinstance(corpus, Path):
        return DenseRetriever.from_folder(corpus) if corpus.is_dir() else DenseRetriever(read_passages(corpus))
    return DenseRetriever(corpus)


def _lucene(corpus: Path | tuple[Passage, ...]) -> Retriever:
    if not isinstance(corpus, Path) or not corpus.is_dir():
        raise DataError("the retriever 'lucene' searches a Lucene index: give its folder as the corpus")
    return LuceneRetriever(corpus)


#: Constructors of retrievers over a corpus file, folder or passages, by name.
ENGINES: dict[str, Callable[[Path | tuple[Passage, ...]], Retriever]] = {
    "lexical": _lexical,
    "dense": _dense,
    "lucene": _lucene,
}
