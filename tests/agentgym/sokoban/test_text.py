"""Parsing, validation and the looks of boards."""

import pytest

from agentgym.outside.text import DataError
from agentgym.sokoban.rules import cells_of
from agentgym.sokoban.text import MOST_SIDE, Style, board_text, parse_level
from tests.agentgym.hard_inputs import MAZES

BOARD = "######\n#P_X_#\n#√O__#\n######"


def test_both_symbol_sets_read_the_same_level() -> None:
    xsb = "######\n#@ $ #\n#*.  #\n######"
    assert parse_level(BOARD) == parse_level(xsb)
    assert board_text(parse_level(xsb)) == BOARD
    assert Style("xsb")(BOARD) == xsb
    assert parse_level(Style("xsb")(BOARD), "xsb") == parse_level(BOARD)


def test_player_on_target_and_cell_numbers() -> None:
    level = parse_level("#####\n#+$ #\n#####")  # cell = row * (width + 1) + column
    assert (level.player, list(cells_of(level.targets)), list(cells_of(level.boxes))) == (7, [7], [8])
    assert board_text(level) == "#####\n#SX_#\n#####"


def test_style_joins_cells_and_translates() -> None:
    assert Style(separator=" ")("##\n#√") == "# #\n# √"
    assert Style("xsb", ",")("#_OX√PS") == "#, ,.,$,*,@,+"
    assert "a space floor" in Style("xsb").legend()


def test_ragged_rows_and_the_outside_become_walls() -> None:
    level = parse_level("  ####\n###  ####\n#     $ #\n# #  #$ #\n# . .#@ #\n#########\n", "xsb")
    assert board_text(level).split("\n") == [
        "#########",
        "###__####",
        "#_____X_#",
        "#_#__#X_#",
        "#_O_O#P_#",
        "#########",
    ]


def test_dashes_and_underscores_are_floor_in_xsb() -> None:
    assert parse_level("#####\n#@$.#\n#-_ #\n#####") == parse_level("#####\n#@$.#\n#   #\n#####")


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
        ("#######\n#PX_#O#\n#######", "never get"),
        ("#####\n#P√_#\n#####", "already"),
    ],
)
def test_malformed_levels_say_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_level(text)


def test_unknown_symbol_set() -> None:
    with pytest.raises(ValueError, match="did you mean 'default'"):
        Style("defualt")
    with pytest.raises(ValueError, match="separator"):
        Style(separator=None)  # type: ignore[arg-type]


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
