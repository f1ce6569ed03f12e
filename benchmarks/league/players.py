"""How the league plays each environment: scripted players of several qualities, and what a step's truth is made of.

Prompts, options and state keys are those of the learning benchmark, see `baselines.environments`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentgym.sokoban.rules import DIRECTIONS


@dataclass(frozen=True)
class LeagueEnv:
    """One environment of the league.

    Attributes:
        name: of its row in `baselines.environments.registry`.
        tasks: number of tasks of the full run.
        exact: whether the environment knows how many commands are needed from a state.
        optimal: probability of the expert's action of each scripted player, for about 25, 50 and 75 % success.
        others: what these play else; None: whatever is admissible.
        outcome: what an episode is worth: its "return", or 1 if it is "won".
    """

    name: str
    tasks: int
    exact: bool
    optimal: dict[str, float]
    others: tuple[str, ...] | None = None
    outcome: Literal["return", "won"] = "return"


def _players(*optimal: float) -> dict[str, float]:
    return dict(zip(("random", "expert 25", "expert 50", "expert 75"), (0.0, *optimal), strict=True))


ENVIRONMENTS: dict[str, LeagueEnv] = {
    env.name: env
    for env in (
        # As `benchmarks.ranking` plays it, moves into walls included; rewards of single pushes say little of success.
        LeagueEnv("sokoban", 128, True, _players(0.16, 0.33, 0.52), DIRECTIONS, "won"),
        LeagueEnv("alfworld", 48, True, _players(0.23, 0.31, 0.41)),
        LeagueEnv("virtualhome", 8, True, _players(0.25, 0.42, 0.58)),
        LeagueEnv("webshop", 16, False, _players(0.42, 0.58, 0.71)),
        LeagueEnv("searchqa", 32, False, _players(0.48, 0.72, 0.88)),
        LeagueEnv("sotopia", 16, False, _players(0.37, 0.53, 0.72)),
    )
}
