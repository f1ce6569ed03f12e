"""TextVectorEnv on the corridor, by hand; equality with single environments is in test_contract.py for every id."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

from tests.cases import cases
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import of
from tests.refusals import refuses


def test_autoreset_modes_by_hand() -> None:
    envs = CorridorVectorEnv(2, max_episode_steps=2)
    envs.reset(seed=0, options=[{"index": 3}, {"index": 2}])
    observations, rewards, terminated, truncated, infos = envs.step(["right", "left"])
    assert (terminated.tolist(), rewards.tolist(), observations[1]) == ([True, False], [1.0, 0.0], "cell 1")
    assert observations[0] in ("cell 1", "cell 2", "cell 3")
    assert (infos["final_obs"].tolist(), infos["_final_info"].tolist()) == (["cell 4", None], [True, False])
    assert (infos["final_info"]["won"].tolist(), infos["won"].tolist()) == ([True, False], [False, False])
    # Sub-environment 1 reaches the limit of two steps in cell 2.
    *_, terminated, truncated, infos = envs.step(["jump", "right"])
    assert (terminated.tolist(), truncated.tolist()) == ([False, False], [False, True])
    assert infos["final_info"]["state_key"][1] == "2"
    envs = CorridorVectorEnv(1, autoreset_mode="NextStep")
    envs.reset(seed=0, options={"index": 3})
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


def test_columns_that_were_given_out_stay_as_they_were() -> None:
    envs: Any = gym.make_vec("AgentRL/Corridor-v0", num_envs=2, max_episode_steps=9)
    infos, shown = envs.reset(seed=0)[1], list[tuple[Any, str]]()
    for _ in range(40):
        shown += [(column, repr(column)) for column in infos.values()]
        infos = envs.step([actions[-1] for actions in infos["admissible_actions"]])[-1]
    assert all(repr(column) == words for column, words in shown)


def test_a_subclass_that_changes_one_of_three_is_stepped_by_all_three() -> None:
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
        envs = of(kind, 1)
        envs.reset(options={"index": 1})
        assert envs.step(["right"])[0] == (text,)


def test_a_subclass_that_describes_more_often_has_no_settled_columns() -> None:
    class Settled(CorridorEnv):
        SETTLED = ("score",)

    class Dense(Settled):
        def describe(self, valid: bool) -> dict[str, Any]:
            return {**super().describe(valid), "score": 0.25 if self.observe() == "cell 2" else 0.0}

    envs = of(Dense, 1)
    envs.reset(options={"index": 1})
    assert envs.step(["right"])[-1]["score"].tolist() == [0.25]


def test_stock_wrappers_and_numbers_of_numpy() -> None:
    envs = DictInfoToList(RecordEpisodeStatistics(CorridorVectorEnv(2)))
    envs.reset(seed=0, options={"index": 2})
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

    envs = Listening(3, autoreset_mode="Disabled")
    envs.reset(options=[{"index": 3}, {"index": 2}, {"index": 2}])
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
        ({"num_envs": 0}, "num_envs must be"),
        ({"num_envs": 1.0}, "num_envs must be"),
        ({"max_episode_steps": 0}, "max_episode_steps must be"),
        ({"autoreset_mode": "Sometimes"}, "unknown autoreset_mode 'Sometimes'"),
    ):
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
    envs = CorridorVectorEnv(2)
    envs.reset(options={"index": 2})
    refuses(TypeError, "actions must be a list, a tuple or an array", envs.step, batch)
    for name in ("seed", "per_env"):
        if batch is None or (name == "seed" and batch == 3):
            continue
        given = {"seed": batch} if name == "seed" else {"options": {"per_env": batch}}
        refuses(TypeError, f"{name} must be a list, a tuple or an array", envs.reset, **given)
    assert envs.step(["left", "left"])[0] == ("cell 1", "cell 1")
