"""Pictures at several tile sizes."""

import numpy as np
import pytest

from agentgym.sokoban.picture import Painter, tiles
from tests.refusals import refuses

BOARD = "######\n#P_X_#\n#√OSX#\n######"  # two players: every symbol once, a board for the eye only


@pytest.mark.parametrize("size", [4, 5, 7, 8, 16, 33, 64])
def test_every_cell_shows_its_tile(size: int) -> None:
    picture = Painter(size)(BOARD)
    assert picture.shape == (4 * size, 6 * size, 3)
    assert picture.dtype == np.uint8
    for row, line in enumerate(BOARD.split("\n")):
        for column, symbol in enumerate(line):
            cell = picture[row * size : (row + 1) * size, column * size : (column + 1) * size]
            assert np.array_equal(cell, tiles(size)["#_OX√PS".index(symbol)])


@pytest.mark.parametrize("size", [4, 6, 16, 48])
def test_tiles_are_easy_to_tell_apart(size: int) -> None:
    drawn = tiles(size).astype(float)
    for i in range(7):
        for j in range(i):
            assert abs(drawn[i] - drawn[j]).mean() > 4  # mean difference per channel, of 255


def test_small_boards_are_framed_and_share_no_memory() -> None:
    picture = Painter(4)("###\n#P#\n###", 5, 6)
    assert picture.shape == (20, 24, 3)
    wall, player = tiles(4)[0], tiles(4)[5]
    assert np.array_equal(picture[8:12, 8:12], player)  # one row above and below, one column left and two right
    assert np.array_equal(picture[0:4, 20:24], wall)
    paint = Painter(4)
    first = paint(BOARD)
    first[:] = 0
    assert paint(BOARD).max() > 0


@pytest.mark.parametrize("size", [3, 0, -1, 4.5, True, "16"])
def test_wrong_tile_sizes(size: object) -> None:
    refuses(ValueError, "tile_size must be an integer of at least 4", Painter, size)
