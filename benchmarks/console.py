"""Output of commands: progress, tables, and one sentence for an error.

Names and texts from outside are shown as they are: rich reads no markup in them.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agentgym.outside.files import LockedError, OtherConfigurationError
from agentgym.outside.text import DataError, clean
from benchmarks.json_files import write_json
from benchmarks.machine import missing_package
from benchmarks.processes import Job, JobFailedError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table
    from rich.text import Text

#: Shown where there is no value.
NONE = "-"
#: Seconds between two lines of one job.
_PAUSE = 30.0

Report = Callable[[Job, int, int, str], None]


def stop(message: str, status: int) -> typer.Exit:
    """Print why a command ends and return what to raise.

    Status 2: wrong usage (an unknown name, a folder with other results, a missing package); 1: failed while it ran;
    130: Ctrl-C; 143: SIGTERM.
    """
    from rich.console import Console

    style = "yellow" if status > 128 else "red"
    Console(stderr=True).print(clean(message), style=style, markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(status)


@contextlib.contextmanager
def explained(stopped: str, kept: str = "") -> Iterator[None]:
    """End the command in a sentence where the block fails or is stopped.

    `stopped` is printed after Ctrl-C and SIGTERM, `kept` after a failure.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise stop(missing_package(error), 2) from None
    except (OtherConfigurationError, LockedError, DataError, ImportError) as error:
        raise stop(str(error), 2) from None
    except KeyboardInterrupt:
        raise stop(stopped, 130) from None
    except SystemExit as end:
        if end.code != 143:
            raise
        raise stop(stopped, 143) from None
    except (OSError, JobFailedError) as error:
        raise stop(f"{error}\n{kept}".strip(), 1) from None


@contextlib.contextmanager
def patient(console: Console, awaited: str) -> Iterator[Callable[[], None]]:
    """Let the first Ctrl-C wait for `awaited`; the second one stops at once.

    Yields a function that raises KeyboardInterrupt after the first Ctrl-C: call it where nothing is under way.
    """
    heard = False

    def first(number: int, frame: object) -> None:
        nonlocal heard
        heard = True
        signal.signal(signal.SIGINT, before)
        say(console, f"stopping after {awaited}; Ctrl-C again stops at once", "yellow")

    def check() -> None:
        if heard:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield check
        return
    before = signal.signal(signal.SIGINT, first)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def say(console: Console | None, words: str, style: str = "") -> None:
    """Print a line as it is, on a new console for None: no markup, no colours of numbers, no line breaks."""
    if console is None:
        from rich.console import Console

        console = Console()
    console.print(clean(words), style=style, markup=False, highlight=False, soft_wrap=True)


def save_figures(value: Any, path: Path | None) -> None:
    """Write the results of a study, if a file is given."""
    if path is not None:
        write_json(value, path)


def option(words: str, *names: str, **how: Any) -> Any:
    """Return an option of a command: its help, its spellings, its limits."""
    return typer.Option(*names, help=words, **how)


def parse_seeds(text: str) -> list[int]:
    """Read numbers and ranges, separated by commas.

    >>> parse_seeds("0,1,5"), parse_seeds("0-2,7")
    ([0, 1, 5], [0, 1, 2, 7])
    """
    most, found = 1000, list[int]()
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), min(int(last or first), int(first) + most) + 1)
    except ValueError:
        found = []
    if not found or len(set(found)) < len(found) or len(found) > most:
        raise typer.BadParameter(
            f"expected at most {most} distinct numbers such as 0,1,2 or 0-2, got {text!r}", param_hint="--seeds"
        )
    return found


def named(**options: Any) -> dict[str, Any]:
    """Return the options that were given: those that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def arguments(given: Sequence[str], hint: str = "--option") -> dict[str, Any]:
    """Read "name=value" words; a value that is JSON is what it says, any other is text.

    >>> arguments(["data=~/alfworld", "task_types=[1, 2]", "reward=10"])
    {'data': '~/alfworld', 'task_types': [1, 2], 'reward': 10}
    """
    found: dict[str, Any] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not (equals and all(part.isidentifier() for part in name.split("."))):
            raise typer.BadParameter(f"expected name=value, got {word!r}", param_hint=hint)
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def table(heads: Sequence[str], rows: Iterable[Sequence[str | Text] | None], *, left: int = 1, **options: Any) -> Table:
    """Return a table for a terminal; for a row that is None a rule, `options` are of `rich.table.Table`."""
    from rich.table import Table
    from rich.text import Text

    for name in ("title", "caption"):
        if name in options:
            options[name] = Text(clean(options[name]), style="table." + name)
    shown = Table(**{"title_justify": "left", "caption_justify": "left", **options})
    for i, head in enumerate(heads):
        shown.add_column(Text(clean(head)), justify="left" if i < left else "right", overflow="fold")
    for row in rows:
        if row is None:
            shown.add_section()
        else:
            shown.add_row(*(Text(clean(cell)) if isinstance(cell, str) else cell for cell in row))
    return shown


@contextlib.contextmanager
def telling(console: Console, begin: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a few words: as a status line in a terminal, as lines anywhere else."""
    from rich.text import Text

    with console.status(begin) as status:

        def tell(words: str) -> None:
            status.update(Text(clean(words)))
            if not console.is_terminal:
                say(console, words)

        yield tell


@contextlib.contextmanager
def shown(jobs: Sequence[Job], console: Console) -> Iterator[Report]:
    """Yield a function of a job, steps done, their number and words: bars in a terminal, lines anywhere else."""
    if not console.is_terminal:
        yield lines(console)
        return
    with _bars(console) as bars:
        ids: dict[Job, TaskID] = {
            job: bars.add_task(job.name, total=None, start=False, words="waiting") for job in jobs
        }

        def report(job: Job, done: int, total: int, words: str) -> None:
            if not bars.tasks[ids[job]].started:
                bars.start_task(ids[job])
            bars.update(ids[job], completed=done, total=total, words=words)

        yield report


def lines(console: Console, clock: Callable[[], float] = time.monotonic) -> Report:
    """Return a report that prints a job's first and last step, and others after a while without output."""
    printed: dict[Job, float] = {}

    def report(job: Job, done: int, total: int, words: str) -> None:
        now = clock()
        if done < total and job in printed and now - printed[job] < _PAUSE:
            return
        printed[job] = now
        say(console, f"{job.name} {done}/{total} {words}")

    return report


def _bars(console: Console) -> Progress:
    from rich import progress
    from rich.table import Column

    name, count = Column(no_wrap=True, min_width=16), Column(no_wrap=True, min_width=7)
    columns: list[progress.ProgressColumn] = [
        progress.TextColumn("{task.description}", style="bold", table_column=name, markup=False),
        progress.BarColumn(bar_width=10),
        progress.MofNCompleteColumn(table_column=count),
    ]
    if console.width >= 110:
        columns += [progress.TimeElapsedColumn(), progress.TextColumn("left")]
    words = progress.TextColumn("{task.fields[words]}", style="dim", markup=False)
    return progress.Progress(*columns, progress.TimeRemainingColumn(compact=True), words, console=console)
