"""`evaluate`: one player on a whole split, success per kind of task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console


def evaluate(
    env: Annotated[
        str, typer.Option(help="[bold]alfworld[/], [bold]searchqa[/], [bold]sokoban[/] or an id.")
    ] = "alfworld",
    split: Annotated[str, typer.Option(help="Whose levels.")] = "valid_unseen",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="[bold]random[/], [bold]expert[/] (the environment's own), [bold]explorer[/] and [bold]reader[/] "
            "(know what they have seen in ALFWorld and Search-QA), a job folder such as runs/alfworld/clone-seed0, or "
            "the folder of a Hugging Face model. May be given several times. Default: all scripted ones that fit."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="ALFWorld: folder of the official games; without it they are generated.")
    ] = None,
    task_types: Annotated[
        str | None, typer.Option(help="ALFWorld: numbers (1 to 6) or names of task types, separated by commas.")
    ] = None,
    corpus: Annotated[Path | None, typer.Option(help="Search-QA: file of passages, or index folder.")] = None,
    questions: Annotated[Path | None, typer.Option(help="Search-QA: file of questions.")] = None,
    retriever: Annotated[str | None, typer.Option(help="Search-QA: name of a retriever, or URL of a server.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Longest episode. Default: the environment's.")] = None,
    levels: Annotated[int | None, typer.Option(min=1, help="Number of levels. Default: the whole split.")] = None,
    temperature: Annotated[float, typer.Option(min=0, help="Of a model; 0 is greedy.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes and draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Play a whole split and print success per kind of task, as papers do."""
    from benchmarks.json_files import ResultsError, write_json
    from benchmarks.kind_table import KindRow, kind_table
    from benchmarks.settings import settings_of
    from benchmarks.whole_split import Request, play_split

    row, options = settings_of(env), _options(data, split, task_types, steps)
    given = {"corpus": corpus, "questions": questions, "retriever": retriever}
    options |= {name: str(value) for name, value in given.items() if value is not None}
    console, rows = Console(), []
    figures: dict[str, dict[str, Any]] = {}
    try:
        for player in policy or row.players:
            played = play_split(Request(row.id, split, player, options, levels, temperature, seed))
            kinds = played.success_by(row.setup.kinds) if row.setup.kinds else {"": played.success}
            label = Path(player).name or player
            won = {kind: int(success.sum()) for kind, success in kinds.items()}
            rows.append(KindRow(label, won, {kind: int(success.size) for kind, success in kinds.items()}))
            figures[player] = {**played.summary(), "won": won, "played": rows[-1].played}
    except (ResultsError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    played_kinds = {kind: name for kind, name in row.kind_names.items() if any(kind in line.played for line in rows)}
    console.print(kind_table(f"{row.id}, {split}", rows, played_kinds))
    for (player, found), line in zip(figures.items(), rows, strict=True):
        words = f"{line.label}: {found['episode_length']:.1f} steps, {100 * found['invalid_rate']:.1f} % refused"
        console.print(words, markup=False, highlight=False)
        if player != line.label:
            console.print(f"  ({player})", style="dim", markup=False, highlight=False)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(figures, out)


def _options(data: Path | None, split: str, task_types: str | None, steps: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if data is not None:
        options |= {"data": str(data), "split": split}  # the folder may hold no other split
    if task_types is not None:
        names = [name.strip() for name in task_types.split(",")]
        options["task_types"] = [int(name) if name.isdigit() else name for name in names]
    if steps is not None:
        options["max_episode_steps"] = steps
    return options
