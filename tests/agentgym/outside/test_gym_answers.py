"""Foreign environments whose answers mean something else than Python takes them for, and those that never end."""

import os
import string
import sys
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from agentgym.adapter import MOST_STEPS, adapt
from agentgym.outside.gym_answers import flag, number, read_reset, read_step
from agentgym.rollout import collect
from tests.cases import cases
from tests.playing import DISABLED, Scripted, stock
from tests.refusals import refuses


class Says(gym.Env):
    """Gives the answers it was made with; its episodes end with the word "end"."""

    observation_space = gym.spaces.Text(100, charset=string.printable)
    action_space = gym.spaces.Text(100, charset=string.printable)

    def __init__(self, answer: Any = None, reset: Any = ("start", {}), **parts: Any) -> None:
        self.answer, self.begins, self.parts = answer, reset, parts

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.begins

    def step(self, action: str) -> Any:
        if self.answer is not None:
            return self.answer
        parts = {"observation": action, "reward": 1.0, "terminated": action == "end", "truncated": False}
        return (*{**parts, "info": {"success": True}, **self.parts}.values(),)


def play(env: gym.Env[Any, Any]) -> Any:
    envs = SyncVectorEnv([Says, lambda: env], autoreset_mode=DISABLED)
    return collect(envs, Scripted("end"), tasks=[{"start": 1}], group_size=2, seed=0)


@pytest.mark.filterwarnings("ignore:.* acted alike")
@cases(
    "parts, error, words",
    ({"info": {"success": "no"}}, TypeError, r"info\['success'\] of an episode's end must be a .* str \('no'\)"),
    ({"info": {"won": float("nan")}}, ValueError, r"info\['won'\] of .* must be .*, got float \(nan\)"),
    ({"info": {"is_action_valid": "no", "won": True}}, TypeError, r"info\['is_action_valid'\] must be .* got str"),
    ({"info": {"score": "0.5", "won": True}}, TypeError, r"info\['score'\] must be a .* number, got str \('0\.5'\)"),
    ({"info": {"state_key": None, "won": True}}, ValueError, r"the key of a state is None: give each state its"),
    ({"info": None}, TypeError, r"the info that step returns must be a dict, got None; it may be \{\}"),
    ({"terminated": "false"}, TypeError, r"terminated must be a bool \(or 0 or 1\), got str \('false'\)"),
    ({"reward": "0.5"}, TypeError, r"reward must be a finite number, got str \('0\.5'\)"),
    ({"reward": float("inf")}, ValueError, r"reward must be a finite number, got float \(inf\)"),
    ({"reward": np.array([1.0, 2.0])}, TypeError, r"reward must be a finite number, got ndarray"),
    ({"answer": ("on", 0.0, True, {})}, ValueError, r"got 4 values\. step must return .*old gym, in which `done`"),
    ({"reset": "go"}, TypeError, r"reset must return \(observation, info\), got str \('go'\)"),
    ({"reset": ("start", {}, 0)}, ValueError, r"reset must return \(observation, info\), got 3 values"),
    ({"reset": ("start", None)}, TypeError, "the info that reset returns must be a dict, got None"),
)  # fmt: skip
def test_what_means_nothing_is_refused_with_the_number_of_the_sub_environment(
    parts: dict[str, Any], error: type[Exception], words: str
) -> None:
    refuses(error, rf"^sub-environment 1 \(<Says instance>\): {words}", play, Says(**parts))


@pytest.mark.filterwarnings("ignore:.* acted alike")
@pytest.mark.parametrize("yes", [True, np.True_, 1, 1.0, np.float64(1), np.int8(1), np.array(True), np.array([1])])
def test_all_kinds_of_flags_and_numbers_are_read(yes: Any) -> None:
    assert flag(yes, "x", "y") is True
    assert flag(type(yes)(0) if not isinstance(yes, np.ndarray) else yes * 0, "x", "y") is False
    assert number(yes, "x", "y") == 1.0
    table = play(Says(reward=yes, terminated=yes, info={"won": yes, "is_action_valid": yes, "score": yes}))
    assert (table.reward.tolist(), table.won.tolist(), table.valid.tolist()) == ([1, 1], [True, True], [True, True])


def test_answers_are_read_as_they_are_meant_and_what_cannot_be_read_is_explained() -> None:
    assert read_reset(["start", {"a": 1}], "x") == ("start", {"a": 1})
    assert read_step(("on", np.float32(0.5), np.False_, 1, {}), "x") == ("on", 0.5, False, True, {})
    envs = adapt(Says(), success=lambda reward, terminated, info: "yes")  # type: ignore[arg-type,return-value]
    envs.reset()
    refuses(TypeError, r"^sub-environment 0 .*: what success= returns must be a bool .* got str", envs.step, ["end"])
    with pytest.raises(ValueError, match=r"sub-environment 1 \(<TimeLimit<Says instance>>\): not enough .*old gym"):
        play(TimeLimit(Says(answer=("on", 0.0, True, {})), 5))

    class Broken(Says):
        def step(self, action: str) -> Any:
            raise KeyError(action)

    with pytest.raises(KeyError, match="end") as caught:
        play(Broken())
    assert caught.value.__notes__ == ["raised by step of sub-environment 1 (<Broken instance>)"]


class Quits(Says):
    def step(self, action: str) -> Any:
        if action == "exit":
            sys.exit(3)
        if action == "kill":
            os._exit(4)
        return ("on", 0.0, True, {})


@pytest.mark.parametrize(("word", "code"), [("exit", 3), ("kill", 4)])
def test_a_process_that_ends_is_named_with_what_it_was_asked_and_its_exit_code(word: str, code: int) -> None:
    envs = adapt(AsyncVectorEnv([Says, Quits], shared_memory=False, autoreset_mode=DISABLED))
    envs.reset(seed=0)
    words = rf"^sub-environment 1 of .*: its process ended with exit code {code} when it was asked to step.*SyncVector"
    refuses(RuntimeError, words, envs.step, ["on", word])
    refuses(RuntimeError, r"1 of .* has failed before .*: make a new vector environment", envs.step, ["on", "on"])
    envs.close()


class Endless(Says):
    """Never ends, and says how it stands in every info."""

    def __init__(self) -> None:
        super().__init__(terminated=False, info={"success": True})


@pytest.mark.parametrize("kind", ["single", "sync", "async"])
def test_an_environment_that_never_ends_is_truncated_with_one_warning(kind: str) -> None:
    envs: Any = Endless() if kind == "single" else stock(Endless, 2, kind=kind)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = collect(envs, Scripted("end"), tasks=[{}, {}], seed=0)
        collect(envs, Scripted("end"), tasks=[{}], seed=0)
    (warning,) = caught
    assert "did not end an episode within 1,000 steps and has no TimeLimit" in str(warning.message)
    assert (MOST_STEPS, np.bincount(table.trajectory).tolist()) == (1000, [1000, 1000])
    assert (table.truncated[table.last].all(), table.terminated.any()) == (True, False)
    assert table.won.all()  # success is asked for, as at a TimeLimit
    envs.close()


def test_a_limit_can_be_given_taken_away_and_is_left_to_a_time_limit() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given: Any = {"tasks": [{}], "seed": 0}
        assert len(collect(adapt(Endless(), max_episode_steps=3), Scripted("end"), **given)) == 3
        assert len(collect(TimeLimit(Endless(), 1200), Scripted("end"), **given)) == 1200
        assert len(collect(adapt(TimeLimit(Endless(), 5), max_episode_steps=3), Scripted("end"), **given)) == 3
        assert len(collect(adapt(Says(), max_episode_steps=-1), Scripted(*["on"] * 1099, "end"), **given)) == 1100
        at_last = Scripted(*["on"] * (MOST_STEPS - 1), "end")  # it ends by itself in the last one
        assert len(collect(Says(), at_last, **given)) == MOST_STEPS
    for wrong in (0, -2, 2.5):
        with pytest.raises(ValueError, match="max_episode_steps must be an integer of at least 1"):
            adapt(Endless(), max_episode_steps=wrong)  # type: ignore[arg-type]
    refuses(TypeError, "max_episode_steps= is for a single environment", adapt, adapt(Endless()), max_episode_steps=3)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_limit_is_a_time_limit_in_every_mode(kind: str, mode: AutoresetMode) -> None:
    both = adapt(stock(Endless, 2, mode, kind), max_episode_steps=3), adapt(stock(limited, 2, mode, kind))
    for envs in both:
        envs.reset(seed=0)
    for step in range(10):
        found, expected = (envs.step([f"on {step}"] * 2) for envs in both)
        assert list(found[0]) == list(expected[0])
        assert [column.tolist() for column in found[1:4]] == [column.tolist() for column in expected[1:4]]
        if found[3].any() and mode is DISABLED:
            for envs in both:
                envs.reset(options={"reset_mask": found[3]})
    for envs in both:
        envs.close()


def limited() -> gym.Env[Any, Any]:
    return TimeLimit(Endless(), 3)


def test_the_count_of_steps_is_part_of_a_snapshot() -> None:
    envs: Any = adapt(stock(Says, 2), max_episode_steps=3)
    envs.reset(seed=0)
    envs.step(["on", "on"])
    saved = envs.snapshot(0)
    envs.step(["on", "on"])
    envs.restore([1], [saved])
    assert envs.step(["on", "on"])[3].tolist() == [True, False]
    assert envs.step(["on", "on"])[3].tolist() == [True, True]
