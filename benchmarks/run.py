"""Command line of the benchmarks: `python -m benchmarks.run --help`."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

from benchmarks.machine import missing_package

try:
    import typer
    from typer.core import TyperGroup

    from benchmarks.console import explained
    from benchmarks.learning.command import learning
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    print(missing_package(error), file=sys.stderr)
    sys.exit(2)

#: Where each command is, a function or a study. Its file is imported when it is asked for, so that no command waits
#: for another's libraries.
COMMANDS = {
    "train": "benchmarks.train.command:train",
    "report": "benchmarks.learning.command:report",
    "check": "benchmarks.learning.command:check",
    "panel": "benchmarks.panels.command:panel",
    "prompt": "benchmarks.prompting.command:prompt",
    "compare": "benchmarks.panels.comparison:compare",
    "grade": "benchmarks.panels.grade:grade",
    "hub": "benchmarks.panels.hub:hub",
    "gpu": "benchmarks.gpu.command:gpu",
    "throughput": "benchmarks.throughput.study:throughput",
    "ranking": "benchmarks.ranking.study:ranking",
    "league": "benchmarks.league.command:league",
    "branching": "benchmarks.ranking.branching:branching",
    "scorers": "benchmarks.truth.scorers:STUDY",
    "shaping": "benchmarks.training.shaping:STUDY",
    "head-to-head": "benchmarks.head_to_head.study:head_to_head",
    "study": "benchmarks.paper_studies.command:study",
    "search-players": "benchmarks.play.search_players:STUDY",
    "aliasing": "benchmarks.studies.aliasing:aliasing",
    "hindsight": "benchmarks.studies.hindsight:hindsight",
    "merging": "benchmarks.studies.merging:merging",
    "search": "benchmarks.studies.search_index:search",
    "shop-scale": "benchmarks.studies.shop_scale:shop_scale",
    "crossplay": "benchmarks.studies.crossplay:crossplay",
    "endpoint": "benchmarks.studies.endpoint:endpoint",
    "lanes": "benchmarks.studies.lanes:lanes",
}


class Commands(TyperGroup):
    """The commands by name, each a function or a study of its file."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the file of a command, or return None where there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        alone = typer.Typer(**_SETTINGS)
        found = getattr(importlib.import_module(module), function)
        alone.command(cmd_name)(found if inspect.isfunction(found) else found.command)
        return typer.main.get_command(alone)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; the same mistake ends each with the same status, see `benchmarks.console.stop`."""
        with explained("stopped"):
            return super().invoke(ctx)


_SETTINGS: dict[str, Any] = {
    "add_completion": False, "rich_markup_mode": "rich", "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}  # fmt: skip
app = typer.Typer(cls=Commands, no_args_is_help=False, **_SETTINGS)
app.callback(invoke_without_command=True)(learning)


if __name__ == "__main__":
    app()
