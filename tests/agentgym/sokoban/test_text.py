"""Parsing, validation and the looks of boards."""

from collections import Counter

import pytest

from agentgym.outside.text import DataError
from agentgym.sokoban.expert.tables import BitTable
from agentgym.sokoban.text import MOST_SIDE, Level, Style, board_text, canonical_form, cells_of, parse_level, split_of
from tests.agentgym.hard_inputs import MAZES
from tests.refusals import refuses

BOARD = "######\n#P_X_#\n#√O__#\n######"


def test_both_symbol_sets_read_the_same_level() -> None:
    xsb = "######\n#@ $ #\n#*.  #\n######"
    assert parse_level(BOARD) == parse_level(xsb)
    assert board_text(parse_level(xsb)) == BOARD
    assert Style("xsb")(BOARD) == xsb
    assert parse_level(Style("xsb")(BOARD), "xsb") == parse_level(BOARD)
    level = parse_level("#####\n#+$ #\n#####")  # cell = row * (width + 1) + column
    assert (level.player, list(cells_of(level.targets)), list(cells_of(level.boxes))) == (7, [7], [8])
    assert board_text(level) == "#####\n#SX_#\n#####"
    assert Style(separator=" ")("##\n#√") == "# #\n# √"
    assert Style("xsb", ",")("#_OX√PS") == "#, ,.,$,*,@,+"
    assert "a space floor" in Style("xsb").legend()
    level = parse_level("  ####\n###  ####\n#     $ #\n# #  #$ #\n# . .#@ #\n#########\n", "xsb")
    assert board_text(level).split("\n") == [
        "#########",
        "###__####",
        "#_____X_#",
        "#_#__#X_#",
        "#_O_O#P_#",
        "#########",
    ]
    assert parse_level("#####\n#@$.#\n#-_ #\n#####") == parse_level("#####\n#@$.#\n#   #\n#####")
    refuses(ValueError, "did you mean 'default'", Style, "defualt")
    refuses(ValueError, "separator", Style, separator=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("#####\n#PXO#\n#_?_#\n#####", r"unknown symbol '\?'"),
        ("#####\n#PX.#\n#####", "mix two sets"),
        ("#####\n#_XO#\n#####", "exactly one player .* got 0"),
        ("######\n#PPXO#\n######", "exactly one player .* got 2"),
        ("#####\n#P__#\n#####", "no box"),
        ("######\n#PXOO#\n######", "1 boxes and 2 targets"),
        ("#####\n#PXO_\n#####", "open"),
        ("#####\n#PXO#\n##_##", "open"),
        ("#######\n#PX_#O#\n#######", "out of the player's reach"),
        ("#####\n#P√_#\n#####", "already"),
    ],
)
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
        with pytest.raises(DataError, match=rf"{height} rows and {width} columns; at most {side} of each"):
            parse_level("\n".join(larger))


@pytest.mark.parametrize("name", MAZES)
def test_a_board_of_the_largest_size_is_read_or_refused(name: str) -> None:
    text = MAZES[name](MOST_SIDE - 1)
    if name != "players":
        assert board_text(parse_level(text)).count("P") == 1
        return
    with pytest.raises(DataError):
        parse_level(text)


ROWS = ["#######", "#P__X_#", "##_#__#", "#O____#", "#######"]


def variants() -> list[list[str]]:
    """The eight symmetries of ROWS."""
    found = []
    rows = ROWS
    for _ in range(4):
        rows = ["".join(column) for column in zip(*rows[::-1], strict=True)]  # a quarter turn
        found += [rows, [row[::-1] for row in rows]]
    return found


def test_symmetries_and_walls_around_are_one_form() -> None:
    assert len({tuple(rows) for rows in variants()}) == 8
    assert len({canonical_form(parse_level("\n".join(rows))) for rows in variants()}) == 1
    padded = ["#" * 11] * 2 + [f"##{row}##" for row in ROWS] + ["#" * 11]
    assert canonical_form(parse_level("\n".join(padded))) == canonical_form(parse_level("\n".join(ROWS)))
    # floor "P", "X", "O" in a row; of PXO and OXP (and both upright) the smallest text wins: "O" sorts before "P",
    # and the line break before both letters, so the upright one
    assert canonical_form(parse_level("#####\n#PXO#\n#####")) == "O\nX\nP"
    other = [*ROWS[:1], "#_P_X_#", *ROWS[2:]]
    assert canonical_form(parse_level("\n".join(other))) != canonical_form(parse_level("\n".join(ROWS)))


def test_splits_take_six_one_and_one_of_eight() -> None:
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
