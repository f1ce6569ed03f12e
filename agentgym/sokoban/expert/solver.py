"""Solving Sokoban: the exact distance tables of a room, optimal moves from them, and a search for what is larger."""

from __future__ import annotations

from functools import lru_cache
from math import inf, nan

from agentgym.sokoban.expert.search import BUDGET, solve
from agentgym.sokoban.expert.tables import MAX_STATES, BitTable, RankTable
from agentgym.sokoban.rules import DIRECTIONS, Level, successor

_WIDE_INTEGER_BITS = 1 << 18  # up to here BitTable is the faster one
_SMALL_BITS = 1 << 13
Table = BitTable | RankTable


def room_table(level: Level, depth: int | None = None) -> Table:
    """Return a new table of exact distances for the level's room.

    Args:
        level: the room; the start state plays no part.
        depth: search only this many moves deep for now; None for the whole room.

    Raises:
        ValueError: when the room has too many states for a table (more than 33 million).
    """
    if BitTable.bits(level) <= _WIDE_INTEGER_BITS:
        return BitTable(level, depth)
    states = RankTable.size(level)
    if states > MAX_STATES:
        raise ValueError(
            f"a room with {level.floor.bit_count()} floor cells and {level.targets.bit_count()} boxes has {states} "
            f"states, and a distance table at most {MAX_STATES}: use fewer boxes or a smaller room"
        )
    return RankTable(level, depth)


def shared_table(level: Level) -> Table:
    """Return the complete table of the level's room; the latest rooms are kept, so a group of episodes shares one.

    Raises:
        ValueError: when the room has too many states for a table.
    """
    room = Level(level.height, level.width, level.walls, level.targets, 0, 0)  # the same for all starts of a room
    return _small_table(room) if BitTable.bits(room) <= _SMALL_BITS else _large_table(room)


@lru_cache(maxsize=1024)
def _small_table(room: Level) -> Table:
    return room_table(room)


@lru_cache(maxsize=16)
def _large_table(room: Level) -> Table:
    return room_table(room)


class Solver:
    r"""Exact distances and optimal moves for any state of one room.

    Rooms of up to 33 million states (every Boxoban level) get a table, which knows all optimal moves of every state.
    Larger rooms are searched state by state within a budget, and the solution found is remembered.

    Args:
        level: the room; the start state plays no part.
        budget: work of a search before it gives up (large rooms only), see `search.solve`.

    >>> from agentgym.sokoban.text import parse_level
    >>> level = parse_level("#######\n#  $ .#\n# @   #\n#######")
    >>> solver = Solver(level)
    >>> solver.distance(level.player, level.boxes), solver.optimal_moves(level.player, level.boxes)
    (3, ('up',))
    """

    def __init__(self, level: Level, budget: int = BUDGET) -> None:
        self._level = level
        self._budget = budget
        self._table = None
        if BitTable.bits(level) <= _WIDE_INTEGER_BITS or RankTable.size(level) <= MAX_STATES:
            self._table = shared_table(level)
        # large rooms only: moves left and best move along the solutions found; nan where the search gave up
        self._known: dict[tuple[int, int], tuple[float, str]] = {}

    def distance(self, player: int, boxes: int) -> float:
        """Number of moves to the solution; `inf` in a dead end, `nan` when the search gave up."""
        if self._table is not None:
            return self._table.distance(player, boxes)
        return self._search(player, boxes)[0]

    def optimal_moves(self, player: int, boxes: int) -> tuple[str, ...]:
        """Moves that start a shortest solution, in the order up, down, left, right.

        All of them in a room with a table, one of them in a larger room; () when solved, dead or not found.
        """
        if self._table is None:
            move = self._search(player, boxes)[1]
            return (move,) if move else ()
        now = self._table.distance(player, boxes)
        if now in (0, inf):
            return ()
        best = []
        for i, name in enumerate(DIRECTIONS):
            after = successor(self._level, player, boxes, i)
            if after is not None and self._table.distance(*after) == now - 1:
                best.append(name)
        return tuple(best)

    def _search(self, player: int, boxes: int) -> tuple[float, str]:
        known = self._known.get((player, boxes))
        if known is not None:
            return known
        solution = solve(self._level, player, boxes, self._budget)
        start = player, boxes
        if solution is None or solution.distance == inf:
            self._known[start] = (nan if solution is None else inf), ""
            return self._known[start]
        state: tuple[int, int] | None = start
        for left, move in zip(range(len(solution.moves), 0, -1), solution.moves, strict=True):
            assert state is not None
            self._known[state] = left, move
            state = successor(self._level, *state, DIRECTIONS.index(move))
        assert state is not None
        self._known[state] = 0, ""
        return self._known[start]
