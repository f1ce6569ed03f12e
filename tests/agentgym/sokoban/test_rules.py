"""Boards: parsing, the rules against a naive twin, pictures, generated levels, the solver and its distance tables."""

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations
from math import inf, isnan

import numpy as np
import pytest

from agentgym.outside.text import DataError
from agentgym.sokoban.expert import solver
from agentgym.sokoban.expert.solver import Solver, room_table, solve
from agentgym.sokoban.expert.tables import BitTable, RankTable
from agentgym.sokoban.generated import LevelSpec, generate, generate_level
from agentgym.sokoban.picture import Painter, tiles
from agentgym.sokoban.rules import DIRECTIONS, MOVES_OF_MASK, Board, successor
from agentgym.sokoban.tasks import LevelFiles
from agentgym.sokoban.text import MOST_SIDE, Level, Style, board_text, canonical_form, cells_of, parse_level, split_of
from tests.agentgym.hard_inputs import MAZES
from tests.agentgym.sokoban import naive
from tests.agentgym.sokoban.naive import BOXOBAN
from tests.cases import cases
from tests.oracles import oracle
from tests.refusals import refuses

BOARD = "######\n#P_X_#\n#√O__#\n######"


def test_both_symbol_sets_read_the_same_level() -> None:
    xsb = "######\n#@ $ #\n#*.  #\n######"
    assert parse_level(BOARD) == parse_level(xsb)
    assert board_text(parse_level(xsb)) == BOARD
    assert Style("xsb")(BOARD) == xsb
    assert parse_level(Style("xsb")(BOARD)) == parse_level(BOARD)
    level = parse_level("#####\n#+$ #\n#####")  # cell = row * (width + 1) + column
    assert (level.player, list(cells_of(level.targets)), list(cells_of(level.boxes))) == (7, [7], [8])
    assert board_text(level) == "#####\n#SX_#\n#####"
    assert Style(separator=" ")("##\n#√") == "# #\n# √"
    assert Style("xsb", ",")("#_OX√PS") == "#, ,.,$,*,@,+"
    assert "a space floor" in Style("xsb").legend()
    level = parse_level("  ####\n###  ####\n#     $ #\n# #  #$ #\n# . .#@ #\n#########\n")
    assert board_text(level) == "#########\n###__####\n#_____X_#\n#_#__#X_#\n#_O_O#P_#\n#########"
    assert parse_level("#####\n#@$.#\n#-_ #\n#####") == parse_level("#####\n#@$.#\n#   #\n#####")
    refuses(ValueError, "did you mean 'default'", Style, "defualt")
    refuses(ValueError, "separator", Style, separator=None)


@cases(
    "text, message",
    ("", "empty"), ("#####\n#PXO#\n#_?_#\n#####", r"unknown symbol '\?'"), ("#####\n#PX.#\n#####", "mix two sets"),
    ("#####\n#_XO#\n#####", "exactly one player .* got 0"), ("######\n#PPXO#\n######", "exactly one player .* got 2"),
    ("#####\n#P__#\n#####", "no box"), ("######\n#PXOO#\n######", "1 boxes and 2 targets"),
    ("#####\n#PXO_\n#####", "open"), ("#####\n#PXO#\n##_##", "open"), ("#####\n#P√_#\n#####", "already"),
    ("#######\n#PX_#O#\n#######", "out of the player's reach"),
)  # fmt: skip
def test_malformed_levels_say_what_is_wrong(text: str, message: str) -> None:
    refuses(DataError, message, parse_level, text)


def test_the_largest_board_and_what_is_larger() -> None:
    side = MOST_SIDE
    rows = ["#" * side, "#@$." + " " * (side - 5) + "#", *["#" + " " * (side - 2) + "#"] * (side - 3), "#" * side]
    level = parse_level("\n".join(rows))
    assert (level.height, level.width) == (side, side)
    assert board_text(level).replace("_", " ").translate(str.maketrans("PXO", "@$.")) == "\n".join(rows)
    for larger in ([*rows, rows[0]], [row + "#" for row in rows]):
        height, width = len(larger), len(larger[0])
        refuses(DataError, f"{height} rows and {width} columns; at most {side} of each", parse_level, "\n".join(larger))
    for name in ("maze", "maze of boxes"):
        assert board_text(parse_level(MAZES[name](side - 1))).count("P") == 1
    refuses(DataError, "exactly one player", parse_level, MAZES["players"](side - 1))


ROWS = ["#######", "#P__X_#", "##_#__#", "#O____#", "#######"]


def variants() -> list[list[str]]:
    """The eight symmetries of ROWS."""
    found = []
    rows = ROWS
    for _ in range(4):
        rows = ["".join(column) for column in zip(*rows[::-1], strict=True)]  # a quarter turn
        found += [rows, [row[::-1] for row in rows]]
    return found


def test_symmetric_levels_are_one_form_and_splits_take_six_one_and_one_of_eight() -> None:
    assert len({tuple(rows) for rows in variants()}) == 8
    assert len({canonical_form(parse_level("\n".join(rows))) for rows in variants()}) == 1
    padded = ["#" * 11] * 2 + [f"##{row}##" for row in ROWS] + ["#" * 11]
    assert canonical_form(parse_level("\n".join(padded))) == canonical_form(parse_level("\n".join(ROWS)))
    # floor "P", "X", "O" in a row; of PXO and OXP (and both upright) the smallest text wins: "O" sorts before "P",
    # and the line break before both letters, so the upright one
    assert canonical_form(parse_level("#####\n#PXO#\n#####")) == "O\nX\nP"
    other = [*ROWS[:1], "#_P_X_#", *ROWS[2:]]
    assert canonical_form(parse_level("\n".join(other))) != canonical_form(parse_level("\n".join(ROWS)))
    room = parse_level("########\n#P_____#\n#_X__X_#\n#__O___#\n#____O_#\n#______#\n########")
    table = BitTable(room)
    codes = table.states(1, 100)
    levels = {Level(7, 8, room.walls, room.targets, *reversed(table.decode(code))) for code in codes}
    counts = Counter(map(split_of, levels))
    total = len(levels)
    # symmetric copies come in pairs or fours at most: four standard deviations of a binomial of a quarter the size
    assert total > 1500
    for split, share in (("train", 6 / 8), ("validation", 1 / 8), ("test", 1 / 8)):
        assert abs(counts[split] / total - share) < 4 * (share * (1 - share) / (total / 4)) ** 0.5


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
            assert board.text() == board_text(replace(level, player=board.player, boxes=board.boxes))
            assert (board.solved, board.on_target) == (state[1] == targets, len(state[1] & targets))


EVERY_SYMBOL = "######\n#P_X_#\n#√OSX#\n######"  # two players: every symbol once, a board for the eye only


@pytest.mark.parametrize("size", [4, 5, 7, 16, 48])
def test_every_cell_shows_its_tile_and_tiles_are_easy_to_tell_apart(size: int) -> None:
    picture = Painter(size)(EVERY_SYMBOL)
    assert (picture.shape, picture.dtype) == ((4 * size, 6 * size, 3), np.uint8)
    for row, line in enumerate(EVERY_SYMBOL.split("\n")):
        for column, symbol in enumerate(line):
            cell = picture[row * size : (row + 1) * size, column * size : (column + 1) * size]
            assert np.array_equal(cell, tiles(size)["#_OX√PS".index(symbol)])
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
    paint(EVERY_SYMBOL)[:] = 0
    assert paint(EVERY_SYMBOL).max() > 0
    for size in (3, 0, -1, 4.5, True, "16"):
        refuses(ValueError, "tile_size must be an integer of at least 4", Painter, size)


SPLITS = ("train", "validation", "test")


@cases(
    "spec",
    LevelSpec(), LevelSpec(boxes=(1,), min_length=1, max_length=2), LevelSpec(4, 6, (1,), 2, 8),
    LevelSpec(7, 5, (2, 3), 6, 20), LevelSpec(8, 8, (2,), 12, 25),
)  # fmt: skip
def test_optimal_length_is_in_range_by_naive_search(spec: LevelSpec) -> None:
    counts = Counter()
    for level in generate(30, spec, "test"):
        assert (level.height, level.width) == (spec.height, spec.width)
        assert spec.min_length <= naive.forward_distance(board_text(level)) <= spec.max_length
        assert parse_level(board_text(level)) == level  # passes every check of level files
        counts[level.targets.bit_count()] += 1
    assert set(counts) == set(spec.boxes)


def test_levels_of_all_lengths_are_in_their_split_and_impossible_ones_are_named() -> None:
    spec = LevelSpec(10, 10, (4,), 10, 16)
    for level in generate(3, spec, "train"):
        assert 10 <= naive.forward_distance(board_text(level)) <= 16
    # with a single wanted length every level has it
    assert {naive.forward_distance(board_text(level)) for level in generate(40, LevelSpec(max_length=3))} == {3.0}
    spec = LevelSpec(boxes=(1,), max_length=4)  # easy one-box levels: where generators repeat themselves most
    forms = {split: {canonical_form(level) for level in generate(400, spec, split)} for split in SPLITS}
    assert all(len(found) > 50 for found in forms.values())
    assert not any(forms[one] & forms[other] for one, other in combinations(SPLITS, 2))
    for split in SPLITS:
        assert {split_of(level) for level in generate(50, LevelSpec(), split)} == {split}
    base, long = generate(20), LevelSpec(max_length=11)
    assert base[7:9] == generate(2, first=7)
    for other in (generate(20, LevelSpec(level_seed=1)), generate(20, split="test"), generate(20, long)):
        assert not set(base) & set(other)
    refuses(ValueError, "lower min_length", generate_level, LevelSpec(4, 4, (1,), 30, 40), "train", 0)
    refuses(ValueError, "did you mean 'train'", generate_level, LevelSpec(), "trian", 0)
    refuses(ValueError, "negative", generate_level, LevelSpec(), "train", -1)
    for arguments, message in (
        ({"height": 3}, "at least 4x4"), ({"level_seed": -1}, "level_seed"), ({"boxes": ()}, "boxes must be"),
        ({"boxes": (1, 8)}, "fewer boxes or a larger size"), ({"boxes": (0,)}, "between 1 and 7 on a 6x6"),
        ({"min_length": 5, "max_length": 4}, "min_length=5 and max_length=4"), ({"min_length": 0}, "1 <= min_length"),
    ):  # fmt: skip
        refuses(ValueError, message, LevelSpec, **arguments)


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
def test_states_by_distance_and_bounded_depth_continues_on_demand(table: type[BitTable] | type[RankTable]) -> None:
    level = parse_level("########\n#_PX_O_#\n########")
    built = table(level, depth=1)
    # the target is cell 14; behind a box two cells short of it, or one step away from a box one cell short of it
    states = {built.decode(code) for code in built.states(2, 2)}
    assert states == {(11, 1 << 12), (11, 1 << 13)}
    assert len(built.states(50, 60)) == 0
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


@pytest.mark.parametrize(("side", "boxes"), [(20, 10), (MOST_SIDE, 3), (MOST_SIDE, 5000)])
def test_halls_full_of_boxes_end_in_a_shrug(side: int, boxes: int) -> None:
    level = open_room(side, boxes)
    found = Solver(level, budget=20_000)
    assert isnan(found.distance(level.player, level.boxes))
    assert found.optimal_moves(level.player, level.boxes) == ()
    level = open_room(MOST_SIDE, 1)  # one box alone is brought home
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
