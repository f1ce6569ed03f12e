"""The solver and both distance tables, against a forward search that shares no code with them."""

import random
from dataclasses import replace
from math import inf, isnan

import numpy as np
import pytest

from agentgym.sokoban.expert import solver
from agentgym.sokoban.expert.solver import Solver, room_table, solve
from agentgym.sokoban.expert.tables import BitTable, RankTable
from agentgym.sokoban.generated import LevelSpec, generate_level
from agentgym.sokoban.rules import DIRECTIONS, Board, successor
from agentgym.sokoban.tasks import LevelFiles
from agentgym.sokoban.text import MOST_SIDE, Level, board_text, parse_level
from tests.agentgym.sokoban import naive
from tests.agentgym.sokoban.naive import BOXOBAN
from tests.oracles import oracle
from tests.refusals import refuses

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
        expected = naive.forward_distance(board_text(replace(board.level, player=board.player, boxes=board.boxes)))
        dead += expected == inf
        for table in TABLES:
            assert table(board.level).distance(board.player, board.boxes) == expected
    assert 0 < dead < 60  # both kinds were met


@pytest.mark.parametrize("table", TABLES)
def test_every_reachable_state_of_a_room(table: type[BitTable] | type[RankTable]) -> None:
    text = "#######\n#P____#\n#_X_#_#\n#__X__#\n#_O_O_#\n#######"
    built = table(parse_level(text))
    distances = naive.all_distances(text)
    assert len(distances) > 1000
    for ((row, column), boxes), expected in distances.items():
        assert built.distance(row * 8 + column, sum(1 << (r * 8 + c) for r, c in boxes)) == expected


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


def test_optimal_moves_by_hand() -> None:
    level = parse_level("######\n#_P__#\n#_X_O#\n#____#\n######")
    found = Solver(level)
    assert found.distance(level.player, level.boxes) == 4  # left, down, right, right
    assert found.optimal_moves(level.player, level.boxes) == ("left",)
    # up, right, right (box beside the target's column), down, right, up: 6 moves; or right, up (box in the
    # target's row), left, up, right, right: 6 as well
    level = parse_level("#######\n#_____#\n#___O_#\n#_X___#\n#P____#\n#######")
    found = Solver(level)
    assert found.distance(level.player, level.boxes) == 6
    assert found.optimal_moves(level.player, level.boxes) == ("up", "right")
    done = solve(level, level.player, level.targets)
    assert (done.distance, done.moves) == (0, ())
    # row 1, column 1: a corner. And neither box on the upper wall can leave it: targets are elsewhere
    level = parse_level("######\n#PX_O#\n#____#\n######")
    dead = solve(level, level.player + 1, 1 << 8)
    assert (dead.distance, dead.moves) == (inf, ())
    level = parse_level("#######\n#_XX__#\n#_P___#\n#_OO__#\n#######")
    assert solve(level, level.player, level.boxes).distance == inf
    level = generate_level(LevelSpec(8, 8, (3,), 25, 60), "train", 0)
    assert solve(level, level.player, level.boxes, budget=2) is None


def test_search_answers_as_the_table_does(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = [generate_level(LevelSpec(7, 7, (2,), 5, 30), "train", i) for i in range(10)]
    tables = [Solver(level) for level in levels]
    monkeypatch.setattr(solver, "MAX_STATES", 0)
    monkeypatch.setattr(solver, "_WIDE_INTEGER_BITS", 0)
    for level, table in zip(levels, tables, strict=True):
        searching = Solver(level)
        state: tuple[int, int] | None = (level.player, level.boxes)
        while state is not None and table.distance(*state):
            assert searching.distance(*state) == table.distance(*state)
            (move,) = searching.optimal_moves(*state)
            assert move in table.optimal_moves(*state)
            state = successor(level, *state, DIRECTIONS.index(move))
        assert state is not None
        assert searching.distance(*state) == 0
        assert searching.optimal_moves(*state) == ()
    dead = parse_level("######\n#PX_O#\n#____#\n######")
    assert Solver(dead).distance(dead.player + 1, 1 << 8) == inf
    assert isnan(Solver(levels[0], budget=1).distance(levels[0].player, levels[0].boxes))
    refuses(ValueError, "use fewer boxes or a smaller room", room_table, levels[0])


def open_room(side: int, boxes: int) -> Level:
    """A hall with boxes and targets anywhere."""
    places = random.Random(0).sample([(r, c) for r in range(2, side - 2) for c in range(2, side - 2)], 2 * boxes + 1)
    rows = [["#" if {r, c} & {0, side - 1} else " " for c in range(side)] for r in range(side)]
    for (row, column), symbol in zip(places, "$" * boxes + "." * boxes + "@", strict=True):
        rows[row][column] = symbol
    return parse_level("\n".join(map("".join, rows)))


@pytest.mark.parametrize(("side", "boxes"), [(20, 10), (40, 30), (MOST_SIDE, 3), (MOST_SIDE, 100), (MOST_SIDE, 5000)])
def test_halls_full_of_boxes_end_in_a_shrug(side: int, boxes: int) -> None:
    level = open_room(side, boxes)
    found = Solver(level, budget=20_000)
    assert isnan(found.distance(level.player, level.boxes))
    assert found.optimal_moves(level.player, level.boxes) == ()


def test_one_box_in_the_largest_hall_is_brought_home() -> None:
    level = open_room(MOST_SIDE, 1)
    assert Solver(level).distance(level.player, level.boxes) == 166


def check(level: Level, expected: float) -> None:
    solution = solve(level, level.player, level.boxes)
    assert solution.distance == expected == len(solution.moves)
    board = Board(level)
    assert all(board.move(DIRECTIONS.index(name)) for name in solution.moves)
    assert board.solved


@pytest.mark.parametrize("spec", [LevelSpec(), LevelSpec(7, 8, (3,), 8, 60), LevelSpec(9, 9, (2,), 15, 60)])
def test_optimal_on_generated_levels(spec: LevelSpec) -> None:
    for index in range(30):
        level = generate_level(spec, "validation", index)
        check(level, room_table(level).distance(level.player, level.boxes))


@pytest.mark.parametrize("name", BOXOBAN)
def test_optimal_on_boxoban_levels(name: str) -> None:
    files = LevelFiles(oracle("boxoban", name))
    for number in (0, 6, 7, 11):
        check(files[number], room_table(files[number]).distance(files[number].player, files[number].boxes))
