"""`gpu`: the report on generation and training at known shapes, with random weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from agentgym.checks import suggest
from benchmarks.console import explained, say, stop, table, telling

_WHERE, _SIZES = "Where and how", "Sizes; defaults belong to the shape"


def gpu(
    shapes: Annotated[
        str,
        typer.Option(help="[bold]1.5B[/] (all weights), [bold]7B-lora[/] and [bold]tiny[/], separated by commas."),
    ] = "1.5B,7B-lora",
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the results; the same command goes on with the next shape.", rich_help_panel=_WHERE
        ),
    ] = Path("runs/gpu"),
    attention: Annotated[
        str | None, typer.Option(help="Attention, as transformers names it. Default: sdpa.", rich_help_panel=_WHERE)
    ] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Measured iterations.", rich_help_panel=_SIZES)] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Iterations left out before them.", rich_help_panel=_SIZES)
    ] = None,
    groups: Annotated[int | None, typer.Option(min=1, help="Tasks per iteration.", rich_help_panel=_SIZES)] = None,
    group_size: Annotated[int | None, typer.Option(min=2, help="Episodes per task.", rich_help_panel=_SIZES)] = None,
    turns: Annotated[int | None, typer.Option(min=1, help="Turns of an episode.", rich_help_panel=_SIZES)] = None,
    reply_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of a reply.", rich_help_panel=_SIZES)] = None,
    tokens: Annotated[
        int | None, typer.Option(min=8, help="Tokens of a training pass.", rich_help_panel=_SIZES)
    ] = None,
    decode_batch: Annotated[
        int | None, typer.Option(min=1, help="Replies side by side in the decode loop.", rich_help_panel=_SIZES)
    ] = None,
    decode_context: Annotated[
        int | None, typer.Option(min=1, help="Tokens before them.", rich_help_panel=_SIZES)
    ] = None,
) -> None:
    """Measure generation, training, memory and agreement of models with random weights.

    Writes [bold]gpu.json[/], [bold]report.md[/] and [bold]report.html[/]; [bold]check[/] says whether every figure is
    there. Without a GPU only [bold]tiny[/] runs, and what only a GPU can tell is marked absent.
    """
    import torch

    from benchmarks.gpu.report import write_report
    from benchmarks.gpu.shapes import SHAPES
    from benchmarks.gpu.study import DoesNotFitError, run_shapes

    names = [name.strip() for name in shapes.split(",") if name.strip()]
    for name in names:
        if name not in SHAPES:
            raise typer.BadParameter(f"unknown name {name!r}; {suggest(name, list(SHAPES))}", param_hint="--shapes")
    if not names or len(set(names)) < len(names):
        raise typer.BadParameter(f"expected distinct names such as 1.5B,7B-lora, got {shapes!r}", param_hint="--shapes")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    large = [name for name in names if name != "tiny"]
    if device.type == "cpu" and large:
        raise typer.BadParameter(
            f"{', '.join(large)}: no GPU is found here; tiny runs on a CPU (--shapes tiny)", param_hint="--shapes"
        )
    given: dict[str, Any] = {
        "attention": attention, "iterations": iterations, "warmup": warmup, "groups": groups,
        "group_size": group_size, "turns": turns, "reply_tokens": reply_tokens, "tokens": tokens,
        "decode_batch": decode_batch, "decode_context": decode_context,
    }  # fmt: skip
    chosen = {name: value for name, value in given.items() if value is not None}
    asked = {name: dataclasses.replace(SHAPES[name].sizes, **chosen) for name in names}
    console, kept = Console(), "Shapes measured before are kept: the same command continues."
    with explained("stopped; the same command continues with the next shape", kept), telling(console, "gpu") as tell:
        try:
            found = run_shapes(asked, out, device, tell)
        except (DoesNotFitError, ValueError) as error:
            # A ValueError is an attention that is not installed, or a folder with other sizes.
            raise stop(str(error), 1 if isinstance(error, DoesNotFitError) else 2) from None
    show(found, console)
    page, text = write_report(found, out)
    say(console, f"report: {page}\ntable: {text}\nnumbers: {out / 'gpu.json'}")


def show(found: Any, console: Console) -> None:
    """Print the table with its notes."""
    from benchmarks.gpu.table import lines, notes

    heads, rows = lines(found)
    console.print(
        table(["", *heads], [[name, *texts] for name, texts in rows], title="Generation and training, random weights")
    )
    for note in notes(found):
        say(console, note)
