"""Solving Sokoban: the exact distance tables of a room, optimal moves from them, and a search for what is larger."""

from __future__ import annotations

from functools import lru_cache
from math import inf

from agentgym.sokoban.distances import BitTable
from agentgym.sokoban.ranks import MAX_STATES, RankTable
from agentgym.sokoban.rules import DIRECTIONS, Level, LevelError, successor

_WIDE_INTEGER_BITS = 1 << 18  # up to here BitTable is the faster one
_SMALL_BITS = 1 << 13
Table = BitTable | RankTable


def room_table(level: Level, depth: int | None = None) -> Table:
    """Return a new table of exact distances for the level's room.

    Args:
        level: the room; the start state plays no part.
        depth: search only this many moves deep for now; None for the whole room.

    Raises:
        LevelError: when the room has too many states for a table (more than 67 million).
    """
    if BitTable.bits(level) <= _WIDE_INTEGER_BITS:
        return BitTable(level, depth)
    states = RankTable.size(level)
    if states > MAX_STATES:
        raise LevelError(
            f"a room with {level.floor.bit_count()} floor cells and {level.targets.bit_count()} boxes has {states} "
            f"states, and a distance table at most {MAX_STATES}: use fewer boxes or a smaller room"
        )
    return RankTable(level, depth)


def distance(level: Level, player: int, boxes: int) -> float:
    """Exact number of moves from a state of the level's room to the solution, `inf` for a dead end.

    The tables of the latest rooms are kept, so asking again for states of one room costs microseconds.

    Raises:
        LevelError: when the room has too many states for a table.
    """
    return _shared_table(level).distance(player, boxes)


def optimal_moves(level: Level, player: int, boxes: int) -> tuple[str, ...]:
    """Return every move that starts a shortest solution, in the order up, down, left, right; () for a dead end.

    Raises:
        LevelError: when the room has too many states for a table.
    """
    table = _shared_table(level)
    now = table.distance(player, boxes)
    if now in (0, inf):
        return ()
    best = []
    for i, name in enumerate(DIRECTIONS):
        after = successor(level, player, boxes, i)
        if after is not None and table.distance(*after) == now - 1:
            best.append(name)
    return tuple(best)


def _shared_table(level: Level) -> Table:
    # all starts of one room share its table
    room = Level(level.height, level.width, level.walls, level.targets, 0, 0)
    return _small_table(room) if BitTable.bits(room) <= _SMALL_BITS else _large_table(room)


@lru_cache(maxsize=1024)
def _small_table(room: Level) -> Table:
    return room_table(room)


@lru_cache(maxsize=8)
def _large_table(room: Level) -> Table:
    return room_table(room)
