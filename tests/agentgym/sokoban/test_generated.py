"""Generated levels: solvable with the promised length, same everywhere, splits apart."""

from collections import Counter
from pathlib import Path

import pytest

from agentgym.sokoban.generated import LevelSpec, generate, generate_level
from agentgym.sokoban.text import board_text, canonical_form, parse_level, split_of
from tests.agentgym.sokoban import naive
from tests.processes import printed
from tests.refusals import refuses

ROOT = Path(__file__).resolve().parents[3]
SPLITS = ("train", "validation", "test")


@pytest.mark.parametrize(
    "spec",
    [
        LevelSpec(), LevelSpec(boxes=(1,), min_length=1, max_length=2), LevelSpec(4, 6, (1,), 2, 8),
        LevelSpec(7, 5, (2, 3), 6, 20), LevelSpec(8, 8, (2,), 12, 25),
    ],
)  # fmt: skip
def test_optimal_length_is_in_range_by_naive_search(spec: LevelSpec) -> None:
    counts = Counter()
    for level in generate(30, spec, "test"):
        assert (level.height, level.width) == (spec.height, spec.width)
        assert spec.min_length <= naive.forward_distance(board_text(level)) <= spec.max_length
        assert parse_level(board_text(level)) == level  # passes every check of level files
        counts[level.targets.bit_count()] += 1
    assert set(counts) == set(spec.boxes)


def test_levels_of_all_lengths_are_in_their_split() -> None:
    spec = LevelSpec(10, 10, (4,), 10, 16)
    for level in generate(3, spec, "train"):
        assert 10 <= naive.forward_distance(board_text(level)) <= 16
    # with a single wanted length every level has it
    assert {naive.forward_distance(board_text(level)) for level in generate(40, LevelSpec(max_length=3))} == {3.0}
    spec = LevelSpec(boxes=(1,), max_length=4)  # easy one-box levels: where generators repeat themselves most
    forms = {split: {canonical_form(level) for level in generate(400, spec, split)} for split in SPLITS}
    assert all(len(found) > 50 for found in forms.values())
    assert not forms["train"] & forms["validation"]
    assert not forms["train"] & forms["test"]
    assert not forms["validation"] & forms["test"]
    for split in SPLITS:
        assert {split_of(level) for level in generate(50, LevelSpec(), split)} == {split}
    base = generate(20)
    assert base == generate(20)
    assert base[7:9] == generate(2, first=7)
    for other in (
        generate(20, LevelSpec(level_seed=1)),
        generate(20, split="test"),
        generate(20, LevelSpec(max_length=11)),
        generate(20, first=20),
    ):
        assert not set(base) & set(other)


def test_same_levels_in_another_process_whatever_the_hash_seed() -> None:
    code = (
        "from agentgym.sokoban.generated import *; from agentgym.sokoban.text import board_text; import hashlib;"
        "levels = [l for s in ('train', 'validation', 'test') for l in generate(20, LevelSpec(), s)]"
        " + generate(3, LevelSpec(8, 8, (3,), 10, 20));"
        "print(hashlib.sha256(''.join(map(board_text, levels)).encode()).hexdigest())"
    )
    digests = {printed(code, seed) for seed in ("0", "1")}
    assert len(digests) == 1


def test_levels_never_change_and_unknown_ones_are_named() -> None:
    # results published with this generator depend on these very boards
    assert board_text(generate_level(LevelSpec(), "train", 0)) == "######\n#____#\n#S_X_#\n####_#\n###__#\n######"
    assert board_text(generate_level(LevelSpec(), "test", 7)) == "######\n#__O_#\n#__P_#\n#__X_#\n#_XO_#\n######"
    refuses(ValueError, "lower min_length", generate_level, LevelSpec(4, 4, (1,), 30, 40), "train", 0)
    refuses(ValueError, "did you mean 'train'", generate_level, LevelSpec(), "trian", 0)
    refuses(ValueError, "negative", generate_level, LevelSpec(), "train", -1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"height": 3}, "at least 4x4"),
        ({"boxes": (0,)}, "between 1 and 7 on a 6x6"),
        ({"boxes": (1, 8)}, "fewer boxes or a larger size"),
        ({"boxes": ()}, "boxes must be"),
        ({"min_length": 5, "max_length": 4}, "min_length=5 and max_length=4"),
        ({"min_length": 0}, "1 <= min_length"),
        ({"level_seed": -1}, "level_seed"),
    ],
)
def test_impossible_specs(arguments: dict[str, object], message: str) -> None:
    refuses(ValueError, message, LevelSpec, **arguments)
