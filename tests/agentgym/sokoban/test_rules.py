"""The rules, on boards small enough to follow by eye; random play against the naive twin."""

import numpy as np
import pytest

from agentgym.sokoban.generated import LevelSpec, generate_level
from agentgym.sokoban.rules import DIRECTIONS, MOVES_OF_MASK, Board, successor
from agentgym.sokoban.text import board_text, parse_level
from tests.agentgym.sokoban import naive


def after(text: str, *moves: str) -> str:
    """Board after some moves."""
    board = Board(parse_level(text))
    for name in moves:
        board.move(DIRECTIONS.index(name))
    return board_text(board.level, board.player, board.boxes)


@pytest.mark.parametrize(
    ("before", "move", "expected"),
    [
        ("#PX_O#", "right", "#_PXO#"),  # a push
        ("#_PXO#", "right", "#__P√#"),  # onto the target
        ("#OX_P#", "left", "#OXP_#"),  # a step beside the box
        ("#OXP_#", "right", "#OX_P#"),  # away from it: never a pull
        ("#P√__X_O#", "right", "#_SX_X_O#"),  # off its target, the player now on it
        ("#PXXOO#", "right", "#PXXOO#"),  # two boxes in a row do not move
        ("#PX_O#", "left", "#PX_O#"),  # nor the player into a wall
        ("#P_XO#", "up", "#P_XO#"),
    ],
)
def test_one_move(before: str, move: str, expected: str) -> None:
    frame = "#" * len(before)
    assert after(f"{frame}\n{before}\n{frame}", move) == f"{frame}\n{expected}\n{frame}"


def test_moves_by_hand() -> None:
    text = "###\n#P#\n#X#\n#_#\n#O#\n###"
    assert after(text, "down", "down") == "###\n#_#\n#_#\n#P#\n#√#\n###"
    assert after("###\n#P#\n#O#\n#X#\n###", "down", "down") == "###\n#_#\n#S#\n#X#\n###"  # a box against a wall
    assert after(text, "down", "up") == "###\n#P#\n#_#\n#X#\n#O#\n###"  # the box stays where it was pushed
    # left: wall. up: box against the wall. right: box with room behind. down: free.
    level = parse_level("######\n##X_##\n##PX_#\n##_OO#\n######")
    assert MOVES_OF_MASK[Board(level).open_moves()] == ("down", "right")


@pytest.mark.parametrize("spec", [LevelSpec(), LevelSpec(5, 9, (1, 2, 3)), LevelSpec(9, 7, (2,), 5, 40)])
def test_random_play_equals_the_naive_rules(spec: LevelSpec) -> None:
    rng = np.random.default_rng(0)
    for index in range(25):
        level = generate_level(spec, "train", index)
        board = Board(level)
        walls, targets, state = naive.read(board_text(level))
        for pick in rng.integers(4, size=60).tolist():
            expected = {name: naive.move(walls, state, name) for name in DIRECTIONS}
            assert MOVES_OF_MASK[board.open_moves()] == tuple(name for name in DIRECTIONS if expected[name])
            result = successor(level, board.player, board.boxes, pick)
            moved = board.move(pick)
            assert moved == (expected[DIRECTIONS[pick]] is not None)
            assert result == ((board.player, board.boxes) if moved else None)
            state = expected[DIRECTIONS[pick]] or state
            assert naive.read(board.text()) == (walls, targets, state)
            assert board.text() == board_text(level, board.player, board.boxes)
            assert board.solved == (state[1] == targets)
            assert board.on_target == len(state[1] & targets)
