"""The rules of Sokoban: moves of a board that is stored as its text, and of states as bit sets."""

from agentgym.sokoban.text import DEFAULT, STAND_IN, Level, board_cells, cell_table

#: The four moves, in the order of everything that is listed per direction.
DIRECTIONS: tuple[str, str, str, str] = ("up", "down", "left", "right")

#: Moves named by a four-bit mask, bit i for direction i.
MOVES_OF_MASK: tuple[tuple[str, ...], ...] = tuple(
    tuple(name for i, name in enumerate(DIRECTIONS) if mask >> i & 1) for mask in range(16)
)
#: The symbol of a cell with the player on it, with a box on it, and after the player has left it; 0: impossible. The
#: player replaces a box.
_WITH_PLAYER = cell_table(
    {
        DEFAULT.floor: DEFAULT.player,
        DEFAULT.box: DEFAULT.player,
        DEFAULT.target: DEFAULT.player_on_target,
        DEFAULT.box_on_target: DEFAULT.player_on_target,
    }
)
_WITH_BOX = cell_table({DEFAULT.floor: DEFAULT.box, DEFAULT.target: DEFAULT.box_on_target})
_LEFT = cell_table({DEFAULT.player: DEFAULT.floor, DEFAULT.player_on_target: DEFAULT.target})
#: 0 for a cell that cannot be entered, else whether it is free or holds a box.
_FREE, _BOX = 1, 2
_KIND = bytes([_FREE if _WITH_BOX[cell] else _BOX if _WITH_PLAYER[cell] else 0 for cell in range(256)])
_ON_TARGET = _WITH_BOX[ord(DEFAULT.target)]


class Board:
    """The board of an episode, by default at the start of its level.

    `boxes` is a bit set; `pushed_to`: cell to which the last successful move pushed a box, -1 if it pushed none.
    """

    __slots__ = ("_cells", "_deltas", "boxes", "level", "on_target", "player", "pushed_to")

    def __init__(self, level: Level, player: int | None = None, boxes: int | None = None) -> None:
        self.level = level
        self.player = level.player if player is None else player
        self.boxes = level.boxes if boxes is None else boxes
        self.on_target = (self.boxes & level.targets).bit_count()
        self.pushed_to = -1
        self._deltas = level.deltas
        self._cells = board_cells(level, self.player, self.boxes)

    def move(self, direction: int) -> bool:
        """Move the player one cell and push a box ahead; return False, without a change, when that is impossible."""
        cells, here = self._cells, self.player
        delta = self._deltas[direction]
        ahead = here + delta
        symbol = cells[ahead]
        entered = _WITH_PLAYER[symbol]
        if not entered:
            return False
        if _WITH_BOX[symbol]:
            self.pushed_to = -1
        else:
            beyond = ahead + delta
            pushed = _WITH_BOX[cells[beyond]]
            if not pushed:
                return False
            cells[beyond] = pushed
            self.boxes ^= 1 << ahead | 1 << beyond
            self.on_target += (pushed == _ON_TARGET) - (symbol == _ON_TARGET)
            self.pushed_to = beyond
        cells[here] = _LEFT[cells[here]]
        cells[ahead] = entered
        self.player = ahead
        return True

    def open_moves(self) -> int:
        """Return the moves that would change the board, as a mask with bit i for direction i."""
        # unrolled: this runs at every step of every environment
        cells, player = self._cells, self.player
        up, down, left, right = self._deltas
        mask = 0
        kind = _KIND[cells[player + up]]
        if kind and (kind == _FREE or _WITH_BOX[cells[player + up + up]]):
            mask = 1
        kind = _KIND[cells[player + down]]
        if kind and (kind == _FREE or _WITH_BOX[cells[player + down + down]]):
            mask |= 2
        kind = _KIND[cells[player + left]]
        if kind and (kind == _FREE or _WITH_BOX[cells[player + left + left]]):
            mask |= 4
        kind = _KIND[cells[player + right]]
        if kind and (kind == _FREE or _WITH_BOX[cells[player + right + right]]):
            mask |= 8
        return mask

    def text(self) -> str:
        text = self._cells.decode("latin-1")
        return text.replace(STAND_IN, DEFAULT.box_on_target) if self.on_target else text

    @property
    def solved(self) -> bool:
        return self.boxes == self.level.targets


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
