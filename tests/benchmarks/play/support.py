"""Shared by the tests of panels: the command line, and played results."""

import re
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.play.panel import choose_panel, folder_of, play_panel
from benchmarks.play.players import Sampling, find_player
from benchmarks.play.results import PanelResults
from benchmarks.run import app


def run(*options: object) -> tuple[int, str]:
    """Run a command; return its status and its words, without boxes and line breaks."""
    result = CliRunner().invoke(app, [str(option) for option in options], env={"COLUMNS": "160"})
    return result.exit_code, re.sub(r"\s+", " ", re.sub(r"[│┃║]", " ", result.output))


def played(out: Path, panel: str, player: str = "random", count: int | None = None, **given: object) -> PanelResults:
    """Let a player play a panel, and write it where the command does."""
    samples = given.pop("samples", 1)
    found, row = choose_panel(panel, given, count)
    folder = folder_of(out, found.panel.name, player)
    who = find_player(player, row, found.arguments, Sampling(), folder)
    return play_panel(found, who, folder, samples=int(str(samples)))
