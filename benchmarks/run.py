"""The command `stepcredit`, which is `python -m benchmarks.run` too.

A command's file is imported when the command is run, so that help and a wrong name cost little: the help takes the
first sentence of each from the text of its file.
"""

import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import missing_package

try:
    import typer
    from typer.core import TyperCommand, TyperGroup

    from benchmarks.console import explained
    from benchmarks.options import check_names
    from benchmarks.training.command import learning
except ModuleNotFoundError as error:
    if __name__ != "__main__" and Path(sys.argv[0]).name != "stepcredit":
        raise
    print(missing_package(error), file=sys.stderr)
    sys.exit(2)

#: Where each command is: a function, a study, or a mapping with a study of its name. Its file is imported when it is
#: asked for, so that no command waits for another's libraries.
STUDIES = {
    "league": "benchmarks.truth.league:LEAGUE",
    "ranking": "benchmarks.truth.league:RANKING",
    "combinations": "benchmarks.truth.combinations:STUDY",
    "gradients": "benchmarks.truth.gradients:STUDY",
    "scorers": "benchmarks.truth.scorers:STUDY",
    "privileged": "benchmarks.truth.privileged:STUDY",
    "shaping": "benchmarks.training.shaping:STUDY",
    "aliasing": "benchmarks.keys.aliasing:STUDY",
    "search-players": "benchmarks.play.search_players:STUDY",
    **dict.fromkeys(
        ("rollout-budget", "group-size", "distance", "normalisation", "staleness"),
        "benchmarks.training.studies:STUDIES",
    ),
}  # fmt: skip
SPEED = {
    "throughput": "benchmarks.speed.throughput:STUDY",
    "gpu": "benchmarks.speed.first_hour:gpu",
    "rollouts": "benchmarks.speed.rollouts:STUDY",
    "updates": "benchmarks.speed.updates:STUDY",
}
COMMANDS = {
    "train": "benchmarks.training.train:train",
    "head-to-head": "benchmarks.training.head_to_head:head_to_head",
    "study": STUDIES,
    "play": "benchmarks.play.command:play",
    "prompt": "benchmarks.play.command:prompt",
    "compare": "benchmarks.play.compare:compare",
    "grade": "benchmarks.play.grade:grade",
    "hub": "benchmarks.play.hub:hub",
    "speed": SPEED,
    "report": "benchmarks.training.command:report",
    "check": "benchmarks.training.command:check",
}
#: What the help says of commands that are groups.
_GROUPS = {"study": "Answer one question with a table and a page.", "speed": "Measure speed and memory."}
#: Plain text: importing rich for it would cost more than all the rest of the help.
_SETTINGS: dict[str, Any] = {
    "rich_markup_mode": None, "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 110},
}  # fmt: skip


class Command(TyperCommand):
    """A command whose help has its options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the options of each heading (`rich_help_panel`), in the order of their first one."""
        panels: dict[str, list[Any]] = {"Arguments": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                kind = {"argument": "Arguments"}.get(parameter.param_type_name, "Options")
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or kind, []).append(record)
        for heading, records in panels.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class Commands(TyperGroup):
    """Commands by name: functions, studies or groups of them, in files that are imported when they are run."""

    places: Mapping[str, Any] = COMMANDS
    listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        place = self.places.get(cmd_name)
        if place is None:
            return None
        if self.listing:
            return TyperCommand(cmd_name, help=_GROUPS.get(cmd_name) or _sentence(place))
        alone = typer.Typer(add_completion=False, **_SETTINGS)
        if isinstance(place, str):
            module, _, name = place.partition(":")
            found = getattr(importlib.import_module(module), name)
            found = found[cmd_name] if isinstance(found, Mapping) else found
            alone.command(cmd_name, cls=Command)(found if inspect.isfunction(found) else found.command)
        else:
            group = type("Group", (Commands,), {"places": place})
            alone = typer.Typer(cls=group, no_args_is_help=True, add_completion=False, **_SETTINGS)
            alone.callback(help=_GROUPS[cmd_name])(lambda: None)
        made = typer.main.get_command(alone)
        made.name = cmd_name
        return made

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; that of all commands has one sentence for each, and imports none of their files."""
        self.listing = self.places is COMMANDS
        try:
            super().format_help(ctx, formatter)
        finally:
            self.listing = False

    def format_options(self, ctx: Any, formatter: Any) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(200)) for name, command in found])
        Command.format_options(self, ctx, formatter)  # type: ignore[arg-type]  # reads parameters alone

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the words of a command, of those that train first the names of environments and methods."""
        if parent is None and args and (args[0].startswith("-") or args[0] in ("train", "head-to-head")):
            check_names(args)
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; the same mistake ends each with the same status, see `benchmarks.console.stop`."""
        with explained("stopped"):
            return super().invoke(ctx)


def _sentence(place: str) -> str:
    """Return the first sentence of a function's docstring from the text of its file."""
    module, _, name = place.partition(":")
    spec = importlib.util.find_spec(module)
    text = "" if spec is None or spec.origin is None else Path(spec.origin).read_text(encoding="utf-8")
    found = re.search(rf'^def {name}\(.*?^    """(.*?)(?:"""|\n\n)', text, re.DOTALL | re.MULTILINE)
    return " ".join(found.group(1).split()) if found else ""


app = typer.Typer(cls=Commands, no_args_is_help=False, **_SETTINGS)
app.callback(invoke_without_command=True)(learning)


def main() -> None:
    """Run the command `stepcredit`; modules of the current folder can be named, as with `python -m benchmarks.run`."""
    sys.path.append(os.getcwd())
    app(prog_name="stepcredit")


if __name__ == "__main__":
    app()
