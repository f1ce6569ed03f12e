"""`search`: what an index folder of Search-QA costs: to build, to open and to search, in time and memory."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentgym.searchqa.official import read_questions
from agentgym.searchqa.retrieval.index_folder import build_index, open_index
from agentgym.searchqa.retriever import Found, Retriever
from benchmarks.console import save_figures, table
from benchmarks.processes import in_fresh_process
from benchmarks.throughput.synthetic_passages import SyntheticPassages

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


def search(
    passages: Annotated[str, typer.Option(help="Sizes of made-up corpora, separated by commas.")] = "10000,100000",
    corpus: Annotated[Path | None, typer.Option(help="A corpus file, in the place of made-up ones.")] = None,
    questions: Annotated[
        Path | None, typer.Option(help="Its questions; those with supporting passages are searched for.")
    ] = None,
    queries: Annotated[int, typer.Option(min=1, help="Number of questions on a made-up corpus.")] = 2_000,
    folder: Annotated[
        Path | None, typer.Option(help="Where corpora and indexes are written and stay. Default: removed at the end.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Measure building, opening and searching the lexical index of Search-QA."""
    try:
        sizes = [int(size) for size in passages.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise typer.BadParameter(f"expected numbers of passages such as 10000,100000, got {passages!r}")
    if (corpus is None) != (questions is None):
        raise typer.BadParameter("a corpus needs its questions, and questions their corpus", param_hint="--corpus")
    rows: list[Scale] = []
    asked: list[Question]
    try:
        with tempfile.TemporaryDirectory() as temporary:
            where = Path(temporary) if folder is None else folder
            where.mkdir(parents=True, exist_ok=True)
            if corpus is not None and questions is not None:
                asked = [(each.text, each.supports) for each in read_questions(questions) if each.supports]
                if not asked:
                    raise ValueError(f"{questions}: no question names the passages that support its answer")
                rows.append(measure_scale(corpus, asked, where / "index"))
            else:
                for size in sizes:
                    path = where / f"passages-{size}.jsonl"
                    asked = write_synthetic(path, size, queries)
                    rows.append(measure_scale(path, asked, where / f"index-{size}"))
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    Console().print(_table(rows))
    save_figures(rows, out)


def _table(found: list[Scale]) -> Table:
    """A column for each corpus."""
    rows: tuple[tuple[str, Callable[[Scale], str]], ...] = (
        ("corpus file", lambda scale: f"{scale.corpus_mb:,.0f} MB"),
        ("index folder", lambda scale: f"{scale.folder_mb:,.0f} MB"),
        ("build, on the clock", lambda scale: f"{scale.built.seconds:,.1f} s"),
        ("build, of the processor", lambda scale: f"{scale.built.processor_seconds:,.1f} s"),
        ("build, peak memory", lambda scale: f"{scale.built.peak_mb:,.0f} MB"),
        ("open, to the first hits", lambda scale: f"{scale.searched.open_ms:,.0f} ms"),
        ("queries/s on the clock, one thread", lambda scale: f"{scale.searched.per_second:,.0f}"),
        ("queries/s on the clock, all threads", lambda scale: f"{scale.searched.per_second_threads:,.0f}"),
        ("queries per processor second", lambda scale: f"{scale.searched.per_processor_second:,.0f}"),
        ("recall of supporting passages at 3", lambda scale: f"{scale.searched.recall:.3f}"),
        ("own memory", lambda scale: f"{scale.searched.own_mb:,.0f} MB"),
        ("peak memory, with pages of the index", lambda scale: f"{scale.searched.peak_mb:,.0f} MB"),
    )
    return table(
        ["passages", *(f"{scale.searched.passages:,}" for scale in found)],
        [(words, *(cell(scale) for scale in found)) for words, cell in rows],
        title="lexical index of Search-QA, three hits a query",
        show_edge=False,
    )
