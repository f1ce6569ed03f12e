"""What an index folder of Search-QA costs: to build, to open and to search, in time and memory."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agentgym.searchqa.retrieval.index_folder import build_index, open_index
from agentgym.searchqa.retriever import Found, Retriever
from benchmarks.throughput.synthetic_passages import SyntheticPassages

R = TypeVar("R")
#: A question and the ids of the passages that support its answer.
Question = tuple[str, Sequence[str]]
_BATCH, _TOP = 256, 3


@dataclass(frozen=True)
class Built:
    """One build: its seconds on the clock and of the processor, and the largest memory of the process, in MB."""

    seconds: float
    processor_seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Searched:
    """One process that opens a folder and searches in it.

    Attributes:
        passages: how many there are.
        open_ms: from the call that opens the folder to the first hits.
        queries: how many were searched for, in batches.
        per_second: queries a second with one thread, on the clock.
        per_second_threads: the same with one thread for each processor.
        per_processor_second: queries a second of the processor, with one thread.
        recall: share of a question's supporting passages among the first three hits, mean over the questions.
        own_mb: memory that the process cannot give back, at the end.
        peak_mb: its largest memory, with the pages of the index that the system keeps while nobody else needs them.
    """

    passages: int
    open_ms: float
    queries: int
    per_second: float
    per_second_threads: float
    per_processor_second: float
    recall: float
    own_mb: float
    peak_mb: float


@dataclass(frozen=True)
class Scale:
    """One corpus: the sizes of its file and of its folder in MB, and what building and searching cost."""

    corpus_mb: float
    folder_mb: float
    built: Built
    searched: Searched


def write_synthetic(path: Path, passages: int, questions: int) -> list[Question]:
    """Write a corpus of made-up passages and return questions on it."""
    made = SyntheticPassages()
    with open(path, "w", encoding="utf-8") as stream:
        for passage in made.passages(passages):
            stream.write(json.dumps(passage._asdict()) + "\n")
    return [(question, [source]) for question, source in made.questions(questions, passages)]


def measure_scale(corpus: Path, questions: Sequence[Question], folder: Path) -> Scale:
    """Build the index of a corpus in a folder that is not there yet; open it and search; each in a fresh process.

    Raises:
        ValueError: when the folder is there already: nothing would be built.
    """
    if folder.exists():
        raise ValueError(f"{folder} exists: what building costs cannot be measured; remove it or name another folder")
    built = in_fresh_process(_build, corpus, folder)
    searched = in_fresh_process(_search, folder, list(questions))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Scale(corpus.stat().st_size / 1e6, size / 1e6, built, searched)


def in_fresh_process(work: Callable[..., R], *arguments: Any) -> R:
    """Return what a function of a module returns in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def _build(corpus: Path, folder: Path) -> Built:
    clock, processor = time.perf_counter(), time.process_time()
    build_index(corpus, folder)
    return Built(time.perf_counter() - clock, time.process_time() - processor, _memory("VmHWM"))


def _search(folder: Path, questions: list[Question]) -> Searched:
    texts = [question for question, _ in questions]
    clock = time.perf_counter()
    retriever = open_index(folder, threads=1)
    retriever.search(texts[:1], _TOP)
    opened = time.perf_counter() - clock
    processor = time.process_time()
    found, one = _batched(retriever, texts)
    processor = time.process_time() - processor
    _, several = _batched(open_index(folder), texts)
    shares = [
        len({hit.passage.id for hit in hits} & set(supports)) / len(supports)
        for hits, (_, supports) in zip(found, questions, strict=True)
        if isinstance(hits, tuple)
    ]
    return Searched(
        len(retriever.passages), 1e3 * opened, len(texts), one, several, len(texts) / processor,
        sum(shares) / len(shares), _memory("RssAnon"), _memory("VmHWM"),
    )  # fmt: skip


def _batched(retriever: Retriever, texts: Sequence[str]) -> tuple[list[Found], float]:
    """Search in batches; return what was found, and how many queries it was in a second on the clock."""
    clock = time.perf_counter()
    found = [hits for i in range(0, len(texts), _BATCH) for hits in retriever.search(texts[i : i + _BATCH], _TOP)]
    return found, len(texts) / (time.perf_counter() - clock)


def _memory(name: str) -> float:
    """Return a size of this process in MB, as Linux tells it; nan elsewhere."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return float("nan")
    (line,) = [line for line in status.splitlines() if line.startswith(name + ":")]
    return int(line.split()[1]) * 1024 / 1e6
