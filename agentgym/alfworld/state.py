"""The state of one episode: everything that changes while a game is played."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from agentgym.alfworld.game import Game

#: A state as a hashable tuple of ints.
Snapshot = tuple[int, ...]


class Memory:
    """What episodes of a game have worked out about receptacles that are as at the beginning, for each other.

    Attributes:
        texts: per receptacle, the text that describes it (open, where it has a door); None until it is asked for.
        commands: what can be done, by location, object in hand and what is open there, see `commands.admissible`.
    """

    __slots__ = ("commands", "texts")

    def __init__(self, game: Game, variant: int) -> None:
        self.texts: list[str | None] = [None] * len(game.receptacles)
        self.commands: dict[int, tuple[str, ...]] = {}


#: The memory of a game played in a `State.variant`; the last 512 are kept, 20 MB at most.
memory_of = lru_cache(maxsize=512)(Memory)


class State:
    """One moment of a game; objects, receptacles and locations are positions in the `Game`, sets are bit masks.

    Args:
        game: the game; it is not changed.
        repairs: names of `agentgym.alfworld.rules.REPAIRS`; "status" is for the environment and means nothing here.

    Attributes:
        loc: location of the agent.
        held: object in hand, -1 for none.
        open: receptacles that are open.
        contents: per receptacle, the objects in it.
        seen_from: per location, the objects the data places there.
        taken: per receptacle, the objects taken from it and not put back since.
        touched: receptacles whose contents may differ from the beginning.
        clean, hot, cool, toggled, sliced: objects in that condition.
        variant: number of the combination of repairs that changes which commands can be done.
        memory: what the episodes of this game share.
    """

    __slots__ = (
        "arrive_at_shared", "clean", "contents", "cool", "examine_visible", "game", "held", "hot", "loc",
        "look_at_start", "memory", "one_copy", "open", "seen_from", "sliced", "switch_off", "taken", "toggled",
        "touched", "variant",
    )  # fmt: skip

    def __init__(self, game: Game, repairs: Collection[str] = ()) -> None:
        self.game = game
        self.arrive_at_shared = "colocated" in repairs
        self.examine_visible = "examine" in repairs
        self.one_copy = "ghosts" in repairs
        self.look_at_start = "look" in repairs
        self.switch_off = "toggle" in repairs
        self.variant = 2 * self.examine_visible + self.arrive_at_shared
        self.memory = memory_of(game, self.variant)
        self.loc = game.start
        self.held = -1
        self.open = self.clean = self.hot = self.toggled = self.sliced = self.touched = 0
        self.cool = game.cool
        self.contents = list(game.contents)
        self.seen_from = list(game.seen_from)
        self.taken = [0] * len(game.receptacles)

    def get_state(self) -> Snapshot:
        """Return the exact state as a hashable tuple of ints."""
        return (
            self.loc, self.held, self.open, self.clean, self.hot, self.cool, self.toggled, self.sliced,
            *self.contents, *self.taken, *self.seen_from,
        )  # fmt: skip

    def set_state(self, state: Snapshot) -> None:
        """Load what `get_state` returned for the same game."""
        n = len(self.contents)
        self.loc, self.held, self.open, self.clean, self.hot, self.cool, self.toggled, self.sliced = state[:8]
        self.contents = list(state[8 : 8 + n])
        self.taken = list(state[8 + n : 8 + 2 * n])
        self.seen_from = list(state[8 + 2 * n :])
        self.touched = (1 << n) - 1

    def here(self, name: str) -> int:
        """Return the position of the receptacle of this name, -1 when there is none at the agent's location."""
        receptacle = self.game.receptacle_index.get(name, -1)
        return receptacle if receptacle >= 0 and self.game.places[receptacle] == self.loc else -1

    def in_hand(self, name: str) -> bool:
        """Say whether the object of this name is in hand."""
        return self.held >= 0 and self.game.objects[self.held] == name

    def accessible(self, receptacle: int) -> bool:
        """Say whether hands reach into the receptacle: it cannot be opened, or is open."""
        return not (self.game.openable & ~self.open) >> receptacle & 1
