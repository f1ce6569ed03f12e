"""The state of one episode and its rules."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from agentgym.alfworld.game import Game

State = tuple[int, ...]


class Outcome(NamedTuple):
    """What a command did: the text it gave, and whether it could be done."""

    observation: str
    valid: bool


class World:
    """One episode of a game; objects, receptacles and locations are positions in the `Game`, sets are bit masks.

    Attributes:
        game: the game that is played.
        loc: location of the agent.
        held: object in hand, -1 for none.
        open: receptacles that are open.
        contents: per receptacle, the objects in it.
        seen_from: per location, the objects the data places there (spec: `oloc`).
        taken: per receptacle, the objects taken from it and not put back since.
        clean, hot, cool, toggled, sliced: objects in that condition.
        won: the goal is reached.
    """

    def __init__(self, game: Game, repairs: Collection[str] = ()) -> None:
        self.game = game
        self.loc = game.start
        self.held = -1
        self.open = 0
        self.contents = list(game.contents)
        self.seen_from = list(game.seen_from)
        self.taken = [0] * len(game.receptacles)
        self.clean = self.hot = self.toggled = self.sliced = 0
        self.cool = game.cool
        self.won = False

    def step(self, command: str) -> Outcome:
        """Play one command; a command that cannot be done changes nothing."""
        raise NotImplementedError

    def admissible(self) -> tuple[str, ...]:
        """Return the commands that can be done now, sorted."""
        raise NotImplementedError

    def get_state(self) -> State:
        """Return the exact state as a hashable tuple of ints."""
        return (
            self.loc, self.held, self.open, self.clean, self.hot, self.cool, self.toggled, self.sliced,
            *self.contents, *self.taken, *self.seen_from,
        )  # fmt: skip

    def set_state(self, state: State) -> None:
        """Load what `get_state` returned for the same game."""
        n, self.loc, self.held, self.open = len(self.contents), *state[:3]
        self.clean, self.hot, self.cool, self.toggled, self.sliced = state[3:8]
        self.contents = list(state[8 : 8 + n])
        self.taken = list(state[8 + n : 8 + 2 * n])
        self.seen_from = list(state[8 + 2 * n :])
