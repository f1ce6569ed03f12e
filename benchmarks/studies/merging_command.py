"""`merging`: how many states of Search-QA each state key takes for one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


def merging(
    questions: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 64,
    group_size: Annotated[int, typer.Option(min=2, help="Episodes of each.")] = 8,
    source: Annotated[str, typer.Option(help="Whose questions.")] = "two_hop",
    encoder: Annotated[
        str | None,
        typer.Option(help="Name or folder of a sentence-transformers model; without it, counts of words are compared."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the episodes.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Measure how many states of Search-QA each state key merges, on the generated encyclopaedia."""
    import gymnasium as gym

    import agentgym  # noqa: F401  # registers the environments
    from benchmarks.json_files import write_json
    from benchmarks.learning.stack import PLACES
    from benchmarks.studies.merging import bag_of_words, measure_merging
    from wrappers.similar_states import SentenceEncoder

    def make() -> Any:
        places = min(PLACES, questions * group_size)
        return gym.make_vec("AgentRL/SearchQA-v0", places, autoreset_mode="Disabled", expert=True)

    tasks = [{"split": "test", "index": i, "data_source": source} for i in range(questions)]
    embed: Any = SentenceEncoder(encoder) if encoder else bag_of_words
    try:
        found = measure_merging(make, tasks, group_size=group_size, seed=seed, embed=embed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    table = Table(title=f"Search-QA, {source}: {questions} questions x {group_size} episodes", title_justify="left")
    table.add_column("state key")
    table.add_column("states", justify="right")
    table.add_column("merged of exact", justify="right")
    table.add_column("steps in a shared state", justify="right")
    for row in found:
        less = 1 - row.states / found[0].states
        table.add_row(row.key, f"{row.states:,}", f"{100 * less:.1f} %", f"{100 * row.met:.1f} %")
    Console().print(table)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(found, out)
