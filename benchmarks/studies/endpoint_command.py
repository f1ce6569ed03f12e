"""`endpoint`: dialogues with models at a time, over one dialogue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def endpoint(
    dialogues: Annotated[int, typer.Option(min=2, help="Dialogues at a time.")] = 128,
    delay: Annotated[float, typer.Option(min=0.0, help="Seconds of each answer of the endpoint.")] = 0.2,
    turns: Annotated[int, typer.Option(min=2, help="Turns of a dialogue, half of them the partner's.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds whose median counts.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Time SOTOPIA against a stub of a model's endpoint: how well do many dialogues wait at the same time?"""
    from benchmarks.json_files import encode, write_json
    from benchmarks.studies.endpoint_speed import measure_endpoint

    try:
        found = measure_endpoint(dialogues, delay, turns, repeats)
    except ImportError as error:
        raise typer.BadParameter(str(error)) from None
    console = Console()
    console.print(
        f"{turns} turns and a verdict, {delay * 1000:g} ms an answer: one dialogue {found.one:.2f} s, "
        f"{dialogues} at a time {found.many:.2f} s, {found.ratio:.2f} times as long "
        f"({found.processor:.2f} s of the processor)",
        highlight=False,
        soft_wrap=True,
    )
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json({**encode(found), "ratio": found.ratio}, out)
