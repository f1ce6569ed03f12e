"""Boards of any size that are long to read."""

from collections.abc import Callable


def maze(side: int) -> str:
    """A staircase that winds through the whole board: the longest way for a flood."""
    rows = [["#"] * side for _ in range(side)]
    for row in range(1, side - 1):
        for column in range(1, side - 1):
            if row % 2 or column == (side - 2 if row % 4 == 2 else 1):
                rows[row][column] = " "
    rows[1][1:4] = "@$."
    return "\n".join(map("".join, rows))


MAZES: dict[str, Callable[[int], str]] = {
    "maze": maze,
    "maze of boxes": lambda side: maze(side).replace("   ", "$ ."),
    "players": lambda side: "@" * side,
}
