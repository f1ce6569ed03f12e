"""Who takes a side of a dialogue: scripted players and language models; a new player is a file here."""

from __future__ import annotations

from agentgym.checks import suggest
from agentgym.outside.redaction import refuse_credential
from agentgym.sotopia.dialogue import Player
from agentgym.sotopia.players.scripted import PLAYERS


def make_player(player: str | Player) -> Player:
    """Return a player: itself when it is one, else the one of that name.

    Args:
        player: an object with `act`; "rules" (a temperament drawn by the task's seed) or another name in
            `scripted.PLAYERS`; or `MODEL@URL`, a model behind an OpenAI-compatible endpoint such as
            `qwen@http://127.0.0.1:8000/v1`, without credentials in the URL.

    Raises:
        ValueError: when there is no such player, or the URL holds a credential.
        ImportError: when a package that it needs is not installed.
    """
    if not isinstance(player, str):
        if not isinstance(player, Player):
            raise ValueError(f"partner must have act(views), or be a name such as 'rules', got {player!r}")
        return player
    if "://" in player:
        refuse_credential("partner", player, "agentgym.sotopia.players.model.ModelPlayer.at(name)")
        from agentgym.sotopia.players.model import ModelPlayer

        return ModelPlayer.at(player)
    if player not in PLAYERS:
        raise ValueError(f"unknown partner {player!r}; {suggest(player, PLAYERS)}, or MODEL@URL")
    return PLAYERS[player]()
