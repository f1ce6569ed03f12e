"""What a receptacle shows, and the commands its contents allow: computed once for each (game, receptacle, contents)."""

from __future__ import annotations

from typing import NamedTuple

from agentgym.alfworld.game import Game, bits
from agentgym.alfworld.text import inside


class View(NamedTuple):
    """A receptacle with certain contents, as if its contents could be seen."""

    text: str
    takes: tuple[str, ...]
    uses: tuple[str, ...]


#: Views of all games of the process; emptied when full (some 10 MB).
_VIEWS: dict[tuple[int, int, int], View] = {}
_MAX_VIEWS = 1 << 14


def view(game: Game, receptacle: int, contents: int) -> View:
    """Return the view of a receptacle that holds the objects of a mask.

    `takes` and `uses` are sorted; whether they are allowed now is for the caller to know.
    """
    key = (game.serial, receptacle, contents)
    found = _VIEWS.get(key)
    if found is None:
        if len(_VIEWS) >= _MAX_VIEWS:
            _VIEWS.clear()
        objects, name = game.objects, game.receptacles[receptacle]
        found = _VIEWS[key] = View(
            inside(game, receptacle, contents),
            tuple(sorted([f"take {objects[i]} from {name}" for i in bits(contents & game.pickupable)])),
            tuple(sorted([f"use {objects[i]}" for i in bits(contents & game.toggleable)])),
        )
    return found
