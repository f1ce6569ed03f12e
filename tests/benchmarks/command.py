"""The command line, as the tests of its commands ask it, and panels that were played without it."""

import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from benchmarks.play.panel import choose_panel, folder_of, play_panel
from benchmarks.play.players import Sampling, find_player
from benchmarks.play.results import PanelResults
from benchmarks.run import app


def run(*options: object, status: int | None = 0, of: Any = app) -> str:
    """Run a command that ends with a status (None: any); return its words, without boxes, colours and line breaks."""
    result = CliRunner().invoke(of, [str(option) for option in options], env={"COLUMNS": "200", "TERM": "dumb"})
    assert status is None or result.exit_code == status, result.output
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│┃║╭╮╰╯─]", " ", result.output).split())


def played(out: Path, panel: str, player: str = "random", count: int | None = None, **given: object) -> PanelResults:
    """Let a player play a panel, and write it where the command does."""
    samples = given.pop("samples", 1)
    found, row = choose_panel(panel, given, count)
    folder = folder_of(out, found.panel.name, player)
    who = find_player(player, row, found.arguments, Sampling(), folder)
    return play_panel(found, who, folder, samples=int(str(samples)))
