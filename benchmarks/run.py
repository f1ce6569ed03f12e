"""Command line of the benchmarks: `python -m benchmarks.run --help`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.machine import missing_package

try:
    import typer
    from typer.core import TyperGroup

    from benchmarks.console import explained
    from benchmarks.training.command import learning
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    print(missing_package(error), file=sys.stderr)
    sys.exit(2)

#: Where each command is: a function, a study, or a mapping with a study of its name. Its file is imported when it is
#: asked for, so that no command waits for another's libraries.
STUDIES = {
    "league": "benchmarks.truth.league:LEAGUE",
    "ranking": "benchmarks.truth.league:RANKING",
    "branching": "benchmarks.truth.branching:STUDY",
    "combinations": "benchmarks.truth.combinations:STUDY",
    "scorers": "benchmarks.truth.scorers:STUDY",
    "privileged": "benchmarks.truth.privileged:STUDY",
    "shaping": "benchmarks.training.shaping:STUDY",
    "aliasing": "benchmarks.keys.aliasing:STUDY",
    "merging": "benchmarks.keys.merging:STUDY",
    "hindsight": "benchmarks.keys.hindsight:STUDY",
    "search-players": "benchmarks.play.search_players:STUDY",
    "crossplay": "benchmarks.play.sotopia_cross_play:STUDY",
    **dict.fromkeys(
        (
            "seen-unseen", "rollout-budget", "group-size", "distance", "normalisation", "cosine-threshold", "adverts",
            "graph-statistics", "share-of-time",
        ),
        "benchmarks.truth.studies:STUDIES",
    ),
}  # fmt: skip
SPEED = {
    "throughput": "benchmarks.speed.throughput:STUDY",
    "gpu": "benchmarks.speed.gpu:gpu",
    "lanes": "benchmarks.speed.lanes:STUDY",
    "endpoint": "benchmarks.speed.sotopia_dialogues:STUDY",
    "search": "benchmarks.speed.searchqa_index:STUDY",
    "shop-scale": "benchmarks.speed.webshop_scale:STUDY",
}
COMMANDS = {
    "train": "benchmarks.training.command:train",
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
#: Names of 0.2, not in the help, with the options they had: gone with the next release.
FORMER = {
    **{
        name: STUDIES[name]
        for name in (
            "league", "ranking", "branching", "scorers", "shaping", "search-players", "aliasing", "hindsight",
            "merging", "crossplay",
        )
    },
    **SPEED,
    "panel": COMMANDS["play"],
}  # fmt: skip


_SETTINGS: dict[str, Any] = {
    "add_completion": False, "rich_markup_mode": "rich", "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}  # fmt: skip


class Commands(TyperGroup):
    """Commands by name: functions, studies or groups of them, in files that are imported when they are asked for."""

    places: Mapping[str, Any] = COMMANDS
    former: Mapping[str, Any] = FORMER

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names that the help lists, in its order."""
        return list(self.places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the file of a command, or return None where there is no such command."""
        place = {**self.former, **self.places}.get(cmd_name)
        if place is None:
            return None
        alone = typer.Typer(**_SETTINGS)
        if isinstance(place, str):
            module, _, name = place.partition(":")
            found = getattr(importlib.import_module(module), name)
            found = found[cmd_name] if isinstance(found, Mapping) else found
            alone.command(cmd_name)(found if inspect.isfunction(found) else found.command)
        else:
            words = "Answer one question with a table and a page." if place is STUDIES else "Measure speed and memory."
            group = type("Group", (Commands,), {"places": place, "former": {}})
            alone = typer.Typer(cls=group, no_args_is_help=True, **_SETTINGS)
            alone.callback(help=words)(lambda: None)
        made = typer.main.get_command(alone)
        made.name = cmd_name
        return made

    def invoke(self, ctx: Any) -> Any:
        """Run a command; the same mistake ends each with the same status, see `benchmarks.console.stop`."""
        with explained("stopped"):
            return super().invoke(ctx)


app = typer.Typer(cls=Commands, no_args_is_help=False, **_SETTINGS)
app.callback(invoke_without_command=True)(learning)


if __name__ == "__main__":
    app()
