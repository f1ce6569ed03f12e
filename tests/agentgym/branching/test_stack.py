"""Branches through stacks of wrappers, one by one and as vectors."""

import pickle
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import OrderEnforcing, RecordEpisodeStatistics, TimeLimit, TransformReward

import wrappers
from agentgym.branching import BranchingWrapper, restore, resume, snapshot
from agentgym.core import TextSpace
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import begun, steps
from tests.refusals import refuses
from wrappers import PromptWindow, ReplyParser, Transcript, VectorPromptWindow, VectorReplyParser

REPLIES = ("<action>right</action>", "nothing", "<action>jump</action>", "<action>left</action>")
AFTER = ("<action>left</action>", "nothing")


class Stairs(gym.Env[str, str]):
    """A plain environment: up, down, and a step that is drawn; all in attributes."""

    observation_space = action_space = gym.spaces.Text(9)

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.me = self

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.height, self.seen = 0, []
        return "0", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        assert self.me is self
        self.height += {"up": 1, "down": -1}.get(action, int(self.np_random.integers(-9, 10)))
        self.seen.append(self.height)
        return str(self.height), float(sum(self.seen)), False, False, {}


class Counting(gym.Wrapper[str, str, str, str]):
    """Somebody else's: rewards grow with the steps."""

    def __init__(self, env: gym.Env[str, str]) -> None:
        super().__init__(env)
        self.times = {"steps": 0}

    def step(self, action: str) -> Any:
        self.times["steps"] += 1
        observation, reward, *rest = self.env.step(action)
        return observation, reward + self.times["steps"], *rest


class Saving(Stairs):
    """Saves itself."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = (number for number in ())  # cannot be copied, and is its own business

    def snapshot(self) -> Any:
        return self.height, tuple(self.seen)

    def restore(self, state: Any) -> None:
        self.height, self.seen = state[0], list(state[1])


def stack(kind: Any = PromptWindow, graphs: wrappers.TaskGraphs | None = None) -> Any:
    env: Any = OrderEnforcing(TimeLimit(CorridorEnv(), 6))
    env = wrappers.GraphShaping(wrappers.InvalidActionPenalty(ReplyParser(env)), gamma=0.9, graphs=graphs)
    env = kind(env, instructions=False)
    return wrappers.ProcessReward(env, lambda steps: [float(len(str(steps[0].messages)))], kind="value", gamma=0.9)


@pytest.mark.parametrize("kind", [partial(PromptWindow, history=None), Transcript])
@pytest.mark.parametrize("before", range(4))
def test_our_wrappers_go_on_from_where_they_stood(kind: Any, before: int) -> None:
    graphs = wrappers.TaskGraphs()
    env = stack(kind, graphs)
    now = env.reset(seed=3, options={"index": 2})
    for action in REPLIES[:before]:
        step = env.step(action)
        now = step[0], step[-1]
    saved, grown = pickle.loads(pickle.dumps(env.snapshot())), graphs.state_dict()
    on = repr(steps(env, AFTER)), repr([env.reset() for _ in range(5)])
    for other in (env, stack(kind, graphs)):
        graphs.load_state_dict(grown)
        assert repr(other.restore(saved)) == repr(now)
        assert (repr(steps(other, AFTER)), repr([other.reset() for _ in range(5)])) == on


def test_the_time_limit_of_make_is_part_of_it_a_seed_replaces_what_is_drawn_and_pictures_are_shown_again() -> None:
    env = begun(TimeLimit(CorridorEnv(), 2), seed=0)
    env.step("jump")
    saved = snapshot(env)
    assert env.step("jump")[3]
    restore(env, saved)
    assert env.step("jump")[3]
    tasks = []
    for seed in (None, 5, 5):
        restore(env, saved, seed)
        tasks.append([env.reset()[1]["task_id"] for _ in range(20)])
    assert tasks[0] != tasks[1] == tasks[2]
    env = gym.wrappers.TransformObservation(wrappers.DiscreteActions(CorridorEnv()), str.upper, TextSpace())
    env.reset(seed=0, options={"index": 2})
    saved = snapshot(env)
    env.step(1)
    assert restore(env, saved)[0] == "CELL 2"
    assert env.step(0)[0] == "CELL 1"


@pytest.mark.parametrize("make", [Stairs, Saving])
def test_a_plain_environment_is_continued_with_all_its_wrappers(make: Any) -> None:
    one, other = (TimeLimit(Counting(make()), 5) for _ in range(2))
    one.reset(seed=1)
    other.reset(seed=2)
    steps(one, ("up", "?", "up"))
    saved = pickle.loads(pickle.dumps(snapshot(one)))
    on = steps(one, ("down", "?"))
    assert on[-1][3]
    for env in (other, one, other):
        resume(env, saved)
        assert steps(env, ("down", "?")) == on
    assert one.unwrapped.me is one.unwrapped  # type: ignore[attr-defined]
    assert other.unwrapped.me is other.unwrapped  # type: ignore[attr-defined]
    drawn = []
    for seed in (8, 8, None):
        resume(one, saved, seed)
        drawn.append(steps(one, ("?", "?")))
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_cannot_be_saved_is_named_and_wrong_use_says_what_was_expected() -> None:
    class Open(Stairs):
        def __init__(self) -> None:
            super().__init__()
            self.file = (number for number in ())

    class Slots(Stairs):
        __slots__ = ("hidden",)

    class Rebuilt(Stairs, EzPickle):
        pass

    class Around(Stairs):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Rebuilt()

    reasons = {Open: "attributes cannot be copied: TypeError", Slots: "in __slots__", Around: "holds an EzPickle"}
    for make, reason in reasons.items():
        env = begun(TimeLimit(make(), 5))
        refuses(TypeError, f"{make.__name__} cannot be saved .*{reason}.*give the environment's class", snapshot, env)
    rebuilt = TimeLimit(Rebuilt(), 5)  # whose pickle would be a new one
    rebuilt.reset(seed=0)
    rebuilt.step("up")
    saved = snapshot(rebuilt)
    rebuilt.step("up")
    resume(rebuilt, saved)
    assert rebuilt.step("up")[0] == "2"
    env: Any = begun(wrappers.InvalidActionPenalty(CorridorEnv()), seed=0)
    saved = env.snapshot()
    refuses(TypeError, r"expected what snapshot\(\) returned, got dict", env.restore, {})
    words = "of a stack of CorridorEnv in InvalidActionPenalty, the environment is one of"
    refuses(ValueError, words, restore, env.env, saved)
    other = begun(RecordEpisodeStatistics(CorridorEnv()), seed=0)
    words = "RecordEpisodeStatistics cannot return the observation of a restored state"
    refuses(TypeError, words, restore, other, snapshot(other))
    resume(other, snapshot(other))
    worth_twice = begun(TransformReward(CorridorEnv(), lambda reward: 2 * reward), seed=0)
    assert restore(worth_twice, snapshot(worth_twice))[0] == worth_twice.unwrapped.observe()  # type: ignore[attr-defined]


def test_a_wrapper_of_ones_own_says_what_it_knows_and_shows() -> None:
    class Steps(BranchingWrapper, gym.Wrapper[str, str, str, str]):
        steps = 0

        def step(self, action: str) -> Any:
            self.steps += 1
            return self.env.step(action)

        def get_state(self) -> int:
            return self.steps

        def set_state(self, state: int) -> None:
            self.steps = state

        def shown(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            return f"{self.steps}: {observation}", info

    env = begun(Steps(CorridorEnv()), options={"index": 2})
    env.step("right")
    saved = env.snapshot()
    env.step("left")
    assert env.restore(saved)[0] == "1: cell 3"


def corridors(count: int = 3, mode: str = "Disabled", limit: int | None = None) -> CorridorVectorEnv:
    return begun(CorridorVectorEnv(count, autoreset_mode=mode, max_episode_steps=limit), seed=0, options={"index": 2})


def test_a_fork_continues_in_others_and_leaves_the_rest_finished_or_not() -> None:
    envs = corridors(4, limit=3)
    envs.step(["right", "left", "jump", "jump"])
    observations, infos = envs.fork(0, [1, 3])
    assert observations == ("cell 3", "cell 3", "cell 2", "cell 3")
    assert infos["is_action_valid"].tolist() == [True, True, False, True]
    observations, rewards, terminated, truncated, _ = envs.step(["jump", "right", "left", "left"])
    assert observations == ("cell 3", "cell 4", "cell 1", "cell 2")
    assert (rewards.tolist(), terminated.tolist()) == ([-0.5, 1.0, 0.0, 0.0], [False, True, False, False])
    assert not truncated.any()
    _, _, terminated, truncated, _ = envs.step(["left"] * 4)  # 1 has finished; of the others it is the third step
    assert (terminated.tolist(), truncated.tolist()) == ([False, True, True, False], [True, False, True, True])
    envs = corridors(2)
    saved = envs.snapshot(0)
    envs.step(["right", "left"])
    for _ in range(2):  # what was saved is the past, and is not used up
        assert envs.restore(1, saved)[0] == ("cell 3", "cell 2")
        assert envs.step(["jump", "right"])[0] == ("cell 3", "cell 3")
    envs = corridors(3)
    for _ in range(2):
        envs.step(["right", "jump", "jump"])
    observations, infos = envs.fork(0, 1)
    assert infos["won"].tolist() == [True, True, False]
    observations, _, terminated, *_ = envs.step(["", "", "right"])
    assert (observations, terminated.tolist()) == (("cell 4", "cell 4", "cell 3"), [True, True, False])
    envs.fork(2, np.array([0, 1]))
    assert envs.step(["right", "left", "jump"])[0] == ("cell 4", "cell 2", "cell 3")


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_the_next_tasks_are_drawn_as_they_would_have_been_or_from_the_seed(mode: str) -> None:
    def tasks(envs: Any) -> list[list[str]]:
        return [envs.step(["right"] * 3)[-1]["task_id"].tolist() for _ in range(60)]

    envs = begun(CorridorVectorEnv(3, autoreset_mode=mode), seed=7)
    envs.step(["right"] * 3)
    saved = [envs.snapshot(i) for i in range(3)]
    on = tasks(envs)
    assert len({row[0] for row in on}) == 3
    envs.restore(range(3), saved)
    assert tasks(envs) == on
    envs.fork(0, [1, 2], seeds=[5, 5])
    forked = tasks(envs)
    assert [row[1] for row in forked] == [row[2] for row in forked] != [row[0] for row in forked]
    envs.restore([0, 1, 2], [saved[0]] * 3, [5, None, 5])
    again = tasks(envs)
    assert [row[0] for row in again] == [row[2] for row in again]
    assert [row[1] for row in again] == [row[0] for row in on]


def test_unseeded_episodes_other_generators_and_all_before_the_first_reset_go_on_as_they_would_have() -> None:
    envs = begun(CorridorVectorEnv(2), options={"index": 3})
    saved = pickle.loads(pickle.dumps(envs.snapshot(0)))
    on = [envs.step(["right"] * 2)[-1]["task_id"][0] for _ in range(30)]
    envs.restore(1, saved)
    assert [envs.step(["right"] * 2)[-1]["task_id"][1] for _ in range(30)] == on
    envs = begun(CorridorVectorEnv(2), seed=0)
    envs.envs[0].np_random = np.random.Generator(np.random.MT19937(3))
    envs.fork(0, 1)
    drawn = [envs.step(["right"] * 2)[-1]["task_id"].tolist() for _ in range(30)]
    assert len({tuple(row) for row in drawn}) > 1
    assert all(row[0] == row[1] for row in drawn)
    envs = corridors(2)
    envs.step(["right", "left"])
    saved = [envs.snapshot(i) for i in (1, 0)]
    other = VectorReplyParser(CorridorVectorEnv(2, autoreset_mode="Disabled"))
    refuses(ResetNeeded, "no episodes yet", other.snapshot, 0)
    fresh = CorridorVectorEnv(2, autoreset_mode="Disabled")
    refuses(ResetNeeded, "restore all sub-environments", fresh.restore, 0, saved[0])
    assert fresh.restore([0, 1], saved)[0] == ("cell 1", "cell 3")
    assert fresh.step(["jump", "right"])[0] == ("cell 1", "cell 4")


def test_wrong_arguments_and_snapshots_of_another_stack_are_refused() -> None:
    envs = corridors(3)
    envs.step(["right", "left", "jump"])
    state: Any = envs.snapshot(0)
    for arguments, error, message in (
        ((3, state), IndexError, "no sub-environment 3: indices are 0..2"),
        ((-1, state), IndexError, "no sub-environment -1"), (({1}, [state]), TypeError, "indices must be a list"),
        ((True, state), TypeError, "expected the index of a sub-environment"),
        (([1, 1], [state, state]), ValueError, "indices must be distinct"),
        (([1, 2], [state]), ValueError, r"states must hold one entry per index \(2\), got 1"),
        (([1, 2], state), TypeError, "states must be a list"), (([1, 2], [state, None]), TypeError, "got NoneType"),
        ((1, [state]), TypeError, r"expected what snapshot\(i\) returned, got list"),
        (([1, 2], [state, state], 3), TypeError, "seeds must be a list"),
        (([1, 2], [state, state], [3]), ValueError, "seeds must hold one entry per index"),
        (([1, 2], [state, state], [3, -1]), ValueError, "seeds must be integers of at least 0"),
        (([1, 2], [state, state], [3, 1.5]), ValueError, "seeds must be integers of at least 0"),
    ):  # fmt: skip
        refuses(error, message, envs.restore, *arguments)
    refuses(IndexError, "no sub-environment 3", envs.fork, 3, 0)
    refuses(TypeError, ", got 'first'", envs.snapshot, "first")
    assert envs.restore([], [])[0] == ("cell 3", "cell 1", "cell 2")
    envs = corridors(2)
    bare = envs.snapshot(0)
    outer = begun(wrappers.VectorInvalidActionPenalty(VectorReplyParser(envs)), seed=0, options={"index": 2})
    words = "taken by CorridorVectorEnv; restore it through a stack of the same wrappers"
    refuses(ValueError, words, outer.restore, 0, bare)
    refuses(ValueError, "the snapshot was taken by VectorInvalidAction", outer.env.restore, 0, outer.snapshot(0))


@pytest.mark.parametrize("foreign", [gym.wrappers.vector.RecordEpisodeStatistics, gym.vector.VectorWrapper])
def test_a_wrapper_that_cannot_be_saved_is_named(foreign: Any) -> None:
    inner = foreign(CorridorVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED))
    envs = begun(VectorPromptWindow(VectorReplyParser(inner), instructions=False), seed=0)
    refuses(TypeError, f"through {type(inner).__name__}, a wrapper without.*leave it out, or give", envs.snapshot, 0)
    saved = begun(VectorPromptWindow(VectorReplyParser(corridors(2)), instructions=False), seed=0)
    refuses(TypeError, f"VectorReplyParser: .*through {type(inner).__name__}", envs.restore, 0, saved.snapshot(0))
