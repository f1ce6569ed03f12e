"""The canonical form does not see rotations, reflections, or walls around the room."""

from collections import Counter

from agentgym.sokoban.expert.tables import BitTable
from agentgym.sokoban.rules import Level
from agentgym.sokoban.splits import canonical_form, split_of
from agentgym.sokoban.text import parse_level

ROWS = ["#######", "#P__X_#", "##_#__#", "#O____#", "#######"]


def variants() -> list[list[str]]:
    """The eight symmetries of ROWS."""
    found = []
    rows = ROWS
    for _ in range(4):
        rows = ["".join(column) for column in zip(*rows[::-1], strict=True)]  # a quarter turn
        found += [rows, [row[::-1] for row in rows]]
    return found


def test_eight_symmetries_have_one_form() -> None:
    assert len({tuple(rows) for rows in variants()}) == 8
    assert len({canonical_form(parse_level("\n".join(rows))) for rows in variants()}) == 1


def test_walls_around_the_room_do_not_count() -> None:
    padded = ["#" * 11] * 2 + [f"##{row}##" for row in ROWS] + ["#" * 11]
    assert canonical_form(parse_level("\n".join(padded))) == canonical_form(parse_level("\n".join(ROWS)))


def test_form_by_hand() -> None:
    # floor "P", "X", "O" in a row; of PXO and OXP (and both upright) the smallest text wins: "O" sorts before "P",
    # and the line break before both letters, so the upright one
    assert canonical_form(parse_level("#####\n#PXO#\n#####")) == "O\nX\nP"


def test_different_levels_differ() -> None:
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
