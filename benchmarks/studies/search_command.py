"""`search`: what an index of Search-QA costs, over the size of the corpus or for a corpus of one's own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.studies.search_scale import Question, Scale


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
    from agentgym.searchqa.official.questions import read_questions
    from benchmarks.json_files import write_json
    from benchmarks.studies.search_scale import measure_scale, write_synthetic

    try:
        sizes = [int(size) for size in passages.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise typer.BadParameter(f"expected numbers of passages such as 10000,100000, got {passages!r}")
    if (corpus is None) != (questions is None):
        raise typer.BadParameter("a corpus needs its questions, and questions their corpus", param_hint="--corpus")
    console = Console()
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
    console.print(_table(rows))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(rows, out)


def _table(found: list[Scale]) -> Table:
    """A column for each corpus."""
    table = Table(title="lexical index of Search-QA, three hits a query", show_edge=False)
    table.add_column("passages")
    for scale in found:
        table.add_column(f"{scale.searched.passages:,}", justify="right")
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
    for words, cell in rows:
        table.add_row(words, *[cell(scale) for scale in found])
    return table
