"""What the episodes of a group share, and what not: the start, and the luck of the environment."""

import pickle
import random
import string
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.seeding import np_random
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from agentgym.adapter import adapt
from agentgym.registry import ROWS
from agentgym.rollout import collect
from agentgym.rollout.lanes import InTurn, collect_lanes
from agentgym.rollout.tree import collect_tree
from agentgym.trajectory import Reply, StepTable
from baselines.evaluation import evaluate
from baselines.play.dynamic_sampling import sample_groups
from policies.scripted import RandomPolicy
from tests.agentgym.rollout.test_groups import by_place, disabled
from tests.cases import cases
from tests.playing import Scripted, stock
from tests.refusals import refuses
from wrappers import GRPO, ReplyParser, VectorReplyParser

FLIPS = 6


class Coins(gym.Env):
    """A start drawn by the reset, then six coins that the environment throws: heads in the last one wins."""

    observation_space = gym.spaces.Text(100, charset=string.printable)
    action_space = gym.spaces.Text(100, charset=string.printable)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.seen = f"{self.np_random.integers(1000)}:"
        return self.seen, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        heads = self.throw()
        self.seen += "TH"[heads]
        over = len(self.seen.partition(":")[2]) == FLIPS
        return self.seen, float(heads and over), over, False, {"success": over and bool(heads)}

    def throw(self) -> int:
        return int(self.np_random.integers(2))


class Held(Coins):
    """A part of it keeps the generator of the first reset, as some environments do."""

    def reset(self, **given: Any) -> tuple[str, dict[str, Any]]:
        shown = super().reset(**given)
        self.part = partial(self.np_random.integers, 2)
        return shown

    def throw(self) -> int:
        return int(self.part())


class Own(Coins):
    """Draws from a generator of its own, and seeds it itself."""

    def reset(self, **given: Any) -> tuple[str, dict[str, Any]]:
        self.reseed(given["seed"])
        return super().reset(**given)

    def reseed(self, seed: int) -> None:
        self.own = random.Random(seed)

    def throw(self) -> int:
        return self.own.randrange(2)


def limited() -> gym.Env[Any, Any]:
    return TimeLimit(Coins(), 9)


def same() -> Scripted:
    return Scripted("<action>throw</action>")


class Noted(Scripted):
    """Keeps the numbers that it is given."""

    def __init__(self) -> None:
        super().__init__("<action>throw</action>")
        self.numbers: list[float] = []

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        self.numbers += rng.random(len(observations)).tolist()
        return super().act(observations, infos, rng)


def throws(table: StepTable) -> list[list[str]]:
    """What each episode of each group ended in, without the mark of its end."""
    last = [str(table.states[table.next_state[row]]).partition(" ")[0] for row in table.last]
    return [[last[i] for i in np.flatnonzero(table.trajectory_group == group)] for group in range(table.n_groups)]


pytestmark = pytest.mark.filterwarnings("ignore:.* acted alike", "ignore:.* has no reply_queue")
TASKS: list[dict[str, Any]] = [{}, {}]


def test_a_group_shares_the_start_and_each_episode_has_the_luck_of_its_own_seed() -> None:
    groups = throws(collect(stock(Coins, 5), same(), tasks=TASKS, group_size=8, seed=0))
    for group in groups:
        starts, luck = zip(*(ended.split(":") for ended in group), strict=True)
        assert len(set(starts)) == 1
        assert len(set(luck)) > 3  # eight draws of 64
    assert groups[0][0].split(":")[0] != groups[1][0].split(":")[0]
    for first in (0, 3, 7):  # played one by one
        alone = throws(collect(stock(Coins, 2), same(), tasks=TASKS, seed=0, first=first))
        assert alone == [[group[first]] for group in groups]
    shared = throws(collect(stock(Coins, 5), same(), tasks=TASKS, group_size=8, seed=0, luck="group"))
    assert [len(set(group)) for group in shared] == [1, 1]
    assert [group[0] for group in shared] == [group[0] for group in groups]  # the first has the luck of the reset
    found = throws(collect(stock(Coins, 3), same(), tasks=TASKS, group_size=4, seed=5))
    reset = np.random.SeedSequence(5).generate_state(2)
    for group in range(2):
        own = np_random(int(reset[group]))[0]
        start = f"{own.integers(1000)}:"
        for index in range(4):
            if index:
                own = np_random(int(np.random.SeedSequence(5, spawn_key=(3, group, index)).generate_state(1)[0]))[0]
            assert found[group][index] == start + "".join("TH"[own.integers(2)] for _ in range(FLIPS))


@pytest.mark.parametrize("make", [Coins, Held, Own, limited, lambda: ReplyParser(Coins())])
def test_luck_reaches_the_environment_through_wrappers_and_by_its_own_method(make: Any) -> None:
    given: Any = {"tasks": TASKS, "group_size": 5, "seed": 2}
    expected = throws(collect(make(), same(), **given))
    assert all(len(set(group)) > 1 for group in expected)
    assert throws(collect(RecordEpisodeStatistics(adapt(make())), same(), **given)) == expected
    if make in (Coins, Own, limited):
        envs = stock(make, 3, kind="async")  # in processes
        assert throws(collect(envs, same(), **given)) == expected
        envs.close()


@pytest.mark.parametrize("places", [1, 3, 4, 16])
def test_luck_depends_neither_on_the_size_of_waves_nor_on_lanes_or_processes(places: int) -> None:
    given: Any = {"tasks": TASKS, "group_size": 6, "seed": 2}
    expected = throws(collect(stock(Coins, 12), same(), **given))
    assert throws(collect(stock(Coins, places), same(), **given)) == expected
    lanes = [stock(Coins, places), stock(Coins, 2)]
    assert throws(collect_lanes(lanes, same(), **given)) == expected
    assert throws(collect_lanes(lanes, same(), luck="group", **given)) == [[one[0]] * 6 for one in expected]


def test_luck_goes_through_wrappers_of_ours_and_moves_no_number_of_the_policy() -> None:
    wrapped = GRPO(VectorReplyParser(stock(Coins, 4)))
    plain, own, shared = Noted(), Noted(), Noted()
    given: Any = {"tasks": TASKS, "group_size": 6, "seed": 2}
    expected = throws(collect(stock(Coins, 4), plain, **given))
    assert throws(collect(wrapped, own, **given)) == expected
    collect(stock(Coins, 4), shared, luck="group", **given)
    assert own.numbers == plain.numbers == shared.numbers
    tree = collect_tree(wrapped, same(), branches=1, select=lambda table: [0], **given)
    assert throws(tree.keep(np.arange(tree.n_trajectories) < 12)) == expected


def test_chosen_places_are_reseeded_and_who_cannot_be_is_warned_of_once() -> None:
    envs = VectorReplyParser(stock(Coins, 3))
    refuses(gym.error.ResetNeeded, r"reseed: no episodes yet", envs.reseed, 0, 1)
    shown = envs.reset(seed=[7, 7, 7])[0]
    envs.reseed([2, 0], [11, 11])
    after = [envs.step(["<action>x</action>"] * 3)[0] for _ in range(FLIPS)]
    assert all(text.startswith(one) for text, one in zip(after[-1], shown, strict=True))
    assert after[-1][0] == after[-1][2] != after[-1][1]
    envs.reset(seed=[7, 7, 7])
    envs.reseed(1, np.int64(11))
    assert [envs.step(["<action>x</action>"] * 3)[0] for _ in range(FLIPS)][-1][1] == after[-1][0]
    refuses(ValueError, "seeds must be integers of at least 0, got None", envs.reseed, [0], [None])
    envs: Any = Foreign(adapt(stock(Coins, 2)))
    given: Any = {"tasks": [{}], "seed": 0}
    with warnings.catch_warnings(action="error"):
        collect(envs, same(), **given)  # nothing is to be reseeded
    with pytest.warns(RuntimeWarning, match=r"draw alike, because Foreign has no reseed\(indices.*luck='group'"):
        collect(envs, same(), group_size=2, **given)
    refuses(ValueError, "unknown luck 'mine'; known: 'episode', 'group'", collect, envs, same(), luck="mine", **given)


@pytest.mark.parametrize("env_id", [row.id for row in ROWS])
def test_our_environments_draw_nothing_in_a_step_by_default(env_id: str) -> None:
    def play(**luck: Any) -> bytes:
        envs = VectorReplyParser(gym.make_vec(env_id, num_envs=4, autoreset_mode="Disabled"))
        table = collect(envs, RandomPolicy(), tasks=[{"index": 1}, {}], group_size=3, seed=4, **luck)
        return pickle.dumps(table.to_trajectories())

    assert play() == play(luck="group")


@cases(
    "env_id, options, task, commands",
    ("SOTOPIA", {"order": "random", "max_turns": 12}, {}, ['{"action_type": "speak", "argument": "Hm."}']),
    ("SearchQA", {"simulator": "rule", "max_turns": 6}, {"noise": 0.5}, ["<search>Who was born there?</search>"]),
    ("WebShop", {"noise": (0.9, 0.9)}, {}, ["search[red shoes]", "click[next >]"]),
)
def test_what_our_environments_draw_in_a_step_is_an_episode_s_own(env_id, options, task, commands) -> None:
    def play(luck: Any) -> list[list[str]]:
        envs = gym.make_vec(f"AgentRL/{env_id}-v0", num_envs=6, autoreset_mode="Disabled", **options)
        policy = Scripted(*commands)
        collect(envs, policy, tasks=[{**task, "split": "train", "index": 0}], group_size=6, seed=1, luck=luck)
        return policy.seen

    own, shared = play("episode"), play("group")
    assert len(set(own[0])) == 1  # the start is the group's
    assert any(len(set(seen)) > 1 for seen in own)
    assert all(len(set(seen)) == 1 for seen in shared)
    assert [seen[0] for seen in own[: len(shared)]] == [seen[0] for seen in shared]


def test_repeats_of_an_evaluation_and_further_rounds_of_dynamic_sampling_are_independent() -> None:
    tasks: list[dict[str, Any]] = [{}] * 40
    once = evaluate(stock(Coins, 7), same(), tasks, seed=3)
    alone = collect(stock(Coins, 7), same(), tasks=tasks, seed=3, luck="group")
    assert once.success[:, 0].tolist() == alone.trajectory_won.tolist()
    with warnings.catch_warnings(action="error"):  # here a policy that always acts alike is no mistake
        often = evaluate(stock(Coins, 7), same(), tasks, seed=3, repeats=4)
    assert often.success[:, 0].tolist() == once.success[:, 0].tolist()
    # All four alike: 2 in 16 of the tasks, and each of them where the luck is the group's.
    assert 1 <= sum(len(set(row)) == 1 for row in often.success.tolist()) <= 12
    played: list[StepTable] = []

    def play(tasks: Sequence[Mapping[str, Any]], seed: int) -> StepTable:
        played.append(collect(stock(Coins, 4), same(), tasks=tasks, group_size=4, seed=seed))
        return played[-1]

    def never(table: StepTable) -> Any:
        return np.zeros(table.n_groups, np.bool_)

    sample_groups(play, [{}] * 9, 3, np.random.default_rng(0), rounds=2, contrast=never)
    assert len(played) == 3
    assert all(len(set(group)) > 1 for table in played for group in throws(table))


class Foreign(gym.vector.VectorWrapper):
    """A vector environment of others, that nothing can be asked of but reset and step."""

    @property
    def unwrapped(self) -> Any:
        return self


class Right(Scripted):
    def reply_queue(self) -> InTurn:
        return InTurn(self)


def test_a_policy_that_acts_alike_in_all_episodes_of_a_group_is_warned_of_once() -> None:
    with warnings.catch_warnings(record=True, action="always") as caught:
        given: Any = {"tasks": [{"index": 2}, {"index": 1}], "seed": 0}
        envs = disabled(2)
        collect(envs, Scripted("left", "right"), group_size=2, **given)
        collect(envs, Scripted("left", "right"), group_size=2, **given)
        assert len(caught) == 1
        collect(disabled(2), by_place("left", "right"), group_size=2, **given)
        collect(disabled(2), Scripted("left", "right"), group_size=1, **given)
        assert len(caught) == 1
        # Chance makes episodes of another length, and other states: the policy has no choice all the same.
        collect(stock(Coins, 2), same(), tasks=[{}], group_size=4, seed=0)
        assert len(caught) == 2
        collect_lanes([disabled(2), disabled(2)], Right("right"), tasks=[{"index": 2}], group_size=4, seed=0)
        assert len(caught) == 3
    assert all(warning.filename == __file__ for warning in caught)
    words = "Scripted acted alike in all episodes of a group, in each of 2 groups (the first: 'start-2')"
    assert words in str(caught[0].message)
