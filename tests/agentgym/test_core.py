"""TextSpace, TextEnv and TextVectorEnv on a corridor; names and numbers, splits of data, generators."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

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
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import begun, of
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


def test_an_episode_of_the_corridor_its_branches_and_one_that_the_environment_cuts() -> None:
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

    class WaryCorridorEnv(CorridorEnv):
        def is_cut(self) -> bool:
            return self.cell == 1

    env = begun(WaryCorridorEnv(), options={"index": 3})
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
    names = ("learning_rate", "groups", "group_size", "clip_low", "clip_high", "resample_rounds", "kl")
    for given, meant in (
        ("learning_rat", "learning_rate"), ("lr", "learning_rate"), ("Groups", "groups"), ("clip", "clip_low"),
        ("resample", "resample_rounds"), ("", None), (3, None), ("kl", "kl"),
    ):  # fmt: skip
        assert nearest(given, names) == meant  # by spelling, initials or word

    class Base:
        def __init__(self, *, size: int = 3, colour: str = "") -> None: ...

    class Middle(Base):
        pass

    class Last(Middle):
        def __init__(self, *, shown: bool = False, **kwargs: object) -> None: ...

    assert (keywords_of(Last), keywords_of(Middle)) == (["shown", "size", "colour"], ["size", "colour"])


def check(env: Any, split: str) -> None:
    """The default split is the expected one, and can be played; every split has as many indices as tasks."""
    assert env.split == split
    env.reset(seed=0)
    for each in env.tasks.splits:
        if env.num_tasks(each):
            check_indices(env, each)
        else:
            assert f"split {each!r} of" in refusal(env, {"split": each, "index": 0})


def test_a_level_of_ones_own_the_split_that_was_downloaded_and_that_of_questions_are_played(tmp_path: Path) -> None:
    for made, expected in (("train", "train"), ("test", "all")):
        (level,) = generate(1, LevelSpec(boxes=(1,)), made)
        (tmp_path / f"{made}.txt").write_text(board_text(level))
        check(SokobanEnv(levels=tmp_path / f"{made}.txt"), expected)
    for there in ("valid_seen", "valid_unseen"):
        for trial in ("trial_T1", "trial_T2"):
            folder = tmp_path / there / "json_2.1.1" / there
            write_trial(folder, f"pick_and_place_simple-Mug-None-Drawer-1/{trial}")
        env = ALFWorldEnv(data=tmp_path / there, cache=False)
        check(env, there)
        assert env.num_tasks(there) == 2
    assert "known: 'valid_unseen'; use 'valid_unseen'" in refusal(env, {"split": "test"})
    for split in ("test", "part 7", "dev"):
        asked = [Question(str(i), "Who?", ("Ada",), "nq", split) for i in range(3)]
        env = SearchQAEnv(questions=asked, retriever=Titles(PASSAGES))
        check(env, split)
    assert "known: 'dev'; use 'dev'" in refusal(env, {"split": "test"})


@pytest.mark.parametrize("numbers", [1, 2, 3, 4, 5, 9])
def test_a_generator_is_the_one_of_numpy_and_choices_take_one_number_each(numbers: int) -> None:
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

    draws, drawn = Draws.seeded(*seed), np.random.default_rng(seed).random(200).tolist()
    assert [draws.below(1000) for _ in range(200)] == [int(number * 1000) for number in drawn]


def test_autoreset_modes_by_hand_and_columns_that_were_given_out_stay_as_they_were() -> None:
    envs = begun(CorridorVectorEnv(2, max_episode_steps=2), seed=0, options=[{"index": 3}, {"index": 2}])
    observations, rewards, terminated, truncated, infos = envs.step(["right", "left"])
    assert (terminated.tolist(), rewards.tolist(), observations[1]) == ([True, False], [1.0, 0.0], "cell 1")
    assert observations[0] in ("cell 1", "cell 2", "cell 3")
    assert (infos["final_obs"].tolist(), infos["_final_info"].tolist()) == (["cell 4", None], [True, False])
    assert (infos["final_info"]["won"].tolist(), infos["won"].tolist()) == ([True, False], [False, False])
    # Sub-environment 1 reaches the limit of two steps in cell 2.
    *_, terminated, truncated, infos = envs.step(["jump", "right"])
    assert (terminated.tolist(), truncated.tolist()) == ([False, False], [False, True])
    assert infos["final_info"]["state_key"][1] == "2"
    envs = begun(CorridorVectorEnv(1, autoreset_mode="NextStep"), seed=0, options={"index": 3})
    assert envs.step(["right"])[2][0]
    observations, rewards, terminated, truncated, infos = envs.step(["left"])
    assert observations[0] == f"cell {infos['task_id'][0][-1]}"
    assert (rewards[0], terminated[0], truncated[0], infos["is_action_valid"][0]) == (0.0, False, False, True)
    envs = CorridorVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0, options=[{"index": 1}, {"index": 2}])
    envs.step(["left", "right"])
    observations, rewards, terminated, _, infos = envs.step(["right", "left"])
    assert observations == ("cell 0", "cell 2")
    assert (rewards.tolist(), terminated.tolist()) == ([0.0, 0.0], [True, False])
    assert infos["state_key"].tolist() == ["0", "2"]
    observations, _ = envs.reset(options={"reset_mask": np.array([True, False]), "per_env": [{"index": 3}, None]})
    assert observations == ("cell 3", "cell 2")
    assert envs.step(["right", "right"])[2].tolist() == [True, False]
    envs: Any = gym.make_vec("AgentRL/Corridor-v0", num_envs=2, max_episode_steps=9)
    infos, shown = envs.reset(seed=0)[1], list[tuple[Any, str]]()
    for _ in range(40):
        shown += [(column, repr(column)) for column in infos.values()]
        infos = envs.step([actions[-1] for actions in infos["admissible_actions"]])[-1]
    assert all(repr(column) == words for column, words in shown)


def test_a_subclass_that_changes_one_of_three_or_describes_more_often_is_stepped_so() -> None:
    class Own(CorridorEnv):
        def advance(self, command: str, info: dict[str, Any]) -> tuple[str, float, bool, dict[str, Any]]:
            return "as the parent shows it", *super().advance(command, info)[1:]

    class Louder(Own):
        def observe(self) -> str:
            return super().observe().upper()

    class SameAsOwn(Own):
        def begin(self, options: dict[str, Any]) -> None:
            super().begin({"index": 1})

    class Loud:
        def observe(self) -> str:
            return "as the mixin shows it"

    class Mixed(Loud, Own):
        pass

    kinds = {Own: "as the parent shows it", Louder: "CELL 2", SameAsOwn: "as the parent shows it"}
    for kind, text in (*kinds.items(), (Mixed, "as the mixin shows it")):
        envs = begun(of(kind, 1), options={"index": 1})
        assert envs.step(["right"])[0] == (text,)

    class Settled(CorridorEnv):
        SETTLED = ("score",)

    class Dense(Settled):
        def describe(self, valid: bool) -> dict[str, Any]:
            return {**super().describe(valid), "score": 0.25 if self.observe() == "cell 2" else 0.0}

    envs = begun(of(Dense, 1), options={"index": 1})
    assert envs.step(["right"])[-1]["score"].tolist() == [0.25]


def test_stock_wrappers_and_numbers_of_numpy() -> None:
    envs = begun(DictInfoToList(RecordEpisodeStatistics(CorridorVectorEnv(2))), seed=0, options={"index": 2})
    envs.step(["right", "left"])
    *_, infos = envs.step(["right", "right"])
    assert (infos[0]["episode"]["r"], infos[0]["episode"]["l"]) == (1.0, 2)
    assert infos[0]["final_info"]["won"] is np.True_
    assert infos[0]["final_info"]["state_key"] == "4"
    assert "episode" not in infos[1]
    assert infos[1]["state_key"] == "2"
    envs = CorridorVectorEnv(np.int64(2), max_episode_steps=np.int64(3))
    expected = envs.reset(seed=[4, 5])[0]
    for seed in (np.int64(4), np.array([4, 5]), [np.int64(4), 5]):
        assert envs.reset(seed=seed)[0] == expected
    assert envs.envs[0].reset(seed=np.uint32(4))[0] == expected[0]


@pytest.mark.parametrize("form", [np.array, lambda actions: [np.str_(action) for action in actions], tuple])
def test_actions_reach_the_environments_as_plain_clean_strings(form: Callable[[list[str]], Sequence[str]]) -> None:
    prepared: list[list[str]] = []

    class Listening(CorridorVectorEnv):
        def prepare(self, running: Sequence[int], commands: Sequence[str]) -> None:
            prepared.append([*commands])

    envs = begun(Listening(3, autoreset_mode="Disabled"), options=[{"index": 3}, {"index": 2}, {"index": 2}])
    played = []
    for env in envs.envs:
        env.act = lambda command, act=env.act: played.append(command) or act(command)
    # The first sub-environment is over after one step: what stands in its place is not played.
    for actions in (["right", "left", "ju\x1bmp"], ["right", "right", "x" * 200_000]):
        envs.step(form(actions))
    assert prepared == [["right", "left", "ju\ufffdmp"], ["", "right", "x" * 100_000]]
    assert played == [*prepared[0], *prepared[1][1:]]
    assert {type(command) for command in played} == {str}


def test_wrong_use_is_explained_and_moves_nothing() -> None:
    for arguments, message in (
        ({"num_envs": 0}, "num_envs must be"), ({"num_envs": 1.0}, "num_envs must be"),
        ({"max_episode_steps": 0}, "max_episode_steps must be"),
        ({"autoreset_mode": "Sometimes"}, "unknown autoreset_mode 'Sometimes'"),
    ):  # fmt: skip
        refuses(ValueError, message, CorridorVectorEnv, **arguments)
    envs = CorridorVectorEnv(2)
    with pytest.raises(ResetNeeded):
        envs.step(["left", "left"])
    refuses(ValueError, "never reset", envs.reset, options={"reset_mask": np.array([True, False])})
    envs.reset(seed=0)
    refuses(ValueError, r"one entry per sub-environment \(2\), got 1 entries", envs.step, ["left"])
    for mask in ([True, False], np.array([1, 0]), np.array([True])):
        refuses(ValueError, "bool array of shape", envs.reset, options={"reset_mask": mask})
    refuses(ValueError, "at least one True", envs.reset, options={"reset_mask": np.array([False, False])})
    refuses(ValueError, "one entry per sub-environment", envs.reset, seed=[1, 2, 3])
    envs.reset(options={"index": 2})
    refuses(TypeError, "sub-environment 1: expected a str command, got int", envs.step, ["right", 3])
    assert envs.step(["left", "left"])[0] == ("cell 1", "cell 1")
    refuses(TypeError, r"options must be a list, a tuple or an array .*, got set", envs.reset, options={1, 2})
    refuses(TypeError, "options of sub-environment 1 must be a mapping or None, got int", envs.reset, options=[None, 3])
    refuses(TypeError, "seed of sub-environment 0 must be an integer or None, got float", envs.reset, seed=[1.5, 2])
    refuses(ValueError, r"got an array of shape \(2, 1\)", envs.reset, seed=np.zeros((2, 1), int))
    refuses(ValueError, r"got an array of shape \(\)", envs.reset, seed=np.array(3.5))
    envs.reset(options=np.array([{"index": 2}, None]))


@cases(
    "batch",
    "left", {"left", "right"}, {"left": 0, "right": 1}, {"left": 0, "right": 1}.keys(), b"ab", 3, None,
    iter(["left", "left"]),
    ids=lambda batch: type(batch).__name__,
)  # fmt: skip
def test_a_batch_without_an_order_of_its_own_is_refused(batch: object) -> None:
    envs = begun(CorridorVectorEnv(2), options={"index": 2})
    refuses(TypeError, "actions must be a list, a tuple or an array", envs.step, batch)
    for name in ("seed", "per_env"):
        if batch is None or (name == "seed" and batch == 3):
            continue
        given = {"seed": batch} if name == "seed" else {"options": {"per_env": batch}}
        refuses(TypeError, f"{name} must be a list, a tuple or an array", envs.reset, **given)
    assert envs.step(["left", "left"])[0] == ("cell 1", "cell 1")
