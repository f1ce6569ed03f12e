"""BM25 of Apache Lucene through pyserini, over an index that pyserini built, such as Search-R1's.

Needs the extra `search` (`pip install "stepcredit[search]"`) and a Java runtime, 21 or later for present versions.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentgym.outside.text import DataError, clean, read_json
from agentgym.searchqa.retriever import MOST_CONTENTS, Found, Hit, Passage, SearchFailure, check_search


class LuceneRetriever:
    """Searches a Lucene index whose documents keep their row: `{"id", "contents"}`, or only the contents.

    Args:
        folder: the index, as of `python -m pyserini.index.lucene --collection JsonCollection --storeRaw ...`.
        threads: threads of one `search`.

    Raises:
        ImportError: when pyserini or Java is missing.
        ValueError: when the folder is no Lucene index.
    """

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
        """Search for several queries at once, each different one once; see `Retriever.search`."""
        check_search(queries, k)
        # Lucene's bag of words knows no query syntax, but Java no half surrogate pairs.
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
        raise ImportError(f'the Lucene retriever needs pyserini: pip install "stepcredit[search]" ({error})') from error
    except Exception as error:
        # What the bridge to Java raises when there is no Java, or one that is too old, is of no common class.
        raise ImportError(f"pyserini is installed, but Java does not start: it needs 21 or later ({error})") from error
    return LuceneSearcher
