"""Endings that a table cannot tell apart: no state is refused, one state for won and lost episodes warns."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agentgym.adapter import adapt
from agentgym.rollout import collect
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import Reply, StepTable
from wrappers.credit import graphgpo, rewardflow

SHARED = r"won and lost episodes of one group end in the same state 'Game over\.': .* such as 'success' and 'failure'"


def columns(*ends: Any, won: tuple[int, ...] = (1, 0, 0), **others: Any) -> dict[str, Any]:
    """Three episodes of one step each out of one state."""
    return {
        "group": ["g"] * 3, "trajectory": ["a", "b", "c"], "t": [0] * 3, "state": ["door"] * 3,
        "action": ["open", "kick", "leave"], "next_state": list(ends), "reward": list(won), "won": list(won), **others,
    }  # fmt: skip


def quiet(given: dict[str, Any]) -> StepTable:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return StepTable.from_arrays(**given)


def test_why_endings_of_one_key_are_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match=SHARED) as found:
        shared = StepTable.from_arrays(**columns("Game over.", "Game over.", "street"))
    assert len(found) == 1
    assert found[0].filename == __file__
    # Out of the door "kick" leads to a success, it seems: worth as much as "open", "leave" less. Values 1, 1 and 0
    # less their mean 2/3 over their deviation sqrt(1/3) are .58 .58 -1.15, beside 1.15 -.58 -.58 for the outcomes.
    steps = {"alpha_trajectory": 0.0, "eps": 0.0}
    np.testing.assert_allclose(rewardflow(shared, **steps), np.array([1, 1, -2]) / np.sqrt(3), atol=1e-9)
    apart = quiet(columns("success", "failure", "street"))
    np.testing.assert_allclose(rewardflow(apart, **steps), np.array([2, -1, -1]) / np.sqrt(3), atol=1e-9)
    assert graphgpo(shared, beta_episode=0.0)[1] > 0 > graphgpo(apart, beta_episode=0.0)[1]


@pytest.mark.parametrize(
    "given",
    [
        columns("success", "failure", "failure"),
        columns("over", "over", "over", won=(1, 1, 1)),
        columns("over", "over", "over", won=(0, 0, 0)),
        # A limit cut two episodes off, in an ordinary state in which another one was won.
        columns("door", "door", "door", truncated=[0, 1, 1]),
        # A recording that stopped; and episodes that are not compared.
        columns("over", "over", "pit", terminated=[1, 0, 1]),
        columns("over", "over", "over", group=["g", "h", "h"]),
    ],
)
def test_endings_that_say_enough_are_taken_without_a_word(given: dict[str, Any]) -> None:
    assert len(quiet(given)) == 3


def test_a_success_at_a_limit_shares_its_key_with_a_failure() -> None:
    with pytest.warns(RuntimeWarning, match=SHARED):
        StepTable.from_arrays(**columns("Game over.", "Game over.", "pit", truncated=[1, 0, 0]))


def test_many_shared_endings_are_one_warning_of_the_first_state() -> None:
    n = 300
    with pytest.warns(RuntimeWarning, match="the same state 7:") as found:
        StepTable.from_arrays(
            group=np.arange(n) // 2, trajectory=range(n), t=[0] * n, state=[0] * n, action=[0] * n,
            next_state=7 + np.arange(n) // 2, reward=[0] * n, won=np.arange(n) % 2 == 0,
        )  # fmt: skip
    assert len(found) == 1


def test_python_shows_the_warning_once_for_a_state_and_a_place() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for number in range(3):  # as iterations of training do, each with tasks of its own
            for end in ("Game over.", "over"):
                StepTable.from_arrays(**columns(end, end, "street", group=[f"task {number}"] * 3))
    assert [str(each.message).partition(": ")[0][-12:] for each in found] == ["'Game over.'", "state 'over'"]


@pytest.mark.parametrize("name", ["state", "next_state"])
def test_a_missing_state_is_refused_with_its_row(name: str) -> None:
    given = columns("success", "failure", "failure")
    given[name] = [given[name][0], None, given[name][2]]
    expected = (
        rf"row 1 \(trajectory 'b', t=0\): {name} must be the key of a state, got None; .* 'success' and 'failure'"
    )
    with pytest.raises(ValueError, match=expected):
        StepTable.from_arrays(**given)
    with pytest.raises(ValueError, match=expected):
        StepTable.from_arrays(**{**given, name: np.array(given[name], object)})
    pandas = pytest.importorskip("pandas")
    for missing in (pandas.NA, pandas.NaT):
        with pytest.raises(ValueError, match=f"row 1 .*{name} must be the key of a state, got <?Na?T?A?>?"):
            StepTable.from_arrays(**{**given, name: [given[name][0], missing, given[name][2]]})
    with pytest.raises(ValueError, match="equal themselves, got nan"):
        StepTable.from_arrays(**{**given, name: pandas.Series(given[name], dtype="str").astype(object)})


def test_other_ways_into_a_table_ask_the_same(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=SHARED):
        table = StepTable.from_arrays(**columns("Game over.", "Game over.", "street"))
    path = tmp_path / "x.jsonl"
    table.to_jsonl(path)
    for way in (
        lambda: StepTable.from_jsonl(path),
        lambda: StepTable.from_trajectories(table.to_trajectories()),
        lambda: StepTable.concatenate([table]),
    ):
        with pytest.warns(RuntimeWarning, match=SHARED):
            way()
    path.write_text(path.read_text().replace('"next_state": "street"', '"next_state": null'))
    with pytest.raises(ValueError, match=r"x\.jsonl: row 2 .*next_state must be the key of a state, got None"):
        StepTable.from_jsonl(path)


class LeftThenRight:
    """Guesses one, then the other."""

    guesses = 0

    def act(self, observations: Any, infos: Any, rng: Any) -> list[Reply]:
        self.guesses += 1
        return [Reply(("left", "right")[self.guesses % 2]) for _ in observations]


class Doors(gym.Env):
    """One guess, after which every episode shows the same words."""

    observation_space = action_space = gym.spaces.Text(20)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "left or right?", {"admissible_actions": ("left", "right")}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        won = action == "left"
        return "Game over.", float(won), True, False, {"admissible_actions": (), "success": won}


def test_collected_episodes_are_told_apart_whatever_they_show_last() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        table = collect(adapt(Doors()), LeftThenRight(), tasks=[{}], group_size=2, seed=0)
    assert {*table.states} == {"left or right?", "Game over. [success]", "Game over. [failure]"}


def test_collect_refuses_states_without_a_key() -> None:
    envs = adapt(Doors(), key=lambda observation, info: None)
    with pytest.raises(ValueError, match="the key of a state is None: give each state a name"):
        collect(envs, LeftThenRight(), tasks=[{}], group_size=2, seed=0)
    builder = TableBuilder(1, AutoresetMode.DISABLED)
    infos = {"state_key": np.array([None]), "task_id": np.array(["t"])}
    with pytest.raises(ValueError, match="info 'state_key' of sub-environment 0 must be the key of a state, got None"):
        builder.reset(infos)
