"""Shared by the tests of panels: played results."""

from pathlib import Path

from benchmarks.play.panel import choose_panel, folder_of, play_panel
from benchmarks.play.players import Sampling, find_player
from benchmarks.play.results import PanelResults


def played(out: Path, panel: str, player: str = "random", count: int | None = None, **given: object) -> PanelResults:
    """Let a player play a panel, and write it where the command does."""
    samples = given.pop("samples", 1)
    found, row = choose_panel(panel, given, count)
    folder = folder_of(out, found.panel.name, player)
    who = find_player(player, row, found.arguments, Sampling(), folder)
    return play_panel(found, who, folder, samples=int(str(samples)))
