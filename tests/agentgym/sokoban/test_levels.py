"""Level files: formats, errors, splits, the Boxoban samples."""

import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from agentgym.sokoban.draw import Painter
from agentgym.sokoban.levels import LevelFiles, open_levels
from agentgym.sokoban.rules import DIRECTIONS, MOVES_OF_MASK, Board, LevelError
from agentgym.sokoban.splits import split_of
from agentgym.sokoban.text import board_text
from tests.agentgym.sokoban.boxoban import FILES, boxoban

TWO = "; 0\n#####\n#@$.#\n#####\n\n; 1\n######\n#@ $.#\n######\n"
TITLED = "A collection\n\nLevel 1\n  ####\n###. #\n#@$  #\n######\nAuthor: nobody\n\nLevel 2\n#####\n#@$.#\n#####"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_text(TWO)
    (tmp_path / "a.xsb").write_text(TITLED)
    (tmp_path / "z.txt.xz").write_bytes(lzma.compress(TWO.replace("\n", "\r\n").encode()))
    (tmp_path / "notes.md").write_text("# not a level")
    return tmp_path


def test_a_folder_in_sorted_order(folder: Path) -> None:
    files = LevelFiles(folder)
    names = ["a.xsb#0", "a.xsb#1", "b/two.txt#0", "b/two.txt#1", "z.txt.xz#0", "z.txt.xz#1"]
    assert [files.task_id(i) for i in range(len(files))] == names
    assert [files.find(name) for name in names] == list(range(6))
    assert files.size == (4, 6)
    assert files[2] == files[4] == files[1]
    assert board_text(files[0]) == "######\n###O_#\n#PX__#\n######"
    assert files.split("all") == range(6)


def test_a_single_file_is_named_after_itself(folder: Path) -> None:
    assert LevelFiles(folder / "b" / "two.txt").task_id(1) == "two.txt#1"


def test_splits_by_hash(folder: Path) -> None:
    files = LevelFiles(folder)
    parts = {name: files.split(name) for name in ("train", "validation", "test")}
    assert sorted(number for numbers in parts.values() for number in numbers) == list(files.split("all"))
    for name, numbers in parts.items():
        assert all(split_of(files[i]) == name for i in numbers)
    with pytest.raises(ValueError, match="did you mean 'validation'"):
        files.split("valid")


def test_levels_are_shared_until_a_file_changes(folder: Path) -> None:
    path = folder / "b" / "two.txt"
    first = open_levels(path)
    assert open_levels(path) is first
    path.write_text(TWO + TWO)
    os.utime(path, ns=(1, 1))
    assert len(open_levels(path)) == 4


def test_malformed_level_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(TWO + "; 2\n#####\n#@@$.#\n#####\n")
    files = LevelFiles(path)  # the good levels are usable
    assert files[0].width == 5
    with pytest.raises(LevelError, match=r"bad\.txt, level starting at line 11: .*one player .* got 2"):
        files[2]
    with pytest.raises(LevelError, match="line 11"):
        files.split("train")


def test_wrong_paths(tmp_path: Path) -> None:
    with pytest.raises(LevelError, match=r"no such file or folder; .*boxoban-levels"):
        LevelFiles(tmp_path / "none.txt")
    with pytest.raises(LevelError, match=r"no file ending in \.txt"):
        LevelFiles(tmp_path)
    (tmp_path / "x.zip").write_bytes(b"")
    with pytest.raises(LevelError, match="unknown kind of file"):
        LevelFiles(tmp_path / "x.zip")
    (tmp_path / "empty.txt").write_text("no level here")
    with pytest.raises(LevelError, match="found no Sokoban level"):
        LevelFiles(tmp_path / "empty.txt")
    (tmp_path / "broken.txt.xz").write_bytes(b"not xz")
    with pytest.raises(LevelError, match="cannot be read"):
        LevelFiles(tmp_path / "broken.txt.xz")


@pytest.mark.parametrize("name", FILES)
def test_a_thousand_boxoban_levels_load_play_and_render(name: str) -> None:
    files = LevelFiles(boxoban(name))
    assert len(files) == 1000
    assert files.size == (10, 10)
    assert sum(len(files.split(split)) for split in ("train", "validation", "test")) == 1000
    text = lzma.decompress(boxoban(name).read_bytes()).decode()
    lines = [line for line in text.splitlines() if line.startswith("#")]
    rng = np.random.default_rng(0)
    paint = Painter(4)
    to_xsb = str.maketrans("_OX√PS", " .$*@+")
    pushes = 0
    for number in range(1000):
        level = files[number]
        assert board_text(level).translate(to_xsb).split("\n") == lines[10 * number : 10 * number + 10]
        board = Board(level)
        for _ in range(20):
            moves = MOVES_OF_MASK[board.open_moves()]
            if moves:
                assert board.move(DIRECTIONS.index(moves[int(rng.integers(len(moves)))]))
                pushes += board.pushed_to >= 0
        assert board.boxes.bit_count() == 4
        assert not board.boxes & level.walls
        assert paint(board_text(level, board.player, board.boxes)).shape == (40, 40, 3)
    assert pushes > 500
