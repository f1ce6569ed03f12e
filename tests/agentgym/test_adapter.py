"""Any Gymnasium environment as one of ours: defaults, stock vector environments, answers that mean nothing, errors."""

import os
import pickle
import string
import sys
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from hypothesis import given
from hypothesis import strategies as st

from agentgym.adapter import MOST_STEPS, adapt
from agentgym.outside.gym_answers import flag, number, read_reset, read_step
from agentgym.registry import ROWS
from agentgym.rollout import collect
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import StepTable
from policies.scripted import RandomPolicy
from tests.cases import cases
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import DISABLED, Drawn, Scripted, Twin, begun, stock
from tests.refusals import refuses
from wrappers import GRPO, PromptWindow, ReplyParser, VectorGraphShaping, VectorPromptWindow, VectorReplyParser

MODES = list(AutoresetMode)
STRAIGHT, DRUNK = Scripted("up"), Drawn("up", "down")


class Stairs(gym.Env):
    """Plain Gymnasium: a word is a step up when it is "up", else down; step 4 wins, step 0 loses."""

    observation_space = gym.spaces.Text(50, charset=string.printable)
    action_space = gym.spaces.Text(50, charset=string.printable)

    def __init__(self, extra: Mapping[str, Any] | None = None) -> None:
        self.extra = extra or {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        given = (options or {}).get("start")
        self.height = int(self.np_random.integers(1, 4)) if given is None else given
        self.over = False
        return self.look(), dict(self.extra)

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert not self.over, "stepped after its end"
        self.height += 1 if action == "up" else -1
        self.over = self.height in (0, 4)
        info = {**self.extra, "success": self.height == 4}
        return self.look(), float(self.height == 4), self.over, False, info

    def look(self) -> Any:
        return np.str_(f"step {self.height}")


class Mute(Stairs):
    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return (*super().step(action)[:4], {"hint": 3})


def same(one: StepTable, other: StepTable) -> bool:
    return one.to_trajectories() == other.to_trajectories()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_collect_gives_every_sub_environment_its_own_task_and_leaves_finished_ones_alone(kind: str) -> None:
    envs = stock(Stairs, 5, kind=kind)
    tasks = [{"start": 1}, {"start": 3}, {}]
    table = collect(envs, DRUNK, tasks=tasks, group_size=4, seed=0)
    assert table.groups[:2] == ("start=1", "start=3")
    assert table.groups[2].startswith("seed=")
    assert (table.n_trajectories, np.bincount(table.trajectory_group).tolist()) == (12, [4, 4, 4])
    first = [trajectory.steps[0].state for trajectory in table.to_trajectories()]
    assert (first[:8], len(set(first[8:]))) == (["step 1"] * 4 + ["step 3"] * 4, 1)
    assert table.valid.all()
    for trajectory in table.to_trajectories():
        assert trajectory.steps[-1].next_state == ("step 4 [success]" if trajectory.won else "step 0 [failure]")
        assert trajectory.won == (trajectory.steps[-1].reward == 1.0)
    assert 0 < table.trajectory_won.mean() < 1
    envs.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("env_id", [row.id for row in ROWS])
def test_the_same_seed_is_the_same_table_in_every_vector_environment(env_id: str, kind: str) -> None:
    tasks: list[dict[str, Any]] = [{"index": 0}, {"index": 1}, {}]
    ours = VectorReplyParser(gym.make_vec(env_id, num_envs=3, autoreset_mode="Disabled"))
    expected = collect(ours, RandomPolicy(), tasks=tasks, group_size=2, seed=3)
    inner = stock(partial(gym.make, env_id), 3, kind=kind)
    assert same(collect(VectorReplyParser(inner), RandomPolicy(), tasks=tasks, group_size=2, seed=3), expected)
    inner.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("mode", MODES)
def test_steps_infos_and_ends_are_those_of_our_vector_form(kind: str, mode: AutoresetMode) -> None:
    ours = CorridorVectorEnv(3, max_episode_steps=5, autoreset_mode=mode)
    envs = adapt(stock(partial(limited, CorridorEnv, 5), 3, mode, kind))
    assert envs.instructions == CorridorEnv.instructions
    rng = np.random.default_rng(0)
    seeds = [4, 5, 6]
    options = [{"index": 1}, None, {"index": 3}]
    assert data_equivalence(envs.reset(seed=seeds, options=options), ours.reset(seed=seeds, options=options))
    for step in range(60):
        actions = [("left", "right", "jump")[i] for i in rng.integers(0, 3, 3)]
        expected, found = ours.step(actions), envs.step(actions)
        for one, other in zip(found[:4], expected[:4], strict=True):
            assert data_equivalence(one, other)
        assert readable(found[4]) == readable(expected[4])
        over = expected[2] | expected[3]
        # In the middle of everything, seeds and tasks for some of them: also where a worker has begun by itself.
        if over.any() and (mode is DISABLED or step % 3 == 0):
            again = {"seed": [step, step + 5, step + 9], "options": {"reset_mask": over, "index": 2}}
            assert data_equivalence(envs.reset(**again)[0], ours.reset(**again)[0])
    envs.close()


def limited(make: Any, steps: int) -> gym.Env[Any, Any]:
    return TimeLimit(make(), steps)


def readable(infos: Mapping[str, Any]) -> dict[str, Any]:
    """Infos as lists, nested ones included."""
    return {
        name: readable(column) if isinstance(column, Mapping) else column.tolist() for name, column in infos.items()
    }


@pytest.mark.filterwarnings("ignore:.*has failed and is shut down")
def test_a_worker_whose_environment_fails_raises_that_error_and_the_rest_close() -> None:
    envs = begun(adapt(stock(Stairs, 2, kind="async")), options=[{"start": 1}, {"start": "high"}])
    refuses(TypeError, "can only concatenate str", envs.step, ["up", "up"])
    envs.close()


def test_without_a_word_about_success_the_error_says_what_to_pass() -> None:
    envs = stock(Mute, 2)
    with pytest.raises(KeyError, match=r"sub-environment 0 have no 'won', only \['hint', .*adapt\(envs, success="):
        collect(envs, STRAIGHT, tasks=[{"start": 3}], group_size=2, seed=0)
    both = SyncVectorEnv([Stairs, Mute], autoreset_mode=DISABLED)  # one of them says it: none, of sub-environment 1
    words = r"1 have no 'won', only \['hint', 'is_action_valid', 'score', 'state_key', 'task_id'\]"
    refuses(KeyError, words, collect, both, STRAIGHT, tasks=[{"start": 3}], group_size=2, seed=0)
    given = adapt(envs, success=lambda reward, terminated, info: terminated and reward > 0)
    table = collect(given, DRUNK, tasks=[{"start": 3}], group_size=12, seed=0)
    assert table.trajectory_won.tolist() == (table.trajectory_return == 1).tolist()
    assert len(set(table.trajectory_won.tolist())) == 2


@pytest.mark.parametrize("mode", MODES)
def test_who_needs_no_success_is_not_asked_for_it_and_credit_is_in_every_mode(mode: AutoresetMode) -> None:
    envs = begun(VectorReplyParser(SyncVectorEnv([Mute, Stairs], autoreset_mode=mode)), options={"start": 3})
    *_, infos = envs.step(["<action>up</action>"] * 2)
    last = infos["final_info"] if mode is AutoresetMode.SAME_STEP else infos
    assert (last["_won"].tolist(), last["won"].tolist()) == ([False, True], [False, True])
    credit = begun(GRPO(SyncVectorEnv([Stairs, Mute], autoreset_mode=mode)), options={"start": 3})
    credit.step(["down", "down"])
    with pytest.raises(KeyError, match="sub-environment 1 have no 'won'"):
        credit.step(["up", "up"]), credit.step(["up", "up"])
    shaped = begun(VectorGraphShaping(stock(Mute, 2, mode), 0.9), options={"start": 3})
    shaped.step(["up", "down"])  # its own default: the end was rewarded
    assert shaped.graphs.distance("start=3", "step 3") == 1


@pytest.mark.parametrize("make", [Stairs, partial(SyncVectorEnv, [Stairs] * 2, autoreset_mode=DISABLED)])
def test_it_pickles_in_the_middle_of_an_episode(make: Any) -> None:
    envs = adapt(make())
    n = envs.num_envs
    envs.reset(options={"start": 2})
    envs.step(["up"] * n)
    assert readable(pickle.loads(pickle.dumps(envs)).step(["up"] * n)[4]) == readable(envs.step(["up"] * n)[4])


def test_groups_are_named_by_options_then_by_seed_then_by_the_number_of_the_reset() -> None:
    envs = adapt(stock(Stairs, 3))

    def names(**arguments: Any) -> list[str]:
        return envs.reset(**arguments)[1]["task_id"].tolist()

    assert (names(), names(seed=5)) == (["reset=1"] * 3, ["seed=5", "seed=6", "seed=7"])
    assert names(seed=5, options={"split": "train"}) == [f"split=train, seed={seed}" for seed in (5, 6, 7)]
    assert names(seed=5, options={"split": "train", "index": 2}) == ["index=2, split=train"] * 3
    assert names(options=[{"task_id": "a"}, {"start": 1}, {"start": None}]) == ["a", "start=1", "reset=5"]
    own = adapt(stock(Stairs, 2), task=lambda info: 7)
    assert own.reset(seed=0)[1]["task_id"].tolist() == ["7", "7"]
    named = adapt(SyncVectorEnv([partial(Stairs, extra={"task_id": "told"})] * 2))
    assert named.reset(seed=0, options={"start": 1})[1]["task_id"].tolist() == ["told", "told"]


def test_states_are_named_and_keys_that_not_all_have_come_with_a_mask() -> None:
    envs = adapt(Stairs(), key=lambda observation, info: int(observation.split()[1]))
    assert envs.reset(options={"start": 3})[1]["state_key"].tolist() == ["3"]
    envs = stock(Numbers, 2)
    with pytest.raises(KeyError, match=r"no 'state_key', only \[.*if observations are not text, .*adapt\(envs, key="):
        collect(envs, DRUNK, tasks=[{}], seed=0)
    assert adapt(envs, key=lambda observation, info: observation.tobytes()).reset()[1]["state_key"][0]
    for lake in (gym.make("FrozenLake-v1"), SyncVectorEnv([partial(gym.make, "FrozenLake-v1")])):
        refuses(TypeError, r"are Discrete\(4\), not text .*TransformAction", adapt, lake)
    infos = [{"a": 1, "b": np.float32(0.5), "d": 2**63}, {"a": 2}, {"a": 3.5, "b": 2.0, "c": ("x", "y"), "d": 1}]
    makes = [partial(Stairs, extra=info) for info in infos]
    columns = adapt(SyncVectorEnv(makes)).reset(options={"start": 1})[1]
    assert columns["a"].tolist() == [1, 2, 3.5]
    assert "_a" not in columns
    assert (columns["b"].dtype, columns["b"].tolist()) == (np.float64, [0.5, 0.0, 2.0])
    assert (columns["_b"].tolist(), columns["d"].tolist()) == ([True, False, True], [2**63, None, 1])
    assert (columns["c"].tolist(), columns["_c"].tolist()) == ([None, None, ("x", "y")], [False, False, True])
    assert "admissible_actions" not in columns


class Numbers(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (2,))
    action_space = gym.spaces.Text(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2), {}


def test_sub_environments_may_be_wrapped_for_the_policy_already() -> None:
    def make() -> gym.Env[Any, Any]:
        return PromptWindow(ReplyParser(gym.make("AgentRL/Sokoban-v0")), history=1)

    tasks = [{"index": 0}, {"index": 1}]
    outside = VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=3, autoreset_mode="Disabled"))
    expected = collect(VectorPromptWindow(outside, history=1), RandomPolicy(), tasks=tasks, group_size=3, seed=0)
    for envs in (stock(make, 3), stock(make, 3, kind="async")):
        assert same(collect(envs, RandomPolicy(), tasks=tasks, group_size=3, seed=0), expected)
        envs.close()
    # Where the environment does not name its states, messages are no text.
    with pytest.raises(KeyError, match="if observations are not text, name states"):
        collect(PromptWindow(Stairs(), instructions=False), DRUNK, tasks=[{}], seed=0)


def test_closed_and_nested_vector_environments_say_so() -> None:
    envs = begun(adapt(stock(Stairs, 2, kind="async")), seed=0)
    envs.close()
    refuses(ClosedEnvironmentError, "is closed", envs.reset, seed=0)
    for envs in (CorridorVectorEnv(2), adapt(Stairs()), VectorReplyParser(SyncVectorEnv([Stairs] * 2))):
        assert adapt(envs) is envs
        with pytest.raises(TypeError, match="success= is for a single environment"):
            adapt(envs, success=lambda reward, terminated, info: True)
    wrapped = RecordEpisodeStatistics(stock(Stairs, 2))
    with pytest.raises(ValueError, match=r"SyncVectorEnv does not support; adapt it before wrapping"):
        collect(wrapped, DRUNK, tasks=[{}], seed=0)
    envs = RecordEpisodeStatistics(adapt(stock(Stairs, 2)))
    assert collect(envs, DRUNK, tasks=[{"start": 2}], group_size=2, seed=0).n_trajectories == 2
    builder = TableBuilder(2, AutoresetMode.NEXT_STEP)
    with pytest.raises(KeyError, match=r"have no 'task_id', only \[\]: agentgym.adapter.adapt\(envs\) provides it"):
        builder.reset(SyncVectorEnv([Stairs] * 2).reset()[1])
    envs = AsyncVectorEnv([Stairs] * 2, autoreset_mode=DISABLED)
    refuses(ValueError, "make it with shared_memory=False", adapt, envs)
    envs.close()


def test_wrappers_credit_and_block_commands_of_stock_environments() -> None:
    envs = GRPO(VectorPromptWindow(VectorReplyParser(stock(Stairs, 2)), history=1, instructions="Go up."))
    envs.reset(options=[{"start": 3}, {"start": 3}])
    messages, *_ = envs.step(["<action>up</action>", "<action>down</action>"])
    assert "you did: up" in messages[0][-1]["content"]
    envs.step(["", "<action>down</action>"])
    envs.step(["", "<action>down</action>"])
    assert envs.advantages()[0] > 0 > envs.advantages()[1]
    make = partial(gym.make, "AgentRL/SearchQA-v0")
    for kind in ("sync", "async"):
        inner = stock(make, 1, kind=kind)
        envs = begun(VectorReplyParser(inner), seed=0)
        assert envs.step(["<search>who</search>"])[4]["command"].tolist() == ["<search>who</search>"]
        inner.close()


@given(
    plan=st.lists(st.lists(st.sampled_from(["up", "down", "", "ü\ud800"]), min_size=3, max_size=3), max_size=25),
    mode=st.sampled_from(MODES),
    seed=st.integers(0, 99),
)
def test_whatever_is_played_each_sub_environment_behaves_as_alone(plan, mode: AutoresetMode, seed: int) -> None:
    """Each against a single environment that is reset by hand; `Stairs` fails when it is stepped after its end."""
    envs, alone = adapt(stock(Stairs, 3, mode)), Twin([Stairs() for _ in range(3)], mode)
    for i in range(3):
        alone.reset(i, seed + i)
    assert list(envs.reset(seed=seed)[0]) == [observation for observation, _ in alone.rows]
    for actions in plan:
        observations, rewards, terminated, _, infos = envs.step(actions)
        for i, (reward, over, _, final) in enumerate(alone.step(actions)):
            assert (observations[i], rewards[i], terminated[i]) == (alone.rows[i][0], reward, over)
            info, source = (final[1], infos["final_info"]) if final else (alone.rows[i][1], infos)
            assert source["won"][i] == (over and info["success"])
            assert not final or infos["final_obs"][i] == final[0]


ACTIONS = ("up", "down", "up", "up", "down", "up", "up", "up", "down", "down", "up", "down")


class Closing(Stairs):
    """Can say its state, and cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = (number for number in ())

    def snapshot(self) -> Any:
        return self.height, self.over

    def restore(self, state: Any) -> None:
        self.height, self.over = state


def limited_to_five(make: Any) -> gym.Env[Any, Any]:
    return TimeLimit(OrderEnforcing(PassiveEnvChecker(make())), 5)


def play(envs: Any, actions: Any, over: list[bool]) -> list[str]:
    """What sub-environment 0 shows, and every other one as well."""
    shown = []
    for action in actions:
        sent = ["" if done and envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED else action for done in over]
        *step, infos = envs.step(sent)
        over = [bool(a or b) for a, b in zip(step[2], step[3], strict=True)]
        kept = {name: column for name, column in infos.items() if name in ("task_id", "state_key", "won", "score")}
        shown.append([repr([part[i] for part in (*step, *kept.values())]) for i in range(envs.num_envs)])
    return [row[0] for row in shown] if len({tuple(row) for row in zip(*shown, strict=True)}) == 1 else shown


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kind", "make"), [("sync", Stairs), ("sync", Closing), ("async", Closing)])
def test_a_fork_plays_on_as_the_original_would_have(kind: str, make: Any, mode: AutoresetMode) -> None:
    for before in (0, 1, 3, 5, 6):
        envs = begun(adapt(stock(partial(limited_to_five, make), 2, mode, kind)), seed=[4, 9])
        over = [False, False]
        for action in ACTIONS[:before]:
            sent = ["" if done and mode is AutoresetMode.DISABLED else action for done in over]
            *_, terminated, truncated, _ = envs.step(sent)
            over = (terminated | truncated).tolist()
        saved = pickle.loads(pickle.dumps(envs.snapshot(0)))
        envs.fork(0, 1)
        on = play(envs, ACTIONS, [over[0]] * 2)
        assert isinstance(on[0], str), "the fork plays on as the original"
        for _ in range(2):
            envs.restore([1, 0], [saved] * 2)
            assert play(envs, ACTIONS, [over[0]] * 2) == on
        if mode is not AutoresetMode.DISABLED:
            envs.restore([1, 0], [saved] * 2, [5, 5])
            assert play(envs, ACTIONS * 2, [over[0]] * 2)[: len(on)] != on
        envs.close()


def test_our_environments_branch_in_processes_and_who_cannot_be_saved_is_named_and_plays_on() -> None:
    inner = VectorReplyParser(stock(partial(limited_to_five, CorridorEnv), 2, kind="async"))
    envs = begun(VectorPromptWindow(inner, instructions=False), seed=0, options=[{"index": 2}, {"index": 1}])
    envs.step(["<action>right</action>", "<action>jump</action>"])
    messages, infos = envs.fork(0, 1, seeds=3)
    assert (messages[0], infos["command"].tolist()) == (messages[1], ["right", "right"])
    *_, rewards, terminated, _, _ = envs.step(["<action>right</action>"] * 2)
    assert (rewards.tolist(), terminated.tolist()) == ([1.0, 1.0], [True, True])
    envs.close()

    class Unknown(gym.Wrapper[Any, Any, Any, Any]):
        pass

    for make, message in (
        (partial(limited_to_five, Stairs), r"<TimeLimit<.*Stairs.* cannot be saved in a process .*it has no snapshot"),
        (lambda: Unknown(Closing()), r"<Unknown<Closing.*it is in Unknown.*or make a SyncVectorEnv"),
    ):
        envs = begun(adapt(stock(make, 2, kind="async")), seed=0)
        refuses(TypeError, message, envs.snapshot, 0)
        assert envs.step(["up", "down"])[0]
        envs.close()


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


def played(env: gym.Env[Any, Any]) -> Any:
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
def test_what_means_nothing_is_refused_with_the_number_of_the_sub_environment(parts, error, words: str) -> None:
    refuses(error, rf"^sub-environment 1 \(<Says instance>\): {words}", played, Says(**parts))


@pytest.mark.filterwarnings("ignore:.* acted alike")
@pytest.mark.parametrize("yes", [True, np.True_, 1, 1.0, np.float64(1), np.int8(1), np.array(True), np.array([1])])
def test_all_kinds_of_flags_and_numbers_are_read(yes: Any) -> None:
    assert flag(yes, "x", "y") is True
    assert flag(type(yes)(0) if not isinstance(yes, np.ndarray) else yes * 0, "x", "y") is False
    assert number(yes, "x", "y") == 1.0
    table = played(Says(reward=yes, terminated=yes, info={"won": yes, "is_action_valid": yes, "score": yes}))
    assert (table.reward.tolist(), table.won.tolist(), table.valid.tolist()) == ([1, 1], [True, True], [True, True])


def test_answers_are_read_as_they_are_meant_and_what_cannot_be_read_is_explained() -> None:
    assert read_reset(["start", {"a": 1}], "x") == ("start", {"a": 1})
    assert read_step(("on", np.float32(0.5), np.False_, 1, {}), "x") == ("on", 0.5, False, True, {})
    envs = adapt(Says(), success=lambda reward, terminated, info: "yes")  # type: ignore[arg-type,return-value]
    envs.reset()
    refuses(TypeError, r"^sub-environment 0 .*: what success= returns must be a bool .* got str", envs.step, ["end"])
    with pytest.raises(ValueError, match=r"sub-environment 1 \(<TimeLimit<Says instance>>\): not enough .*old gym"):
        played(TimeLimit(Says(answer=("on", 0.0, True, {})), 5))

    class Broken(Says):
        def step(self, action: str) -> Any:
            raise KeyError(action)

    with pytest.raises(KeyError, match="end") as caught:
        played(Broken())
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
    envs = begun(adapt(AsyncVectorEnv([Says, Quits], shared_memory=False, autoreset_mode=DISABLED)), seed=0)
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
    with warnings.catch_warnings(record=True, action="always") as caught:
        table = collect(envs, Scripted("end"), tasks=[{}, {}], seed=0)
        collect(envs, Scripted("end"), tasks=[{}], seed=0)
    (warning,) = caught
    assert "did not end an episode within 1,000 steps and has no TimeLimit" in str(warning.message)
    assert (MOST_STEPS, np.bincount(table.trajectory).tolist()) == (1000, [1000, 1000])
    assert (table.truncated[table.last].all(), table.terminated.any()) == (True, False)
    assert table.won.all()  # success is asked for, as at a TimeLimit
    envs.close()


def test_a_limit_can_be_given_taken_away_and_is_part_of_a_snapshot() -> None:
    with warnings.catch_warnings(action="error"):
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
    envs: Any = begun(adapt(stock(Says, 2), max_episode_steps=3), seed=0)
    envs.step(["on", "on"])
    saved = envs.snapshot(0)
    envs.step(["on", "on"])
    envs.restore([1], [saved])
    assert envs.step(["on", "on"])[3].tolist() == [True, False]
    assert envs.step(["on", "on"])[3].tolist() == [True, True]


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_limit_is_a_time_limit_in_every_mode(kind: str, mode: AutoresetMode) -> None:
    three = partial(limited, Endless, 3)
    both = adapt(stock(Endless, 2, mode, kind), max_episode_steps=3), adapt(stock(three, 2, mode, kind))
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
