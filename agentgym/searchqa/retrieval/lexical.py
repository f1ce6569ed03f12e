"""The default retriever: BM25 by Tantivy, in memory or from an index folder."""

from __future__ import annotations

import json
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, overload

import numpy as np

from agentgym.checks import whole
from agentgym.outside.packages import install_package, needed
from agentgym.outside.text import DataError
from agentgym.searchqa.retriever import Found, Hit, Passage, check_search

if TYPE_CHECKING:
    import tantivy


_ROWS, _ENDS = PASSAGE_FILES = "passages.jsonl", "passages.ends"
_INT = np.dtype("<i8")


class PassageFile(Sequence[Passage]):
    """Passages by position in a memory-mapped folder of `PassageWriter`.

    `passages.jsonl` has a row per passage, `passages.ends` the end of each row in bytes as a 64-bit little-endian
    integer. A missing file is an OSError, inconsistent files a DataError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with open(folder / _ENDS, "rb") as ends, open(folder / _ROWS, "rb") as rows:
            size = os.fstat(ends.fileno()).st_size
            if size == 0 or size % _INT.itemsize:
                raise DataError(f"{folder / _ENDS} is damaged: {size} bytes")
            self._ends = np.frombuffer(mmap.mmap(ends.fileno(), 0, access=mmap.ACCESS_READ), _INT)
            expected, found = int(self._ends[-1]), os.fstat(rows.fileno()).st_size
            if found != expected:
                raise DataError(f"{folder / _ROWS} is damaged: {found} bytes, expected {expected}")
            self._rows = mmap.mmap(rows.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, position: int) -> Passage: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Passage]: ...
    def __getitem__(self, position: int | slice) -> Passage | Sequence[Passage]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        if not -len(self) <= position < len(self):
            raise IndexError(f"passage {position} of {len(self)}")
        position %= len(self)
        start = int(self._ends[position - 1]) if position else 0
        try:
            named, contents = json.loads(self._rows[start : int(self._ends[position])])
            if not (isinstance(named, str) and isinstance(contents, str)):
                raise TypeError(f"{type(named).__name__} and {type(contents).__name__}")
            return Passage(named, contents)
        except (ValueError, TypeError, RecursionError) as error:
            raise DataError(f"{self.folder} is damaged: passage {position} is no row of two texts ({error})") from None

    def __iter__(self) -> Iterator[Passage]:
        return (self[position] for position in range(len(self)))


class PassageWriter:
    """Appends passages to a folder after the first `keep` of an earlier writer; later ones are removed."""

    def __init__(self, folder: Path, keep: int = 0) -> None:
        self._ends = _open(folder / _ENDS)
        self._rows = _open(folder / _ROWS)
        self._ends.truncate(keep * _INT.itemsize)
        self._end = 0
        if keep:
            self._ends.seek((keep - 1) * _INT.itemsize)
            self._end = int.from_bytes(self._ends.read(_INT.itemsize), "little")
        self._rows.truncate(self._end)
        for stream in (self._ends, self._rows):
            stream.seek(0, os.SEEK_END)

    def append(self, passage: Passage) -> None:
        row = json.dumps(passage, ensure_ascii=False).encode() + b"\n"
        self._rows.write(row)
        self._end += len(row)
        self._ends.write(self._end.to_bytes(_INT.itemsize, "little"))

    def flush(self) -> None:
        for stream in (self._rows, self._ends):
            stream.flush()
            os.fsync(stream.fileno())

    def close(self) -> None:
        self.flush()
        self._rows.close()
        self._ends.close()


def _open(path: Path) -> IO[bytes]:
    return open(path, "r+b" if path.exists() else "w+b")


#: Memory of an index writer in bytes; a full one writes a segment.
HEAP = 256_000_000
#: Tantivy's files in an index folder.
INDEX = "tantivy"
_BODY, _POSITION, _TOKENIZER = "body", "position", "stemmed_words"
#: Weight of a title word, in words of the text.
_TITLE_EXTRA = 2
#: Query stop words in addition to Tantivy's English ones; with them a search is faster and finds more.
_QUESTION_WORDS = ["who", "whom", "whose", "what", "which", "when", "where", "why", "how"]
#: Maximum number of distinct words of a query that are used.
_MOST_WORDS = 128
#: With more ties at the k-th place than this, those of the lowest positions may be missed.
_MOST_TIES = 4096
#: Smaller batches use no threads.
_SMALLEST_SHARE = 16


class LexicalRetriever:
    """BM25 (k1 = 1.2, b = 0.75) over the stemmed English words of title and text.

    Words are lower-cased, without accents, split at non-alphanumeric characters, and stemmed; title words count three
    times. Queries lose stop words unless they have no others. Scores have four decimals, ties are sorted by position.

    Args:
        passages: indexed in memory, about 15,000 a second; for many, see `index_folder.open_index`.
        threads: most threads of one `search`, None for one per available processor.
    """

    def __init__(self, passages: Sequence[Passage], *, threads: int | None = None) -> None:
        index = new_index(None)
        writer = index.writer(heap_size=HEAP, num_threads=1)
        for position, passage in enumerate(passages):
            writer.add_document(document(position, passage))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._use(index, passages, threads)

    @classmethod
    def from_folder(cls, folder: Path, threads: int | None = None) -> LexicalRetriever:
        """Return the retriever of an index folder; `index_folder.open_index` checks more."""
        passages = PassageFile(folder)
        with _lockable(folder / INDEX) as place:
            index = _prepared(load_tantivy().Index.open(str(place)))
            if index.searcher().num_docs != len(passages):
                raise ValueError(f"{index.searcher().num_docs} passages in the index, {len(passages)} beside it")
            self = cls.__new__(cls)
            self._use(index, passages, threads)
        return self

    def _use(self, index: tantivy.Index, passages: Sequence[Passage], threads: int | None) -> None:
        self.passages = passages
        self._schema = index.schema
        self._searcher = index.searcher()
        self._all_words, self._telling_words = _analyzer(stop_words=True), _analyzer(stop_words=False)
        self._threads = len(os.sched_getaffinity(0)) if threads is None else whole("threads", threads, 1)
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        check_search(queries, k)
        different = list(dict.fromkeys(queries))
        shares = min(self._threads, len(different) // _SMALLEST_SHARE)
        if shares > 1:
            parts = [different[i::shares] for i in range(shares)]
            found: dict[str, Found] = {}
            pool = self._threads_of_this_process()
            for part, answers in zip(parts, pool.map(self._search, parts, [k] * shares), strict=True):
                found.update(zip(part, answers, strict=True))
        else:
            found = dict(zip(different, self._search(different, k), strict=True))
        return [found[query] for query in queries]

    def _search(self, queries: Sequence[str], k: int) -> list[Found]:
        return [self._hits(query, k) for query in queries]

    def _hits(self, query: str, k: int) -> Found:
        words = self._words(query)
        if not words:
            return ()
        tantivy = load_tantivy()
        terms = [tantivy.Query.term_query(self._schema, _BODY, word, index_option="freq") for word in words]
        union = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
        limit = k + 4
        while True:
            asked = min(limit, len(self.passages))
            scored = self._searcher.search(union, asked, count=False).hits
            scores = [round(float(score), 4) for score, _ in scored]
            # All ties with the k-th are needed to choose among them.
            if len(scores) < limit or scores[-1] < scores[k - 1] or limit >= _MOST_TIES:
                break
            limit *= 4
        positions: Any = self._searcher.fast_field_values(_POSITION, [address for _, address in scored])
        best = sorted(zip([-score for score in scores], positions, strict=True))[:k]
        return tuple([Hit(self.passages[position], -negative) for negative, position in best])

    def _words(self, query: str) -> list[str]:
        text = query.encode(errors="replace").decode()
        words = self._telling_words.analyze(text) or self._all_words.analyze(text)
        return list(dict.fromkeys(words))[:_MOST_WORDS]

    def _threads_of_this_process(self) -> ThreadPoolExecutor:
        """Return the pool, a new one after a fork."""
        pool = self._pool
        if pool is None or pool[0] != os.getpid():
            self._pool = pool = (os.getpid(), ThreadPoolExecutor(self._threads, "search"))
        return pool[1]

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.passages, PassageFile):
            return LexicalRetriever.from_folder, (self.passages.folder, self._threads)
        return _in_memory, (tuple(self.passages), self._threads)


@lru_cache(maxsize=8)  # environments unpickled in one process share an index too
def _in_memory(passages: tuple[Passage, ...], threads: int) -> LexicalRetriever:
    return LexicalRetriever(passages, threads=threads)


def new_index(folder: Path | None) -> tantivy.Index:
    """Return an empty index in memory or an empty folder, or the one in the folder."""
    tantivy = load_tantivy()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(_BODY, tokenizer_name=_TOKENIZER, index_option="freq")
    builder.add_unsigned_field(_POSITION, fast=True)
    return _prepared(tantivy.Index(builder.build(), None if folder is None else str(folder)))


def _prepared(index: tantivy.Index) -> tantivy.Index:
    # No thread watches for changes: a searched index does not change.
    index.config_reader("manual")
    index.register_tokenizer(_TOKENIZER, _analyzer(stop_words=True))
    return index


@contextmanager
def _lockable(folder: Path) -> Iterator[Path]:
    """Yield the folder, or one of links to its files if it is not writable: Tantivy locks what it opens."""
    if all(os.access(path, os.W_OK) for path in (folder, *folder.glob(".*.lock"))):
        yield folder
        return
    with tempfile.TemporaryDirectory() as links:
        for path in folder.iterdir():
            if path.suffix != ".lock":
                os.symlink(path.resolve(), Path(links, path.name))
        yield Path(links)


def document(position: int, passage: Passage) -> tantivy.Document:
    """Return the indexed document of a passage."""
    made: tantivy.Document = load_tantivy().Document()
    made.add_text(_BODY, passage.contents)
    for _ in range(_TITLE_EXTRA):
        made.add_text(_BODY, passage.title)
    made.add_unsigned(_POSITION, position)
    return made


def _analyzer(stop_words: bool) -> tantivy.TextAnalyzer:
    library = load_tantivy()
    builder = library.TextAnalyzerBuilder(library.Tokenizer.simple())
    filters = [library.Filter.remove_long(64), library.Filter.lowercase(), library.Filter.ascii_fold()]
    if not stop_words:
        filters += [library.Filter.stopword("english"), library.Filter.custom_stopword(_QUESTION_WORDS)]
    for each in [*filters, library.Filter.stemmer("english")]:
        builder = builder.filter(each)
    made: tantivy.TextAnalyzer = builder.build()
    return made


def load_tantivy() -> Any:
    """Return the module, or raise an ImportError with the command that installs it."""
    return needed("tantivy", f"the lexical retriever needs the package tantivy: {install_package('tantivy')}")
