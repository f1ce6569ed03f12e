"""Sokoban: rewards by hand, info, snapshots, wrong use; levels of files and of Boxoban."""

import lzma
import os
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.outside.text import DataError
from agentgym.sokoban.env import SokobanEnv, VisualSokobanEnv
from agentgym.sokoban.picture import Painter
from agentgym.sokoban.tasks import LevelFiles, open_levels
from agentgym.sokoban.text import MOST_SIDE, Style, board_text, parse_level, split_of
from agentgym.tasks import check_split
from tests.agentgym.indices import check_indices
from tests.agentgym.sokoban import naive
from tests.agentgym.sokoban.naive import BOXOBAN
from tests.cases import cases
from tests.oracles import oracle
from tests.playing import begun
from tests.refusals import refuses

# targets at the player's right and at the far right; boxes beside them
LEVEL = "########\n#PXO_XO#\n#______#\n########"


def test_rewards_and_infos_by_hand() -> None:
    env = begun(SokobanEnv(), options={"level": LEVEL})
    assert (env.step("down")[1:3], env.step(" UP\n")[1:3]) == ((-0.1, False), (-0.1, False))
    assert env.step("jump")[:3] == (LEVEL, -0.1, False)
    observation, reward, terminated, _, info = env.step("right")  # onto the target: -0.1 + 1
    assert (reward, terminated, info["score"]) == (0.9, False, 0.5)
    assert observation == "########\n#_P√_XO#\n#______#\n########"
    reward = env.step("right")[1]  # off it again: -0.1 - 1
    assert reward == -1.1
    env.reset(options={"level": LEVEL})
    for move in ("right", "down", "right", "right", "up"):
        env.step(move)
    _, reward, terminated, truncated, info = env.step("right")  # the last box: -0.1 + 1 + 10
    assert (reward, terminated, truncated, info["won"], info["score"]) == (10.9, True, False, True, 1.0)
    env = SokobanEnv()
    env.reset(options={"level": "########\n#P√O_X_#\n#______#\n########"})
    assert env.step("right")[1] == -0.1  # +1 - 1
    _, info = SokobanEnv(symbols="xsb", separator=" ").reset(options={"level": LEVEL})
    assert info == {
        "admissible_actions": ("down", "right"), "is_action_valid": True, "won": False, "score": 0.0,
        "task_id": "level:########/#PXO_XO#/#______#/########",
        "state_key": LEVEL,  # default symbols, whatever the observation looks like
    }  # fmt: skip
    env = SokobanEnv(expert=True)
    env.reset(options={"level": "######\n#_XP_#\n#___O#\n######"})
    assert env.step("left")[4]["expert_action"] == ""
    assert env.distance() == inf
    assert env.optimal_actions() == ()


@pytest.mark.parametrize("env_class", [SokobanEnv, VisualSokobanEnv])
def test_expert_solves_every_level_in_the_optimal_number_of_moves(env_class: Any) -> None:
    env = env_class(expert=True, max_length=20, tile_size=4)
    for index in range(150):
        _, info = env.reset(options={"split": "test", "index": index})
        optimal = naive.forward_distance(info["state_key"])
        assert env.distance() == optimal
        moves, terminated = 0, False
        while not terminated:
            assert info["expert_action"] == env.optimal_actions()[0]
            _, _, terminated, _, info = env.step(info["expert_action"])
            moves += 1
        assert moves == optimal
        assert (info["won"], info["expert_action"], env.distance()) == (True, "", 0)


def test_generated_tasks_and_those_of_a_file(tmp_path: Path) -> None:
    assert SokobanEnv(split="validation").reset(options={"index": 17})[1]["task_id"] == "validation/17"
    small = SokobanEnv(num_levels=3)
    assert {small.reset(seed=s)[1]["task_id"] for s in range(40)} == {"train/0", "train/1", "train/2"}
    (tmp_path / "my.txt").write_text("#####\n#@$.#\n#####\n\n#######\n#@ $. #\n#######\n")
    env = SokobanEnv(levels=tmp_path / "my.txt", split="all")
    board, info = env.reset(options={"index": 1})
    assert info["task_id"] == "my.txt#1"
    assert env.reset(options={"task_id": "my.txt#1"})[0] == board
    check_indices(env, "all")
    refuses(ValueError, r"unknown task_id 'my.txt#2'", env.reset, options={"task_id": "my.txt#2"})
    of = split_of(env.tasks.by_index("all", 1)[1])
    assert env.reset(options={"task_id": "my.txt#1", "split": of})[0] == board
    for other in {"train", "validation", "test"} - {of}:
        with pytest.raises(ValueError, match=f"'my.txt#1' belongs to split '{of}', not to '{other}'"):
            env.reset(options={"task_id": "my.txt#1", "split": other})
    (tmp_path / "one.txt").write_text("#####\n#@$.#\n#####\n")
    mine = split_of(parse_level("#####\n#@$.#\n#####"))
    assert SokobanEnv(levels=tmp_path / "one.txt", split=mine).reset(seed=0)[1]["task_id"] == "one.txt#0"
    empty = SokobanEnv(levels=tmp_path / "one.txt", split="test" if mine == "train" else "train")
    refuses(ValueError, r"split 't\w+' .* holds no task; known splits: .*all", empty.reset, seed=0)
    visual = VisualSokobanEnv(levels=tmp_path / "my.txt", split="all", tile_size=4)
    for index in (0, 1):
        observation, _ = visual.reset(options={"index": index})
        assert visual.observation_space.contains(observation)
        assert observation["image"].shape == (12, 28, 3)


def test_pictures_and_rendering() -> None:
    env = VisualSokobanEnv(tile_size=8, show_board=True, size=(6, 8), render_mode="rgb_array")
    observation, _ = env.reset(options={"level": LEVEL})
    assert observation["text"] == f"Boxes on targets: 0 of 2.\n{LEVEL}"
    assert np.array_equal(observation["image"], Painter(8)(LEVEL, 6, 8))
    assert np.array_equal(env.render(), observation["image"])
    after = env.step("right")[0]
    assert after["text"].startswith("Boxes on targets: 1 of 2.")
    assert not np.array_equal(after["image"], observation["image"])
    text = SokobanEnv(render_mode="ansi", symbols="xsb")
    board, _ = text.reset(seed=0)
    assert text.render() == board
    with pytest.raises(ValueError, match=r"the level has 10x10; make the environment with size=\(10, 10\)"):
        VisualSokobanEnv().reset(options={"level": "\n".join(["#" * 10, "#PXO" + "_" * 5 + "#"] + ["#" * 10] * 8)})


@cases(
    "arguments, message",
    ({"size": "6"}, "size must be an integer or"), ({"max_length": 4.5}, "max_length must be an integer"),
    ({"num_levels": 0}, "num_levels must be an integer of at least 1"), ({"split": "all"}, "unknown split 'all'"),
    ({"symbols": "XSB"}, "unknown symbols"), ({"tile_size": 2}, "tile_size must be an integer of at least 4"),
    ({"levels": "/nowhere/levels.txt"}, "no such file"),
)  # fmt: skip
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    refuses(ValueError, message, SokobanEnv, **arguments)


@cases(
    "options, message",
    ({"task_id": "train"}, "<split>/<index>"), ({"task_id": "train/017"}, "<split>/<index>"),
    ({"task_id": "train/1", "split": "test"}, "'train/1' is one of split 'train', not of 'test'"),
    ({"level": LEVEL, "index": 1}, "more than one way"), ({"level": "#P#"}, "open|no box|one player"),
    ({"task_id": "level:" + LEVEL.replace("\n", "/"), "split": "test"}, "more than one way"),
    ({"level": 3}, "must be a level as text"), ({"level": "#####\n#P\ud800O#\n#####"}, r"unknown symbol '\\ud800'"),
    ({"level": "\n" * 2_000_000}, "at most .* characters are read"),
    ({"task_id": "level:" + "/" * 2_000_000}, "at most .* characters are read"),
)  # fmt: skip
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    refuses(ValueError, message, lambda: SokobanEnv().reset(options=options))


def test_levels_that_were_fulfilled_are_of_the_same_split() -> None:
    env = SokobanEnv()
    env.reset(options={"task_id": "level:########/#P_X__O#/########"})
    seen = [env.fulfilled() for command in ("right", "right", "right", "right") if env.step(command)]
    # not before the first push, and not once the level itself is won
    boards = ["#P_XO__#", "#P_X_O_#"]
    assert seen == [(), *((f"level:########/{board}/########",) for board in boards), ()]
    for board in boards:
        env.reset(options={"task_id": f"level:########/{board}/########"})
        assert env.distance() == board.index("O") - 2  # the player begins two cells before the box
    env, rng, splits = SokobanEnv(num_levels=40), np.random.default_rng(0), list[tuple[str, str]]()
    for index in range(40):
        for split in ("train", "validation", "test"):
            _, info = env.reset(options={"split": split, "index": index})
            for _ in range(10):
                *_, over, _, info = env.step(str(rng.choice(info["admissible_actions"])))
                levels = [task_id.removeprefix("level:").replace("/", "\n") for task_id in env.fulfilled()]
                splits += [(split, split_of(parse_level(level))) for level in levels]
                if over:
                    break
    assert set(splits) == {("train", "train"), ("validation", "validation"), ("test", "test")}
    assert len(splits) > 100


TWO = "; 0\n#####\n#@$.#\n#####\n\n; 1\n######\n#@ $.#\n######\n"
TITLED = "A collection\n\nLevel 1\n  ####\n###. #\n#@$  #\n######\nAuthor: nobody\n\nLevel 2\n#####\n#@$.#\n#####"


def test_a_folder_is_read_in_sorted_order_split_by_hash_and_shared_until_a_file_changes(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_text(TWO)
    (tmp_path / "a.xsb").write_text(TITLED)
    (tmp_path / "z.txt.xz").write_bytes(lzma.compress(TWO.replace("\n", "\r\n").encode()))
    (tmp_path / "notes.md").write_text("# not a level")
    files = LevelFiles(tmp_path)
    names = ["a.xsb#0", "a.xsb#1", "b/two.txt#0", "b/two.txt#1", "z.txt.xz#0", "z.txt.xz#1"]
    assert list(files.ids("all")) == names
    assert [files.by_id(name, None) for name in names] == [files.by_index("all", i) for i in range(6)]
    assert files.size == (4, 6)
    assert files[2] == files[4] == files[1]
    assert board_text(files[0]) == "######\n###O_#\n#PX__#\n######"
    assert files.numbers("all") == range(6)
    assert LevelFiles(tmp_path / "b" / "two.txt").by_index("all", 1)[0] == "two.txt#1"
    parts = {name: files.numbers(name) for name in ("train", "validation", "test")}
    assert sorted(number for numbers in parts.values() for number in numbers) == list(files.numbers("all"))
    for name, numbers in parts.items():
        assert all(split_of(files[i]) == name for i in numbers)
        by_index = [files.by_index(name, i) for i in range(files.count(name))]
        assert [files.by_id(task_id, name) for task_id in files.ids(name)] == by_index
    refuses(ValueError, "did you mean 'validation'", check_split, files, "valid")
    path = tmp_path / "b" / "two.txt"
    first = open_levels(path)
    assert open_levels(path) is first
    path.write_text(TWO + TWO)
    os.utime(path, ns=(1, 1))
    assert len(open_levels(path)) == 4


def test_levels_are_named_by_file_and_line_as_editors_count_and_larger_boards_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(TWO + "; 2\n#####\n#@@$.#\n#####\n")
    files = LevelFiles(path)  # the good levels are usable
    assert files[0].width == 5
    refuses(DataError, r"bad\.txt, level starting at line 11: .*one player .* got 2", lambda: files[2])
    refuses(DataError, "line 11", files.numbers, "train")
    long = MOST_SIDE + 1
    wide = f"{'#' * long}\n#@$.{' ' * (long - 5)}#\n{'#' * long}\n"
    (tmp_path / "mixed.txt").write_text(f"{TWO}\n{wide}\n{'#' * 3}\n" + "#@#\n" * long)
    files = LevelFiles(tmp_path / "mixed.txt")
    assert (len(files), files.size) == (4, (3, 6))
    for number, line in ((2, 11), (3, 15)):
        words = rf"mixed\.txt, level starting at line {line}: .*at most {MOST_SIDE}"
        refuses(DataError, words, files.__getitem__, number)
    path = tmp_path / "odd.txt"
    path.write_bytes("a\u2028b\x0bc\x85\r\n#####\r\n#@@.#\r\n#####\r\n".encode())
    refuses(DataError, r"odd\.txt, level starting at line 2", lambda: LevelFiles(path)[0])


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
