"""`evaluate`: one player on a whole split, success per kind of task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console


def evaluate(
    env: Annotated[
        str,
        typer.Option(
            help="[bold]alfworld[/], [bold]webshop[/], [bold]searchqa[/], [bold]sotopia[/], [bold]sokoban[/] or an id."
        ),
    ] = "alfworld",
    split: Annotated[str | None, typer.Option(help="Whose levels. Default: the split of the test.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="[bold]random[/], [bold]expert[/] (the environment's own), [bold]explorer[/], [bold]shopper[/] and "
            "[bold]reader[/] (know what they have seen in ALFWorld, WebShop and Search-QA), a job folder such as "
            "runs/alfworld/clone-seed0, or the folder of a Hugging Face model. May be given several times. Default: "
            "all that need no folder."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Argument of the environment, such as [bold]data=FOLDER[/] or [bold]task_types=\\[1,2][/]. May be "
            "given several times."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Longest episode. Default: the environment's.")] = None,
    levels: Annotated[int | None, typer.Option(min=1, help="Number of levels. Default: the whole split.")] = None,
    temperature: Annotated[float, typer.Option(min=0, help="Of a model; 0 is greedy.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes and draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Play a whole split and print success per kind of task, as papers do."""
    from benchmarks.environments.rows import settings_of
    from benchmarks.json_files import ResultsError, write_json
    from benchmarks.learning.kind_table import KindRow, kind_table
    from benchmarks.learning.whole_split import Request, play_split, scripted

    row = settings_of(env)
    split = split or row.setup.test
    options = {**arguments(option or ()), "split": split}
    if steps is not None:
        options["max_episode_steps"] = steps
    console, rows = Console(), []
    figures: dict[str, dict[str, Any]] = {}
    try:
        for player in policy or scripted(row):
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
        words = (
            f"{line.label}: {row.return_name} {found['mean_return']:.2f}, {found['episode_length']:.1f} steps, "
            f"{100 * found['invalid_rate']:.1f} % refused"
        )
        console.print(words, markup=False, highlight=False)
        if player != line.label:
            console.print(f"  ({player})", style="dim", markup=False, highlight=False)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(figures, out)


def arguments(given: Sequence[str]) -> dict[str, Any]:
    """Read "name=value" words; a value that is JSON is what it says, any other is text.

    >>> arguments(["data=~/alfworld", "task_types=[1, 2]", "reward=10"])
    {'data': '~/alfworld', 'task_types': [1, 2], 'reward': 10}
    """
    found: dict[str, Any] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not (equals and name.isidentifier()):
            raise typer.BadParameter(f"expected name=value, got {word!r}", param_hint="--option")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
