"""Levels as bit sets and as text: parsing, validation, the two symbol sets, and the split of each level.

A cell is its position in the text, row * (width + 1) + column; a set of cells is an integer with bit `cell` set.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from agentgym.checks import check_name
from agentgym.outside.text import MOST_CHARACTERS, DataError


def cells_of(bits: int) -> Iterator[int]:
    """Yield the cells of a bit set in increasing order."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


@dataclass(frozen=True, slots=True)
class Level:
    """A room with the start of an episode.

    `height` and `width` include the border; `walls` (every cell outside the room is one), `targets`, `boxes` are bit
    sets; `player` is a cell.
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
    """Return the bit set of all cells of a board."""
    row = (1 << width) - 1
    return sum(row << (r * (width + 1)) for r in range(height))


def box_of_floor(level: Level) -> tuple[int, int, int, int]:
    """Return the bounding box of the floor: first row, first column, height, width."""
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


class Symbols(NamedTuple):
    """One character per kind of cell."""

    wall: str
    floor: str
    target: str
    box: str
    box_on_target: str
    player: str
    player_on_target: str


SYMBOL_SETS: dict[str, Symbols] = {
    "default": Symbols("#", "_", "O", "X", "√", "P", "S"),
    "xsb": Symbols("#", " ", ".", "$", "*", "@", "+"),
}
#: Maximum number of rows, and of columns, of a level.
MOST_SIDE = 128
DEFAULT = SYMBOL_SETS["default"]
#: XSB files also use "-" or "_" for floor.
_XSB_ALIASES = str.maketrans({"-": " ", "_": " "})
XSB_ROW_CHARACTERS = frozenset("# .$*@+-_")


#: Boards are assembled in Latin-1, one byte per text position; this replaces the one symbol that is not in Latin-1.
STAND_IN = "*"
_WALL_BITS = bytes.maketrans(b"01", (DEFAULT.floor + DEFAULT.wall).encode())


def cell_table(symbols: Mapping[str, str]) -> bytes:
    """Return a translation table of 256 bytes from some symbols to others; all other bytes map to 0."""
    table = bytearray(256)
    for symbol, other in symbols.items():
        table[_cell(symbol)] = _cell(other)
    return bytes(table)


def _cell(symbol: str) -> int:
    return ord(symbol.replace(DEFAULT.box_on_target, STAND_IN))


def board_cells(level: Level, player: int, boxes: int) -> bytearray:
    """Return a board as one byte per text position, line breaks included."""
    width, stride = level.width, level.width + 1
    cells = bytearray(f"{level.walls:0{level.height * stride - 1}b}".encode().translate(_WALL_BITS)[::-1])
    cells[width::stride] = b"\n" * (level.height - 1)
    targets = level.targets
    left = targets | boxes
    while left:
        bit = left & -left
        left ^= bit
        cells[bit.bit_length() - 1] = _TARGET if not boxes & bit else _DONE if targets & bit else _BOX
    cells[player] = _ABOVE if targets >> player & 1 else _PLAYER
    return cells


_TARGET, _BOX, _DONE, _PLAYER, _ABOVE = map(_cell, DEFAULT[2:])


def board_text(level: Level) -> str:
    """Return the board of a level in the default symbols, rows joined by line breaks."""
    cells = board_cells(level, level.player, level.boxes)
    return cells.decode("latin-1").replace(STAND_IN, DEFAULT.box_on_target)


class Style:
    r"""Converts a board in default symbols to the observation text.

    >>> print(Style("xsb", separator=" ")("#####\n#PXO#\n#####"))
    # # # # #
    # @ $ . #
    # # # # #
    """

    def __init__(self, symbols: str = "default", separator: str = "") -> None:
        if not isinstance(separator, str):
            raise ValueError(f"separator must be a string, got {separator!r}")
        self.symbols = SYMBOL_SETS[check_name(symbols, SYMBOL_SETS, "symbols")]
        self.separator = separator
        self.plain = symbols == "default" and not separator
        self._table = str.maketrans("".join(DEFAULT), "".join(self.symbols))

    def __call__(self, text: str) -> str:
        if self.plain:
            return text
        text = text.translate(self._table)
        return "\n".join(map(self.separator.join, text.split("\n"))) if self.separator else text

    def legend(self) -> str:
        """Return one line that explains the characters."""
        s = self.symbols
        floor = "a space" if s.floor == " " else s.floor
        return (
            f"{s.wall} wall, {floor} floor, {s.target} target, {s.box} box, {s.box_on_target} box on a target, "
            f"{s.player} you, {s.player_on_target} you on a target"
        )


def parse_level(text: str) -> Level:
    """Read one level.

    Short rows are padded; floor that the player cannot reach even through boxes becomes wall.

    Args:
        text: rows of symbols of either set, separated by line breaks; empty lines before and after are dropped.

    Raises:
        DataError: on a text or board that is too large, an unknown symbol, not exactly one player, no box, different
            numbers of boxes and targets, an open room, a box or target out of reach, or a solved level.
    """
    if len(text) > MOST_CHARACTERS:
        raise DataError(
            f"the level is a text of {len(text):,} characters; at most {MOST_CHARACTERS:,} characters are read"
        )
    rows = text.replace("\r", "").split("\n")
    filled = [r for r, row in enumerate(rows) if row and not row.isspace()]
    if not filled:
        raise DataError("the level is empty: expected rows of symbols such as '#####', '#@$.#', '#####'")
    rows = rows[filled[0] : filled[-1] + 1]
    height, width = len(rows), max(map(len, rows))
    if max(height, width) > MOST_SIDE:
        raise DataError(f"the level has {height} rows and {width} columns; at most {MOST_SIDE} of each are read")
    return _build(rows, width, _symbols_of(rows))


def _symbols_of(rows: Sequence[str]) -> Symbols:
    used = set().union(*rows)
    if used <= set(DEFAULT):
        return DEFAULT
    if used <= XSB_ROW_CHARACTERS:
        return SYMBOL_SETS["xsb"]
    known = " or ".join(f"{''.join(symbols)!r} ({name})" for name, symbols in SYMBOL_SETS.items())
    unknown = sorted(used - set(DEFAULT) - XSB_ROW_CHARACTERS)
    if unknown:
        raise DataError(f"unknown symbol {unknown[0]!r}: expected only {known}")
    raise DataError(f"the symbols {''.join(sorted(used))!r} mix two sets: expected only {known}")


def _build(rows: list[str], width: int, symbols: Symbols) -> Level:
    if symbols.floor == " ":
        rows = [row.translate(_XSB_ALIASES) for row in rows]
    board = "\n".join([row.ljust(width, symbols.floor) for row in rows])
    wall, _, target, box, done, player, above = symbols
    players = [at for symbol in (player, above) if (at := board.find(symbol)) >= 0]
    count = board.count(player) + board.count(above)
    if count != 1:
        raise DataError(f"expected exactly one player ({player} or {above}), got {count}")
    targets, boxes = _cells(board, target + done + above), _cells(board, box + done)
    return _checked(len(rows), width, _cells(board, wall), targets, boxes, players[0])


def _cells(board: str, symbols: str) -> int:
    table = dict.fromkeys(map(ord, "".join(DEFAULT) + "".join(SYMBOL_SETS["xsb"]) + "\n"), "0")
    table.update(dict.fromkeys(map(ord, symbols), "1"))
    return int(board[::-1].translate(table), 2)


def _checked(height: int, width: int, walls: int, targets: int, boxes: int, player: int) -> Level:
    if not boxes:
        raise DataError("the level has no box: expected at least one box, and a target for each")
    if boxes.bit_count() != targets.bit_count():
        raise DataError(f"expected as many boxes as targets, got {boxes.bit_count()} boxes "
                         f"and {targets.bit_count()} targets")  # fmt: skip
    room = _flood(height, width, walls, player)
    if room is None:
        raise DataError("the room is open: walls must enclose every cell the player can reach; close the gap")
    if boxes & ~targets & ~room or targets & ~boxes & ~room:
        raise DataError("a box or target is out of the player's reach: move it inside the room")
    if boxes == targets:
        raise DataError("every box is already on a target: expected an unsolved level")
    keep = room | boxes | targets
    return Level(height, width, full_board(height, width) & ~keep, targets, boxes, player)


def _flood(height: int, width: int, walls: int, player: int) -> int | None:
    # cell by cell: growing a bit set takes one pass over the board per turn of the longest path
    stride = width + 1
    free = bytearray(f"{full_board(height, width) & ~walls:0{height * stride}b}"[::-1].encode())
    reached = bytearray(b"0" * len(free))
    last = height - 1
    todo = [player]
    reached[player] = _ONE
    while todo:
        cell = todo.pop()
        row, column = divmod(cell, stride)
        if row in (0, last) or column in (0, width - 1):
            return None
        for beside in (cell - stride, cell + stride, cell - 1, cell + 1):
            if free[beside] == _ONE != reached[beside]:
                reached[beside] = _ONE
                todo.append(beside)
    return int(reached[::-1], 2)


_ONE = ord("1")


#: Hash buckets, out of eight, of each split.
BUCKETS: dict[str, frozenset[int]] = {
    "train": frozenset(range(6)),
    "validation": frozenset({6}),
    "test": frozenset({7}),
}


def canonical_form(level: Level) -> str:
    """Return one text for all copies of a level that differ by rotation, reflection or outer walls.

    It is the smallest text of the eight symmetries of the room, cut to the bounding box of its floor.
    """
    row, column, height, width = box_of_floor(level)
    lines = board_text(level).split("\n")
    rows = [line[column : column + width] for line in lines[row : row + height]]
    columns = ["".join(cells) for cells in zip(*rows, strict=True)]
    # a text read backward is the board turned by half; so two texts per orientation give all four
    one, other = "\n".join(rows), "\n".join([line[::-1] for line in rows])
    turned, mirrored = "\n".join(columns), "\n".join([line[::-1] for line in columns])
    return min(one, one[::-1], other, other[::-1], turned, turned[::-1], mirrored, mirrored[::-1])


def split_of(level: Level) -> str:
    """Return the split of a level: "train" (6 of 8 levels), "validation" or "test" (1 of 8 each)."""
    bucket = hashlib.sha256(canonical_form(level).encode()).digest()[0] % 8
    return next(name for name, buckets in BUCKETS.items() if bucket in buckets)
