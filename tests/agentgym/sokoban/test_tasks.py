"""Levels: the split of each, files, formats, errors, the Boxoban samples."""

import lzma
import os
from pathlib import Path

import pytest

from agentgym.outside.text import DataError
from agentgym.sokoban.tasks import LevelFiles, open_levels
from agentgym.sokoban.text import MOST_SIDE, Style, board_text, split_of
from agentgym.tasks import check_split
from tests.agentgym.sokoban.naive import BOXOBAN
from tests.cases import cases
from tests.oracles import oracle
from tests.refusals import refuses

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


def test_a_folder_is_read_in_sorted_order_and_a_file_named_after_itself(folder: Path) -> None:
    files = LevelFiles(folder)
    names = ["a.xsb#0", "a.xsb#1", "b/two.txt#0", "b/two.txt#1", "z.txt.xz#0", "z.txt.xz#1"]
    assert list(files.ids("all")) == names
    assert [files.by_id(name, None) for name in names] == [files.by_index("all", i) for i in range(6)]
    assert files.size == (4, 6)
    assert files[2] == files[4] == files[1]
    assert board_text(files[0]) == "######\n###O_#\n#PX__#\n######"
    assert files.numbers("all") == range(6)
    assert LevelFiles(folder / "b" / "two.txt").by_index("all", 1)[0] == "two.txt#1"


def test_splits_by_hash(folder: Path) -> None:
    files = LevelFiles(folder)
    parts = {name: files.numbers(name) for name in ("train", "validation", "test")}
    assert sorted(number for numbers in parts.values() for number in numbers) == list(files.numbers("all"))
    for name, numbers in parts.items():
        assert all(split_of(files[i]) == name for i in numbers)
        assert [files.by_id(task_id, name) for task_id in files.ids(name)] == [
            files.by_index(name, i) for i in range(files.count(name))
        ]
    refuses(ValueError, "did you mean 'validation'", check_split, files, "valid")


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
    refuses(DataError, r"bad\.txt, level starting at line 11: .*one player .* got 2", lambda: files[2])
    refuses(DataError, "line 11", files.numbers, "train")


def test_wrong_paths(tmp_path: Path) -> None:
    refuses(DataError, r"no such file or folder; .*boxoban-levels", LevelFiles, tmp_path / "none.txt")
    refuses(DataError, r"no file ending in \.txt", LevelFiles, tmp_path)
    (tmp_path / "x.zip").write_bytes(b"")
    refuses(DataError, "unknown kind of file", LevelFiles, tmp_path / "x.zip")
    (tmp_path / "empty.txt").write_text("no level here")
    refuses(DataError, "found no Sokoban level", LevelFiles, tmp_path / "empty.txt")


@cases(
    "name, content, message",
    ("broken.txt.xz", lzma.compress(TWO.encode())[:-20], r"broken\.txt\.xz: damaged compressed file"),
    ("broken.txt", TWO.encode() + b"; caf\xe9\n", r"broken\.txt, line 10: not UTF-8"),
    ("broken.txt.xz", lzma.compress(b"#####\n\xff"), r"broken\.txt\.xz, line 2: not UTF-8"),
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    refuses(DataError, message, LevelFiles, tmp_path / name)
    refuses(DataError, message, LevelFiles, tmp_path)


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "locked.txt").write_text(TWO)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    refuses(DataError, r"locked\.txt: .*Permission denied", LevelFiles, tmp_path)


def test_boards_beyond_the_limit_are_refused_when_played_and_do_not_count_for_the_size(tmp_path: Path) -> None:
    long = MOST_SIDE + 1
    wide = f"{'#' * long}\n#@$.{' ' * (long - 5)}#\n{'#' * long}\n"
    (tmp_path / "mixed.txt").write_text(f"{TWO}\n{wide}\n{'#' * 3}\n" + "#@#\n" * long)
    files = LevelFiles(tmp_path / "mixed.txt")
    assert (len(files), files.size) == (4, (3, 6))
    for number, line in ((2, 11), (3, 15)):
        with pytest.raises(DataError, match=rf"mixed\.txt, level starting at line {line}: .*at most {MOST_SIDE}"):
            files[number]


def test_lines_are_counted_as_editors_do(tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_bytes("a\u2028b\x0bc\x85\r\n#####\r\n#@@.#\r\n#####\r\n".encode())
    refuses(DataError, r"odd\.txt, level starting at line 2", lambda: LevelFiles(path)[0])


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes")
def test_names_that_are_no_text_are_cleaned_and_stay_different(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path / "a") + b"\xff.txt")).write_text(TWO)
    files = LevelFiles(tmp_path)
    assert files.by_index("all", 0)[0] == "a\ufffd.txt#0"
    Path(os.fsdecode(os.fsencode(tmp_path / "a") + b"\xfe.txt")).write_text(TWO)
    refuses(DataError, r"two files are named .*: rename one", LevelFiles, tmp_path)


@pytest.mark.parametrize("name", BOXOBAN)
def test_a_thousand_boxoban_levels_are_read(name: str) -> None:
    files = LevelFiles(oracle("boxoban", name))
    assert (len(files), files.size) == (1000, (10, 10))
    assert sum(files.count(split) for split in ("train", "validation", "test")) == 1000
    text = lzma.decompress(oracle("boxoban", name).read_bytes()).decode()
    lines = [line for line in text.splitlines() if line.startswith("#")]
    for number in range(1000):
        written = Style("xsb")(board_text(files[number])).split("\n")
        assert written == lines[10 * number : 10 * number + 10]
        assert files[number].boxes.bit_count() == 4
