"""The rules of Sokoban on integer bit sets.

A board of `height` x `width` cells is numbered by the position of each cell in its text: cell = row * (width + 1) +
column, the extra column being the line break. A set of cells is one Python integer whose bit `cell` is set. Boards of
any size need no special case, a rule is a few bit tests, and cell numbers index the text directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

DIRECTIONS: tuple[str, str, str, str] = ("up", "down", "left", "right")
"""The four moves, in the order of everything that is listed per direction."""

#: Moves named by a four-bit mask, bit i for direction i.
MOVES_OF_MASK: tuple[tuple[str, ...], ...] = tuple(
    tuple(name for i, name in enumerate(DIRECTIONS) if mask >> i & 1) for mask in range(16)
)


def cells_of(bits: int) -> Iterator[int]:
    """Iterate over the cells of a bit set, in increasing order.

    >>> list(cells_of(0b100101))
    [0, 2, 5]
    """
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


@dataclass(frozen=True, slots=True)
class Level:
    """A room with the start of an episode.

    Attributes:
        height: rows, border included.
        width: columns, border included.
        walls: bit set of the walls; every cell outside the room is a wall.
        targets: bit set of the targets.
        boxes: bit set of the boxes at the start.
        player: cell of the player at the start.
    """

    height: int
    width: int
    walls: int
    targets: int
    boxes: int
    player: int

    @property
    def deltas(self) -> tuple[int, int, int, int]:
        """Change of the cell number for up, down, left, right."""
        return -(self.width + 1), self.width + 1, -1, 1

    @property
    def floor(self) -> int:
        """Bit set of all cells that are not walls."""
        return full_board(self.height, self.width) & ~self.walls


@lru_cache(maxsize=256)
def full_board(height: int, width: int) -> int:
    """Bit set of all cells of a board.

    >>> bin(full_board(2, 3))
    '0b1110111'
    """
    row = (1 << width) - 1
    return sum(row << (r * (width + 1)) for r in range(height))


def box_of_floor(level: Level) -> tuple[int, int, int, int]:
    """Smallest rectangle around the floor: first row, first column, height, width."""
    stride = level.width + 1
    floor = level.floor
    first = ((floor & -floor).bit_length() - 1) // stride
    last = (floor.bit_length() - 1) // stride
    columns = 0
    for row in range(first, last + 1):
        columns |= floor >> row * stride
    columns &= (1 << level.width) - 1
    left = (columns & -columns).bit_length() - 1
    return first, left, last - first + 1, columns.bit_length() - left


def successor(level: Level, player: int, boxes: int, direction: int) -> tuple[int, int] | None:
    """Return (player, boxes) after a move from any state of the level's room, or None when it changes nothing."""
    delta = level.deltas[direction]
    cell = player + delta
    if level.walls >> cell & 1:
        return None
    if boxes >> cell & 1:
        beyond = cell + delta
        if (level.walls | boxes) >> beyond & 1:
            return None
        boxes ^= 1 << cell | 1 << beyond
    return cell, boxes
