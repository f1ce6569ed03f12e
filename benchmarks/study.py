"""Studies: a study is data; this runs it, resumes it, writes its results and makes its command.

A study has parts, each in a file of its own, so that the same command continues after Ctrl-C. Its folder then holds

    config.json    the configuration; another one needs another folder
    <part>.json    finished parts: the same command continues
    <file>.json    everything that was found
    report.html    tables and figures in one self-contained page
    report.md      the same as Markdown
    <figure>.png   the figures
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import typer
from rich.console import Console

from benchmarks import json_files, options
from benchmarks.console import explained, say, shown, telling
from benchmarks.json_files import claimed, created, write_json
from benchmarks.machine import Machine, describe_machine, usable_cores
from benchmarks.processes import Job, Progress, Work, run_jobs
from benchmarks.report.page import Page, print_page, write_between, write_page

if TYPE_CHECKING:
    from baselines.runs.data_source import DataSource

C = TypeVar("C")
R = TypeVar("R")
#: Called with a few words about what is done.
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the files of all studies hold. A study adds `config` and what it found.

    `created` is a time in UTC, "" in old files of the head to head.
    """

    version: int
    created: str = ""
    machine: Machine


F = TypeVar("F", bound=Found)


def _no_command() -> Any:
    raise TypeError("this study has a command of its own")


@dataclass(frozen=True, kw_only=True)
class Study(Generic[C, R, F]):
    """A study. `C` is the dataclass of its configuration, `R` that of a part, `F` that of all that it found.

    Attributes:
        name: of its command, and of its folder in `runs/`.
        part: what a part is called in messages, such as "training".
        record, results: classes of a part's result, and of everything: a `Found` with `config` and the fields of
            `summary`, or one field of all records.
        configure: options of the command to a configuration. Has `quick` and a docstring, which is the command's help.
            Raises `typer.BadParameter` or `ResultsError` where something else is expected.
        parts: distinct names of the parts, in the order of the results.
        run: does one part, and calls its last argument with steps done, their number and a few words.
        summary: further fields of the results, of the records in the order of the parts and of what was prepared.
        check: raises `ResultsError` where the results do not fit together.
        prepare: what the parts of one run share, such as a policy; entered after the folder is claimed.
        processes: whether parts run in processes, of one thread each. `run` is then a function of a module, and it and
            `summary` get the folder in place of what was prepared; `needs` are parts that a part waits for.
        kept: where a part is kept, below the folder; "{}" stands for its name.
        source: the tasks that are played, noted in the folder, see `baselines.runs.data_source`.
        published: whether the command writes a page of docs/results between the marks of the study's name.
    """

    name: str
    file: str
    version: int
    part: str
    record: type[R]
    results: type[F]
    configure: Callable[..., C] = _no_command
    parts: Callable[[C], Sequence[str]]
    run: Callable[[C, str, Any, Progress], R]
    page: Callable[[F], Page]
    summary: Callable[[C, list[R], Any], Mapping[str, Any]] | None = None
    check: Callable[[F], None] = lambda found: None
    prepare: Callable[[C, Path, Tell], AbstractContextManager[Any]] = lambda *given: contextlib.nullcontext()
    processes: bool = False
    needs: Callable[[C, str], Sequence[str]] = lambda config, part: ()
    kept: str = "{}.json"
    source: DataSource | None = None
    published: bool = False

    def play(self, config: C, folder: Path, console: Console | None = None, processes: int = 1) -> F:
        """Do the parts that are not finished, with at most `processes` at a time, and write the results.

        A `LockedError` says that another process works in the folder, an `OtherConfigurationError` that it holds
        another configuration, a `JobFailedError` which part failed. After KeyboardInterrupt call again to continue.
        """
        console = console or Console(quiet=True)
        with claimed(folder, config):
            if self.source is not None:
                self.source.note(folder)
            parts = self.parts(config)
            if self.processes:
                work = functools.partial(_part, self.run, config, folder, self.kept)
                with self.prepare(config, folder, functools.partial(say, console)):
                    work_off(
                        [_job(part) for part in parts], work, lambda job: self.path(folder, job.method).is_file(),
                        needs=lambda job: [_job(part) for part in self.needs(config, job.method)],
                        folder=folder, what=self.part, processes=processes, console=console,
                    )  # fmt: skip
                    found = self.gather(config, folder, folder)
            else:
                with telling(console, self.name) as tell, self.prepare(config, folder, tell) as context:
                    left = [part for part in parts if not self.path(folder, part).is_file()]
                    _say_done(len(parts) - len(left), len(parts), self.part, folder, console)
                    for part in left:
                        tell(part)
                        self.do(config, folder, part, functools.partial(_steps, tell, part), context)
                    found = self.gather(config, folder, context)
            self.save(found, folder / self.file)
        return found

    def path(self, folder: Path, part: str) -> Path:
        return folder / self.kept.format(part_name(part))

    def do(self, config: C, folder: Path, part: str, progress: Progress, context: Any) -> None:
        self.keep(self.run(config, part, context, progress), folder, part)

    def keep(self, record: R, folder: Path, part: str) -> None:
        """Write a part's result, with which the part is finished."""
        _keep(record, self.path(folder, part))

    def one(self, folder: Path, part: str) -> R:
        return json_files.load(self.record, self.path(folder, part))

    def gather(self, config: C, folder: Path, context: Any = None) -> F:
        return self.found(config, [self.one(folder, part) for part in self.parts(config)], context)

    def found(self, config: C, records: list[R], context: Any) -> F:
        make: Any = self.results
        more = {fields(make)[-1].name: records} if self.summary is None else self.summary(config, records, context)
        found: F = make(version=self.version, created=created(), machine=describe_machine(), config=config, **more)
        return found

    def save(self, found: F, path: Path) -> None:
        """Check and write; the file appears whole or not at all."""
        self.check(found)
        write_json(found, path)

    def load(self, path: Path) -> F:
        return json_files.load(self.results, path, version=self.version, check=self.check)

    def shown(self, found: F) -> Page:
        """Return the study's page, with the facts common to all studies."""
        page = self.page(found)
        about = [
            ("written", found.created),
            ("machine", found.machine.hardware),
            ("software", found.machine.software),
            *page.about,
            ("data", f"{self.file} beside this page holds every number"),
        ]
        return Page(**{**vars(page), "about": about})

    def show(self, found: F, folder: Path, console: Console) -> None:
        show_page(self.shown(found), folder, console, folder / self.file)

    def carry_out(self, config: C, folder: Path, processes: int | None = None, place: Path | None = None) -> None:
        """Run and print, as a command: an error ends it in a sentence."""
        console = Console()
        kept = f"Finished {self.part}s are kept: the same command continues."
        with explained(f"stopped; the same command continues with the next {self.part}", kept):
            found = self.play(config, folder, console, processes or usable_cores())
            self.show(found, folder, console)
            if place is not None:
                write_between(self.shown(found), self.name, place)

    @property
    def command(self) -> Callable[..., None]:
        """The typer command: the options of `configure`, `--jobs` where there are processes, `--out`; some `--page`."""

        def command(
            out: Path | None, jobs: int | None = None, page: Path | None = None, rebuilt: Path | None = None,
            **options: Any,
        ) -> None:  # fmt: skip
            if rebuilt is not None:
                with explained("stopped"):
                    if page is None:
                        raise typer.BadParameter("expected --page, the page to write", param_hint="--from")
                    write_between(self.shown(self.load(rebuilt)), self.name, page)
                return
            folder = out or Path("runs") / (f"{self.name}-quick" if options["quick"] else self.name)
            with explained("stopped"):
                config = self.configure(**options)
            self.carry_out(config, folder, jobs, page)

        hints = typing.get_type_hints(self.configure, include_extras=True)
        own = [
            each.replace(annotation=hints[name]) for name, each in inspect.signature(self.configure).parameters.items()
        ]
        jobs = inspect.Parameter("jobs", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=options.Jobs)
        words = (
            "Folder of the results; the same command in it continues. "
            f"Default: runs/{self.name}, or runs/{self.name}-quick."
        )
        marks = "Also write tables and pictures into this Markdown page, between its marks."
        read = "Run nothing: write the page from this file of results."
        paged = [_option("page", Path | None, marks), _option("rebuilt", Path | None, read, "--from")]
        every = [*own, *([jobs] if self.processes else []), _option("out", Path | None, words)]
        every += paged if self.published else []
        typed: Any = command
        typed.__signature__ = inspect.Signature(every)
        typed.__annotations__ = {each.name: each.annotation for each in every}
        command.__doc__ = self.configure.__doc__
        return command


def show_page(page: Page, folder: Path | None, console: Console, *written: Path) -> None:
    """Print a page, write it into a folder, if one is given, and say what has been written."""
    print_page(page, console)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        say(console, "\n".join(f"written: {path}" for path in (*written, *write_page(page, folder))))


def _option(name: str, kind: Any, words: str, *spelled: str, **limits: Any) -> inspect.Parameter:
    annotation = Annotated[kind, typer.Option(*spelled, help=words, **limits)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def work_off(
    jobs: Sequence[Job],
    work: Work,
    finished: Callable[[Job], bool],
    *,
    folder: Path,
    what: str,
    processes: int,
    console: Console,
    needs: Callable[[Job], Sequence[Job]] = lambda job: (),
) -> None:
    """Do the unfinished jobs, each as soon as those that it needs are done; one process: in this one."""
    left = [job for job in jobs if not finished(job)]
    _say_done(len(jobs) - len(left), len(jobs), what, folder, console)
    needed = {job: needs(job) for job in left}  # looked up again and again while others run
    if not left:
        return
    with shown(left, console) as progress:
        if processes == 1:  # in this one: a process of its own would first import everything again
            for job in left:
                work(job, functools.partial(progress, job))
        else:
            run_jobs(
                left, work, processes=processes, progress=progress, ready=lambda job: all(map(finished, needed[job]))
            )


def _say_done(done: int, count: int, what: str, folder: Path, console: Console) -> None:
    if done:
        say(console, f"continuing in {folder}: {done} of {count} {what}s are finished")


def part_name(part: str) -> str:
    """Return a part's name as its file has it."""
    return _job(part).name


def _job(part: str) -> Job:
    return Job("part", method=part)


def _steps(tell: Tell, part: str, done: int, total: int, words: str) -> None:
    tell(f"{part}: {done} of {total} {words}")


def _part(run: Callable[..., Any], config: Any, folder: Path, kept: str, job: Job, progress: Progress) -> None:
    import torch

    torch.set_num_threads(1)
    _keep(run(config, job.method, folder, progress), folder / kept.format(job.name))


def _keep(record: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(record, path)
