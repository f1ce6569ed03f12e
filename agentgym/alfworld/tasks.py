"""Collections of official or generated games, of all task types or of some."""

from collections.abc import Mapping
from typing import Any

from agentgym.alfworld.generated.generator import GeneratedGames
from agentgym.alfworld.official.dataset import VARIABLE, OfficialGames
from agentgym.outside.files import cache_folder
from agentgym.tasks import published

#: A collection of games; `by_id` also accepts ids with a goal, see `agentgym.alfworld.goals`.
Games = GeneratedGames | OfficialGames


def find_games(data: Any, cache: Any, generator: Mapping[str, Any]) -> Games:
    """Return the official games of `data` (None: of $ALFWORLD_DATA), else generated ones."""
    where = cache_folder(cache)
    folder = published(data, VARIABLE)
    return GeneratedGames(**generator) if folder is None else OfficialGames(folder, where)
