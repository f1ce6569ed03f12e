"""`grade`: the log of another program, played again on the exact engine, line by line.

python -m benchmarks.run grade LOG --panel alfworld/valid_unseen@1 --option data=~/.cache/alfworld
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentgym.outside.text import clean
from agentgym.panels import OpenPanel
from benchmarks.console import arguments, explained, save_figures, say, stop
from benchmarks.json_files import ResultsError
from benchmarks.panels.command import choose_panel, data_of
from benchmarks.panels.replay import Graded, Replay
from benchmarks.panels.results import PanelResults, PolicyInfo, results_of, save
from benchmarks.panels.table import percent, print_anchors
from benchmarks.panels.transcripts import FORMATS, read_log
from benchmarks.statistics import wilson_interval


@dataclass(frozen=True)
class Grades:
    """What `--out` holds.

    Attributes:
        log: the file.
        panel: name of the panel.
        hash: its hash.
        differing: episodes of which the log says something else than the engine.
        grades: one for each episode of the log.
    """

    log: str
    panel: str
    hash: str
    differing: int
    grades: list[Graded]


def grade_log(log: Path, found: OpenPanel, kinds: str = "", form: str | None = None) -> Grades:
    """Play all episodes of a log again.

    Raises:
        ResultsError: the log cannot be read; names file and line.
    """
    replay = Replay(found, kinds)
    grades = [replay.grade(episode) for episode in read_log(log, form)]
    differing = sum(bool(one.differences) for one in grades)
    return Grades(str(log), found.panel.name, found.hash, differing, grades)


def results_of_log(found: OpenPanel, graded: Grades) -> PanelResults | None:
    """Return the results of a log that has every task of the panel equally often, None for any other."""
    episodes = [one.episode for one in graded.grades if one.episode is not None]
    times = Counter(episode.task for episode in episodes)
    if len(episodes) < len(graded.grades) or {times[task.id] for task in found.tasks} != {max(times.values())}:
        return None
    return results_of(
        found, {(each.task, each.sample): each for each in episodes}, max(times.values()), seed=0, machine=None,
        policy=PolicyInfo(Path(graded.log).name, {}, ""), data=data_of(found),
    )  # fmt: skip


def grade(
    log: Annotated[Path, typer.Argument(help="The log, plain or packed.")],
    panel: Annotated[str, typer.Option(help="Which tasks: a panel, or an environment and a split.")],
    form: Annotated[
        str | None, typer.Option("--format", help=f"Of the log: {', '.join(FORMATS)}. Default: it is found out.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Argument of the environment, such as [bold]data=FOLDER[/].")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the episodes that differ.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the grades to this JSON file.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Write what [bold]compare[/] reads, if every task is there equally often.")
    ] = None,
) -> None:
    """Play the episodes of another program's log again and say of each whether the log tells what happened."""
    if form is not None and form not in FORMATS:
        raise typer.BadParameter(f"expected one of {', '.join(FORMATS)}, got {form!r}", param_hint="--format")
    console = Console()
    with explained("stopped"):
        try:
            found, row = choose_panel(panel, arguments(option or ()))
            setup = row.pretrained_setup or row.setup
            graded = grade_log(log, found, setup.kinds, form)
        except ResultsError:
            raise
        except ValueError as error:
            raise typer.BadParameter(clean(str(error))) from None
        for one in graded.grades:
            if one.differences or not quiet:
                say(console, f"{log}:{line_of(one)}", "red" if one.differences else "")
        _print_summary(found, graded.grades, console)
        save_figures(graded, out)
        if results is not None:
            whole = results_of_log(found, graded)
            if whole is None:
                raise stop(f"{results}: not written: the log has not every task of {found.panel.name} equally often", 1)
            save(whole, results)
    if graded.differing:
        raise typer.Exit(1)


def line_of(one: Graded) -> str:
    """Return what is said of an episode: its line, task, whether the log agrees, and what was reached."""
    if one.episode is None:
        return f"{one.line}: differs; {one.differences[0]}"
    won = "won" if one.episode.won else f"not won (score {one.episode.score:g})"
    reached = f"{won}, {one.episode.steps} actions, {one.episode.invalid} impossible, {one.texts} texts compared"
    if not one.differences:
        return f"{one.line}: {one.task}: agrees; {reached}"
    more = f" (and {len(one.differences) - 1} more)" if len(one.differences) > 1 else ""
    return f"{one.line}: {one.task}: differs; {one.differences[0]}{more}; {reached}"


def _print_summary(found: OpenPanel, grades: Sequence[Graded], console: Console) -> None:
    episodes = [one.episode for one in grades if one.episode is not None]
    differing = sum(bool(one.differences) for one in grades)
    say(console, f"{len(grades)} episodes, {differing} differ from the engine", "red" if differing else "green")
    if not episodes:
        return
    times = Counter(episode.task for episode in episodes)
    again = sum(count > 1 for count in times.values())
    say(console, f"tasks: {len(times)} of the {len(found.tasks)} of {found.panel.name}, {again} of them more than once")
    won = wilson_interval(sum(episode.won for episode in episodes), len(episodes))
    claims = [one.claimed for one in grades if one.claimed is not None]
    claimed = f", the log claims {100 * sum(claims) / len(claims):.1f}" if claims else ""
    actions = sum(episode.steps for episode in episodes)
    refused = 100 * sum(episode.invalid for episode in episodes) / max(1, actions)
    score = sum(episode.score for episode in episodes) / len(episodes)
    say(console, f"success {percent(won)} %{claimed}; score {100 * score:.1f}; {refused:.1f} % of actions impossible")
    print_anchors(found.panel.name, console)
