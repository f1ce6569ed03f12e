"""TextSpace and TextEnv on a corridor; how names and numbers are checked; splits of data; generators."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from agentgym.alfworld.env import ALFWorldEnv
from agentgym.checks import check_name, check_repairs, keywords_of, nearest, real, whole
from agentgym.core import TextSpace
from agentgym.searchqa.env import SearchQAEnv
from agentgym.searchqa.question import Question
from agentgym.sokoban.env import SokobanEnv
from agentgym.sokoban.generated import LevelSpec, generate
from agentgym.sokoban.text import board_text
from agentgym.tasks import Draws, generator
from tests.agentgym.alfworld.support import write_trial
from tests.agentgym.indices import check_indices, refusal
from tests.agentgym.searchqa.support import PASSAGES, Titles
from tests.cases import cases
from tests.corridor import CorridorEnv
from tests.refusals import refuses


def test_text_space_holds_any_script_and_samples_by_seed() -> None:
    space = TextSpace(max_length=5)
    assert "√ #_P" in space
    assert "sixsix" not in space
    assert b"up" not in space
    assert TextSpace(samples=("a",)) == TextSpace(samples=("a",)) != TextSpace(samples=("b",))
    first, second = TextSpace(seed=3), TextSpace(seed=3)
    drawn = [first.sample() for _ in range(20)]
    assert drawn == [second.sample() for _ in range(20)]
    assert len(set(drawn)) > 10
    assert all(text in first for text in drawn)
    refuses(ValueError, "at least 1", TextSpace, max_length=0)
    refuses(ValueError, "longer than max_length", TextSpace, max_length=2, samples=("right",))


def test_an_episode_of_the_corridor_and_its_branches() -> None:
    env = CorridorEnv()
    refuses(ResetNeeded, "call reset", env.step, "right")
    refuses(ValueError, "did you mean 'index'", env.reset, options={"indx": 3})
    refuses(ValueError, "did you mean 'ansi'", CorridorEnv, render_mode="ansii")
    observation, info = env.reset(options={"index": 3})
    assert (observation, info["task_id"], info["is_action_valid"]) == ("cell 3", "start-3", True)
    refuses(TypeError, "expected a str command, got int", env.step, 1)
    *step, info = env.step("jump")
    assert (step, info["is_action_valid"]) == (["cell 3", -0.5, False, False], False)
    branch = pickle.loads(pickle.dumps(env.snapshot()))
    *step, info = env.step("right")
    assert (step, info["won"]) == (["cell 4", 1.0, True, False], True)
    refuses(ResetNeeded, "call reset", env.step, "right")
    observation, info = env.restore(branch)
    assert (observation, info["won"]) == ("cell 3", False)
    assert env.step("left")[0] == "cell 2"


def test_an_environment_may_cut_its_episode_itself() -> None:
    class WaryCorridorEnv(CorridorEnv):
        def is_cut(self) -> bool:
            return self.cell == 1

    env = WaryCorridorEnv()
    env.reset(options={"index": 3})
    assert env.step("left")[2:4] == (False, False)
    assert env.step("left")[2:4] == (False, True)
    refuses(ResetNeeded, "over", env.step, "left")


def test_names_and_numbers_are_checked() -> None:
    known = {"ghosts": "taken things are gone", "look": "it lists the room"}
    assert check_repairs("all", known) == check_repairs(["all"], known) == check_repairs(("all", "look"), known)
    assert (check_repairs("all", known), check_repairs("look", known)) == ({"ghosts", "look"}, {"look"})
    for wrong in (None, 3, [["look"]], [None]):
        refuses(ValueError, r"unknown repair .*known: 'all', 'ghosts'", check_repairs, wrong, known)
    refuses(ValueError, "did you mean 'ghosts'", check_repairs, ["ghost"], known)
    assert check_name("min", ("min", "mean"), "distance") == "min"
    with pytest.raises(ValueError, match="unknown distance 'mxn'; known: 'min', 'mean'; did you mean"):
        check_name("mxn", ("min", "mean"), "distance")
    assert whole("index", np.int64(3), 0) == 3
    assert real("rate", 1, 0, 1, expected="a share") == 1.0
    for wrong in (True, -1, 1.5, "3", None):
        refuses(ValueError, "index must be an integer of at least 0", whole, "index", wrong, 0)
    for wrong in (True, -0.1, 1.1, float("nan"), "1", None):
        refuses(ValueError, "rate must be a share", real, "rate", wrong, 0, 1, expected="a share")
    assert (keywords_of(Last), keywords_of(Middle)) == (["shown", "size", "colour"], ["size", "colour"])


@cases(
    "given, meant",
    ("learning_rat", "learning_rate"), ("lr", "learning_rate"), ("Groups", "groups"), ("clip", "clip_low"),
    ("resample", "resample_rounds"), ("", None), (3, None), ("kl", "kl"),
)  # fmt: skip
def test_the_nearest_name_is_by_spelling_initials_or_word(given: object, meant: str | None) -> None:
    names = ("learning_rate", "groups", "group_size", "clip_low", "clip_high", "resample_rounds", "kl")
    assert nearest(given, names) == meant


class Base:
    def __init__(self, *, size: int = 3, colour: str = "") -> None: ...


class Middle(Base):
    pass


class Last(Middle):
    def __init__(self, *, shown: bool = False, **kwargs: object) -> None: ...


def check(env: Any, split: str) -> None:
    """The default split is the expected one, and can be played; every split has as many indices as tasks."""
    assert env.split == split
    env.reset(seed=0)
    for each in env.tasks.splits:
        if env.num_tasks(each):
            check_indices(env, each)
        else:
            assert f"split {each!r} of" in refusal(env, {"split": each, "index": 0})


@pytest.mark.parametrize(("made", "expected"), [("train", "train"), ("test", "all")])
def test_a_file_of_one_level_is_played_whatever_its_split(made: str, expected: str, tmp_path: Path) -> None:
    (level,) = generate(1, LevelSpec(boxes=(1,)), made)
    (tmp_path / "mine.txt").write_text(board_text(level))
    check(SokobanEnv(levels=tmp_path / "mine.txt"), expected)


@pytest.mark.parametrize("there", ["valid_seen", "valid_unseen"])
def test_alfworld_plays_the_split_that_was_downloaded(there: str, tmp_path: Path) -> None:
    for trial in ("trial_T1", "trial_T2"):
        write_trial(tmp_path / "json_2.1.1" / there, f"pick_and_place_simple-Mug-None-Drawer-1/{trial}")
    env = ALFWorldEnv(data=tmp_path, cache=False)
    check(env, there)
    assert env.num_tasks(there) == 2
    if there == "valid_unseen":
        assert "known: 'valid_unseen'; use 'valid_unseen'" in refusal(env, {"split": "test"})


@pytest.mark.parametrize("split", ["dev", "test", "part 7"])
def test_questions_are_asked_from_the_split_they_have(split: str) -> None:
    asked = [Question(str(i), "Who?", ("Ada",), "nq", split) for i in range(3)]
    env = SearchQAEnv(questions=asked, retriever=Titles(PASSAGES))
    check(env, split)
    if split == "dev":
        assert "known: 'dev'; use 'dev'" in refusal(env, {"split": "test"})


@pytest.mark.parametrize("numbers", [1, 2, 3, 4, 5, 9])
def test_a_generator_is_the_one_of_numpy(numbers: int) -> None:
    rng = np.random.default_rng(numbers)
    edges = [0, 1, 2**31, 2**32 - 1, 2**32, 2**40 + 3, 2**63, 2**70]
    seeds = [tuple(rng.integers(2**32, size=numbers).tolist()) for _ in range(500)]
    for seed in seeds + [(edge,) * numbers for edge in edges]:
        ours, theirs = generator(*seed), np.random.default_rng(seed)
        assert ours.bit_generator.state == theirs.bit_generator.state
        assert ours.spawn(1)[0].random() == theirs.spawn(1)[0].random()
    assert pickle.loads(pickle.dumps(ours)).random(70).tolist() == theirs.random(70).tolist()
    words, numpys = generator(*seed).bit_generator.seed_seq, np.random.SeedSequence(seed)
    assert words.generate_state(9).tolist() == numpys.generate_state(9).tolist()


def test_choices_of_a_seed_go_on_without_end_and_take_one_number_each() -> None:
    draws, numbers = Draws.seeded(7, 0, 5), np.random.default_rng((7, 0, 5)).random(200).tolist()
    assert [draws.below(1000) for _ in range(200)] == [int(number * 1000) for number in numbers]
