"""Searches of Search-QA on made-up passages, in memory and behind a server, compared with SQLite's."""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym.searchqa.retrieval.lexical import LexicalRetriever
from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.searchqa.retrieval.serve import RetrievalServer
from agentgym.searchqa.retriever import Passage
from benchmarks.speed.record import Measurement
from benchmarks.speed.timing import Speed, Stopwatch, best_rate

#: Queries of a batch, and hits of a query.
_BATCH, _TOP = 256, 3
Words = NDArray[np.object_]
Numbers = NDArray[np.int64]
_STOP_WORDS = ("the", "of", "and", "in", "to", "a", "is", "was", "for", "on", "as", "by", "with", "that", "at")
_CONSONANTS, _VOWELS = "bcdfglmnprstvz", "aeiou"
_WORDS, _OFFSET = 150_000, 30
_TITLE, _TEXT, _STOP_SHARE = 2, 98, 0.4
#: Passages drawn at once.
_BLOCK = 1000


class SyntheticPassages:
    """Passages of 100 made-up words, and questions with one source each; the same in every process.

    Frequencies of words are Zipf-Mandelbrot, and four words in ten are English stop words: inverted lists are then as
    uneven in length as those of an encyclopaedia.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        rng = np.random.default_rng([seed, 0])
        syllables = [a + b for a in _CONSONANTS for b in _VOWELS]
        words = dict.fromkeys(
            "".join(syllables[i] for i in row[: 2 + row[0] % 3])
            for row in rng.integers(len(syllables), size=(2 * _WORDS, 4)).tolist()
        )
        self._words = np.array(list(words)[:_WORDS], dtype=object)
        weights = 1.0 / (np.arange(len(self._words)) + _OFFSET)
        self._shares = np.cumsum(weights / weights.sum())
        self._last: tuple[int, Words, Numbers] | None = None

    def passages(self, count: int) -> Iterator[Passage]:
        for block in range(-(-count // _BLOCK)):
            words, stop = self._drawn(block)
            mixed = np.where(stop >= 0, np.array(_STOP_WORDS, dtype=object)[stop], words)
            for i in range(min(_BLOCK, count - block * _BLOCK)):
                title, text = " ".join(words[i, :_TITLE]), " ".join(mixed[i, _TITLE:])
                yield Passage(str(block * _BLOCK + i), f'"{title}"\n{text}')

    def questions(self, count: int, passages: int) -> list[tuple[str, str]]:
        """Return questions of five words of one passage each, with the passage's id; of the first `passages`."""
        rng = np.random.default_rng([self._seed, 1])
        made = []
        for position in np.sort(rng.integers(passages, size=count)).tolist():
            words, stop = self._drawn(position // _BLOCK)
            terms = words[position % _BLOCK][stop[position % _BLOCK] < 0]
            made.append(("what is " + " the ".join(rng.choice(terms, 5, replace=False)), str(position)))
        return made

    def _drawn(self, block: int) -> tuple[Words, Numbers]:
        """Words, shape (passages, words of one), and the numbers of the stop words in their place (-1: none)."""
        if self._last is not None and self._last[0] == block:
            return self._last[1:]
        rng = np.random.default_rng([self._seed, 2, block])
        shape = (_BLOCK, _TITLE + _TEXT)
        words = self._words[np.searchsorted(self._shares, rng.random(shape)).clip(max=len(self._words) - 1)]
        stop = np.where(rng.random(shape) < _STOP_SHARE, rng.integers(len(_STOP_WORDS), size=shape), -1)
        stop[:, :_TITLE] = -1
        self._last = (block, words, stop)
        return words, stop


def measure_searches(repeats: int, seconds: float, count: int) -> list[Measurement]:
    """Passages indexed and queries answered per processor second, three hits a query."""
    made, found = SyntheticPassages(), list[Measurement]()
    passages = tuple(made.passages(count))
    questions = [question for question, _ in made.questions(2_000, count)]

    def add(key: str, what: str, speed: Speed, unit: str = "queries/s", ours: bool = True) -> None:
        found.append(Measurement.of(f"searches_{key}", "searches, Search-QA", what, speed, unit, ours))

    def rate(answer: Callable[[Sequence[str]], object], size: int) -> Speed:
        return best_rate(batches(questions, answer, size), start=size, seconds=seconds, repeats=repeats)

    watch = Stopwatch()
    lexical = watch.time(LexicalRetriever, passages)
    words = f"passages indexed in memory ({count:,} of 100 words)"
    add("build", words, watch.speed(count), "passages/s")
    add("batch", f"lexical, batches of {_BATCH}", rate(lambda batch: lexical.search(batch, _TOP), _BATCH))
    add("single", "lexical, one query at a time", rate(lambda batch: lexical.search(batch, _TOP), 1))
    with RetrievalServer(lexical) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        remote = HttpRetriever(server.url)
        words = f"lexical behind its server, batches of {_BATCH}, client's share included"
        add("http", words, rate(lambda batch: remote.search(batch, _TOP), _BATCH))
        server.shutdown()
        thread.join()
    with contextlib.closing(sqlite(passages)) as base:
        speed = rate(lambda batch: [sqlite_search(base, query) for query in batch], 1)
        add("sqlite", "SQLite FTS5 with its Porter stemmer, one query at a time", speed, ours=False)
    return found


def batches(questions: Sequence[str], answer: Callable[[Sequence[str]], object], size: int) -> Callable[[int], int]:
    """Return a function that answers about n questions in batches of a size and returns their number."""

    def work(count: int) -> int:
        done = 0
        while done < count:
            start = done % (len(questions) - size + 1)
            answer(questions[start : start + size])
            done += size
        return done

    return work


def sqlite(passages: Sequence[Passage]) -> sqlite3.Connection:
    """Return a full-text index of passages."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE VIRTUAL TABLE passages USING fts5(contents, tokenize = 'porter unicode61')")
    base.executemany("INSERT INTO passages VALUES (?)", ((passage.contents,) for passage in passages))
    return base


def sqlite_search(base: sqlite3.Connection, query: str) -> list[tuple[int]]:
    """Return the rows of the best hits, for the words that are no stop words."""
    words = [word for word in query.split() if word not in ("what", "is", "the")]
    match = " OR ".join(f'"{word}"' for word in words)
    return base.execute(
        "SELECT rowid FROM passages WHERE passages MATCH ? ORDER BY rank LIMIT ?", (match, _TOP)
    ).fetchall()
