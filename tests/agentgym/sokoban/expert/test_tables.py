"""Both distance tables against a forward search that shares no code with them, on hundreds of levels."""

from math import inf

import numpy as np
import pytest

from agentgym.sokoban.expert.tables import BitTable, RankTable
from agentgym.sokoban.generated import LevelSpec, generate_level
from agentgym.sokoban.rules import Board
from agentgym.sokoban.text import Level, board_text, parse_level
from tests.agentgym.sokoban import naive

TABLES = [BitTable, RankTable]
SPECS = [LevelSpec(boxes=(1,)), LevelSpec(boxes=(2,)), LevelSpec(5, 7, (3,), 3, 30), LevelSpec(8, 8, (2,), 8, 30)]


def played(level: Level, rng: np.random.Generator, moves: int) -> Board:
    """The level after some random moves: often a dead end."""
    board = Board(level)
    for pick in rng.integers(4, size=moves).tolist():
        board.move(pick)
    return board


@pytest.mark.parametrize("spec", SPECS)
def test_tables_agree_with_forward_search(spec: LevelSpec) -> None:
    rng = np.random.default_rng(1)
    dead = 0
    for index in range(60):
        board = played(generate_level(spec, "train", index), rng, index % 20)
        expected = naive.forward_distance(board_text(board.level, board.player, board.boxes))
        dead += expected == inf
        for table in TABLES:
            assert table(board.level).distance(board.player, board.boxes) == expected
    assert 0 < dead < 60  # both kinds were met


@pytest.mark.parametrize("table", TABLES)
def test_every_reachable_state_of_a_room(table: type[BitTable] | type[RankTable]) -> None:
    text = "#######\n#P____#\n#_X_#_#\n#__X__#\n#_O_O_#\n#######"
    level = parse_level(text)
    built = table(level)
    distances = naive.all_distances(text)
    assert len(distances) > 1000
    for ((row, column), boxes), expected in distances.items():
        bits = sum(1 << (r * 8 + c) for r, c in boxes)
        assert built.distance(row * 8 + column, bits) == expected


@pytest.mark.parametrize("table", TABLES)
def test_a_corridor_by_hand(table: type[BitTable] | type[RankTable]) -> None:
    level = parse_level("########\n#_PX_O_#\n########")
    built = table(level)
    cell = 10  # first floor cell: row 1, column 1; a row takes 9 characters with its line break
    assert built.distance(cell, 1 << (cell + 2)) == 3  # one step to the box, two pushes
    assert built.distance(cell + 1, 1 << (cell + 2)) == 2
    assert built.distance(cell + 1, 1 << (cell + 4)) == 0
    assert built.distance(cell + 3, 1 << (cell + 2)) == inf  # wrong side of the box, no way around
    assert built.distance(cell, 1 << (cell + 5)) == inf  # box in the corner beyond the target


@pytest.mark.parametrize("table", TABLES)
def test_states_by_distance(table: type[BitTable] | type[RankTable]) -> None:
    level = parse_level("########\n#_PX_O_#\n########")
    built = table(level, depth=1)
    # the target is cell 14; behind a box two cells short of it, or one step away from a box one cell short of it
    states = {built.decode(code) for code in built.states(2, 2)}
    assert states == {(11, 1 << 12), (11, 1 << 13)}
    assert len(built.states(50, 60)) == 0


@pytest.mark.parametrize("table", TABLES)
def test_bounded_depth_continues_on_demand(table: type[BitTable] | type[RankTable]) -> None:
    level = generate_level(LevelSpec(boxes=(2,), min_length=10, max_length=14), "train", 0)
    full = table(level)
    assert full.complete
    bounded = table(level, depth=3)
    assert not bounded.complete
    for code in full.states(0, 100).tolist():
        state = full.decode(code)
        assert bounded.distance(*state) == full.distance(*state)


def test_both_tables_hold_the_same_states() -> None:
    for index in range(10):
        level = generate_level(LevelSpec(6, 7, (3,)), "test", index)
        bits, ranks = BitTable(level), RankTable(level)
        for shortest, longest in ((0, 0), (1, 4), (5, 200)):
            from_bits = {bits.decode(code) for code in bits.states(shortest, longest)}
            from_ranks = [ranks.decode(code) for code in ranks.states(shortest, longest)]
            assert from_bits == set(from_ranks)
            assert len(from_ranks) == len(set(from_ranks))
