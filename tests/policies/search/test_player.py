from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import collect
from agentgym.rollout.groups import infos_of, observations_of
from agentgym.trajectory import Reply
from agentgym.vector import TextVectorEnv
from policies.scripted import RandomPolicy, tagged
from policies.search.methods import MCTS, Beam, BestOfN
from policies.search.player import SearchPlayer
from policies.search.simulator import Listed
from policies.search.tree import Budget, Value
from tests.corridor import CorridorEnv
from tests.policies.search.searching import make
from tests.refusals import refuses
from wrappers import VectorPromptWindow, VectorReplyParser, VectorSnapshots

TASKS = [{"index": start} for start in (1, 2, 3)]


class SlipperyEnv(CorridorEnv):
    """One step in ten goes the other way."""

    def act(self, command: str) -> tuple[float, bool, bool]:
        if command in ("left", "right") and self.np_random.random() < 0.1:
            command = {"left": "right", "right": "left"}[command]
        return super().act(command)


class SlipperyVectorEnv(TextVectorEnv):
    env_class = SlipperyEnv


def slippery(num_envs: int) -> Any:
    return VectorReplyParser(SlipperyVectorEnv(num_envs, max_episode_steps=20, autoreset_mode="Disabled"))


@pytest.mark.parametrize("method", [MCTS(), Beam(2, 2), BestOfN(20)])
def test_what_was_found_is_played(method) -> None:
    player = SearchPlayer(make(4), RandomPolicy(), method, budget=Budget(steps=200), listed=Listed(), keep=True)
    table = collect(VectorSnapshots(make(3)), player, tasks=TASKS, group_size=2, seed=0)
    assert table.trajectory_won.all()
    # Two waves of three episodes, numbered as they began; of the second wave the last is a filler that nobody plays.
    assert sorted(player.trees) == list(range(6))
    for number, trajectory in enumerate(table.to_trajectories()):
        (tree,) = player.trees[number]
        assert [step.reply for step in trajectory.steps] == [node.reply for node in tree.plan()]
        assert player.costs[number] == tree.cost


def test_seeds_and_forgetting() -> None:
    def played(seed: int) -> list[Any]:
        player = SearchPlayer(make(4), RandomPolicy(), BestOfN(3), budget=Budget(steps=20))
        return collect(VectorSnapshots(make(3)), player, tasks=TASKS, group_size=4, seed=seed).to_trajectories()

    assert played(0) == played(0)
    assert played(0) != played(1)
    player = SearchPlayer(make(4), RandomPolicy(), MCTS(), budget=Budget(steps=200), listed=Listed())
    for seed in range(2):
        table = collect(VectorSnapshots(make(3)), player, tasks=TASKS, group_size=2, seed=seed)
        assert table.trajectory_won.all()
        player.forget()
    assert not player.costs


def test_the_policy_plays_where_there_is_no_plan() -> None:
    player = SearchPlayer(make(2), RandomPolicy(), MCTS(), budget=Budget(steps=0))
    table = collect(VectorSnapshots(make(3)), player, tasks=TASKS, seed=3)
    alone = collect(make(3), RandomPolicy(), tasks=TASKS, seed=3)
    assert table.to_trajectories() == alone.to_trajectories()
    # One simulated step: the plan has one step, everything after it comes from the policy.
    player = SearchPlayer(make(1), RandomPolicy(), MCTS(), budget=Budget(steps=1), value=Value(rollout=0), keep=True)
    table = collect(VectorSnapshots(make(1)), player, tasks=[{"index": 2}], seed=0)
    assert len(player.trees[0][0].plan()) == 1
    assert len(table) > 1
    player = SearchPlayer(make(1), RandomPolicy(), MCTS(), budget=Budget(steps=5))
    refuses(KeyError, "VectorSnapshots", lambda: collect(make(1), player, tasks=TASKS, seed=0))


def test_in_a_world_of_chance_a_search_that_knows_the_numbers_always_keeps_its_word() -> None:
    player = SearchPlayer(slippery(4), RandomPolicy(), MCTS(), budget=Budget(steps=300), keep=True)
    table = collect(VectorSnapshots(slippery(4)), player, tasks=[{"index": 1}], group_size=16, seed=0)
    assert table.trajectory_won.all()
    assert all(len(trees) == 1 for trees in player.trees.values())


def test_with_fresh_numbers_it_searches_again_where_reality_goes_another_way_within_one_budget() -> None:
    budget = Budget(steps=120)
    player = SearchPlayer(
        slippery(4), RandomPolicy(), MCTS(), budget=budget, listed=Listed(), fresh=True, share=0.5, keep=True
    )
    table = collect(VectorSnapshots(slippery(4)), player, tasks=[{"index": 2}], group_size=16, seed=0)
    assert max(len(trees) for trees in player.trees.values()) > 1
    assert all(cost.steps <= 120 for cost in player.costs.values())
    alone = collect(slippery(4), RandomPolicy(), tasks=[{"index": 2}], group_size=16, seed=0)
    # Always right wins from the middle with probability .99, random play with one half.
    assert table.trajectory_won.mean() > alone.trajectory_won.mean() + 0.2


def test_it_plays_through_prompt_windows() -> None:
    def stack(count: int) -> Any:
        return VectorPromptWindow(make(count), history=2)

    player = SearchPlayer(stack(4), RandomPolicy(), MCTS(), budget=Budget(steps=100), listed=Listed(), keep=True)
    table = collect(VectorSnapshots(stack(3)), player, tasks=TASKS, seed=0)
    assert table.trajectory_won.all()
    root = player.trees[0][0].root
    assert "cell 1" in root.observation[-1]["content"]


def test_random_play_with_search_solves_sokoban() -> None:
    def boards(count: int) -> Any:
        return VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=count, autoreset_mode="Disabled"))

    player = SearchPlayer(
        boards(32), RandomPolicy(), MCTS(), budget=Budget(steps=1000), value=Value(rollout=0), listed=Listed()
    )
    tasks = [{"split": "test", "index": i} for i in range(32)]
    table = collect(VectorSnapshots(boards(32)), player, tasks=tasks, seed=0)
    assert table.trajectory_won.mean() >= 0.9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": Budget(tokens=5)}, "limit the budget's steps"),
        ({"budget": Budget(steps=5, tokens=5)}, "a budget of tokens cannot be kept"),
        ({"budget": Budget(steps=5), "share": 0.0}, "share"),
    ],
)
def test_a_search_that_could_not_end_is_refused(options, words) -> None:
    refuses(ValueError, words, lambda: SearchPlayer(make(1), RandomPolicy(), MCTS(), **options))


def test_forks_share_plans_and_budgets() -> None:
    envs = VectorSnapshots(make(2))
    player = SearchPlayer(make(2), RandomPolicy(), MCTS(), budget=Budget(steps=200))
    envs.reset(seed=0, options={"index": 2})
    observations, infos = envs.fork(0, [1])
    replies = player.act(observations, infos, np.random.default_rng(0))
    assert replies[0] == replies[1]
    assert list(player.costs) == [0]
    assert player.costs[0].steps <= 200
    envs = VectorSnapshots(make(2))
    player = SearchPlayer(make(2), Right(), BestOfN(1), budget=Budget(steps=10))
    envs.reset(seed=0, options={"index": 2})
    envs.fork(0, [1])
    observations, *_, infos = envs.step([tagged("left"), tagged("right")])
    assert infos["episode_number"].tolist() == [0, 0]
    playing = np.arange(2)
    while len(playing):
        replies = player.act(observations_of(observations, playing), infos_of(infos, playing), np.random.default_rng(0))
        actions = ["", ""]
        for i, reply in zip(playing.tolist(), replies, strict=True):
            actions[i] = reply.text
        observations, _, terminated, _, infos = envs.step(actions)
        # From 1 it is three steps to the right end, from 3 one: each is searched once, and then played as found.
        assert (player.costs[0].simulations, player.costs[0].steps) == (2, 4)
        playing = playing[~terminated[playing]]
    assert infos["won"].all()
    envs = VectorSnapshots(make(2))
    player = SearchPlayer(make(2), RandomPolicy(), BestOfN(1000), budget=Budget(steps=30), until_won=False)
    envs.reset(seed=0, options={"index": 2})
    observations, infos = envs.fork(0, [1])
    player.act(observations, infos, np.random.default_rng(0))
    assert player.costs[0].steps == 30


class Right:
    def act(self, observations, infos, rng):
        return [Reply(tagged("right")) for _ in observations]
