"""Players that search, and the simulators that they search in."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.rollout import collect
from agentgym.rollout.groups import infos_of, observations_of
from agentgym.trajectory import Reply
from policies.scripted import RandomPolicy, tagged
from policies.search.lessons import to_table
from policies.search.methods import MCTS, Beam, BestOfN
from policies.search.player import SearchPlayer
from policies.search.simulator import Listed, Simulator
from policies.search.tree import Budget, Value
from tests.cases import cases
from tests.corridor import CorridorEnv
from tests.playing import Scripted, objects, of
from tests.policies.search.test_search import Priors, make, saying, search
from tests.refusals import refuses
from wrappers import VectorPromptWindow, VectorReplyParser, VectorSnapshots

TASKS = [{"index": start} for start in (1, 2, 3)]


class SlipperyEnv(CorridorEnv):
    """One step in ten goes the other way."""

    def act(self, command: str) -> tuple[float, bool, bool]:
        if command in ("left", "right") and self.np_random.random() < 0.1:
            command = {"left": "right", "right": "left"}[command]
        return super().act(command)


def slippery(num_envs: int) -> Any:
    return VectorReplyParser(of(SlipperyEnv, num_envs, max_episode_steps=20))


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
        assert collect(VectorSnapshots(make(3)), player, tasks=TASKS, group_size=2, seed=seed).trajectory_won.all()
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


def test_in_a_world_of_chance_who_knows_the_numbers_keeps_its_word_and_others_search_again() -> None:
    player = SearchPlayer(slippery(4), RandomPolicy(), MCTS(), budget=Budget(steps=300), keep=True)
    table = collect(VectorSnapshots(slippery(4)), player, tasks=[{"index": 1}], group_size=16, seed=0)
    assert table.trajectory_won.all()
    assert all(len(trees) == 1 for trees in player.trees.values())
    # With fresh numbers it searches again where reality goes another way, within one budget.
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
    assert collect(VectorSnapshots(stack(3)), player, tasks=TASKS, seed=0).trajectory_won.all()
    assert "cell 1" in player.trees[0][0].root.observation[-1]["content"]


@cases(
    "options, words",
    ({"budget": Budget(tokens=5)}, "limit the budget's steps"),
    ({"budget": Budget(steps=5, tokens=5)}, "a budget of tokens cannot be kept"),
    ({"budget": Budget(steps=5), "share": 0.0}, "share"),
)
def test_a_search_that_could_not_end_is_refused(options, words) -> None:
    refuses(ValueError, words, lambda: SearchPlayer(make(1), RandomPolicy(), MCTS(), **options))


def test_forks_share_plans_and_budgets() -> None:
    def forked():
        envs = VectorSnapshots(make(2))
        envs.reset(seed=0, options={"index": 2})
        return envs, *envs.fork(0, [1])

    player = SearchPlayer(make(2), RandomPolicy(), MCTS(), budget=Budget(steps=200))
    replies = player.act(*forked()[1:], np.random.default_rng(0))
    assert replies[0] == replies[1]
    assert list(player.costs) == [0]
    assert player.costs[0].steps <= 200
    player = SearchPlayer(make(2), RandomPolicy(), BestOfN(1000), budget=Budget(steps=30), until_won=False)
    player.act(*forked()[1:], np.random.default_rng(0))
    assert player.costs[0].steps == 30
    player = SearchPlayer(make(2), saying("right"), BestOfN(1), budget=Budget(steps=10))
    envs, *_ = forked()
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


class Writer:
    """Walks at random in replies of one to three tokens."""

    class settings:  # noqa: N801  # as of a language model
        max_new_tokens = 3

    def act(self, observations, infos, rng):
        sides = [("left", "right")[side] for side in rng.integers(2, size=len(observations))]
        lengths = rng.integers(1, 4, size=len(observations)).tolist()
        return [Reply(tagged(side), token_ids=(7,) * n) for side, n in zip(sides, lengths, strict=True)]


@given(
    method=st.sampled_from([MCTS(), MCTS(), Beam(2, 2), BestOfN(50)]),
    policy=st.sampled_from([RandomPolicy(), Writer()]),
    steps=st.one_of(st.none(), st.integers(0, 60)),
    tokens=st.integers(0, 60),
    rollout=st.sampled_from([None, 0, 2]),
    num_envs=st.integers(1, 9),
    trees=st.integers(1, 5),
    listed=st.sampled_from([None, Listed()]),
    seed=st.integers(0, 5),
    until_won=st.booleans(),
)
def test_whatever_it_is_told_budgets_hold_counts_add_up_and_it_repeats_itself(
    method, policy, steps, tokens, rollout, **arguments
) -> None:
    of_tokens = isinstance(policy, Writer) or steps is None
    budget = Budget(steps=steps, tokens=tokens if of_tokens else None)
    arguments |= {"budget": budget, "policy": policy, "value": Value(rollout=rollout), "limit": 6}
    found, again = search(method, **arguments), search(method, **arguments)
    assert [counts(tree) for tree in found] == [counts(tree) for tree in again]
    for tree in found:
        assert not of_tokens or tree.cost.tokens <= tokens
        assert steps is None or tree.cost.steps <= steps
        assert tree.cost.simulations == len(tree.ends)
        for node in tree.root.walk():
            assert node.pending == 0
            assert node.visits >= sum(child.visits for child in node.children)
            assert node.ended or node.state is not None
        if arguments["until_won"] and tree.best.won:
            assert tree.best.path[-1].key == "4"
        if tree.cost.steps:
            assert len(to_table([tree])) == tree.cost.steps


def counts(tree):
    return [(node.key, node.visits, node.total) for node in tree.root.walk()]


def test_a_budget_is_used_up_where_the_search_could_go_on() -> None:
    (tree,) = search(BestOfN(1000), num_envs=4, budget=Budget(steps=57))
    assert tree.cost.steps == 57
    (tree,) = search(BestOfN(1000), num_envs=4, budget=Budget(tokens=57), policy=Writer())
    assert 57 - 3 < tree.cost.tokens <= 57


@pytest.mark.parametrize("listed", [None, Priors(0.6)])
@pytest.mark.parametrize("num_envs", [2, 9])
def test_one_simulation_at_a_time_is_as_if_each_tree_were_alone(num_envs, listed) -> None:
    options = {"budget": Budget(steps=30), "listed": listed, "under_way": 1}
    (alone,) = search(MCTS(), **options)
    for tree in search(MCTS(), trees=5, num_envs=num_envs, **options):
        assert counts(tree) == counts(alone)


def test_simulations_of_a_simulator_that_was_used_before_are_the_same() -> None:
    played = make(2)
    played.reset(seed=0, options={"index": 2})
    states = [played.snapshot(0), played.snapshot(1)]
    simulator = Simulator(make(3), RandomPolicy(), value=Value(), listed=Listed())

    def plant(root, task):
        return MCTS().tree(root, task, Value(), Budget(steps=20), np.random.default_rng(1))

    first, second = (simulator.run(states, plant, until_won=False) for _ in range(2))
    assert [[end.key for end in tree.ends] for tree in first] == [[end.key for end in tree.ends] for tree in second]


def test_where_some_states_list_their_replies_and_others_do_not_each_gets_its_own() -> None:
    for tree in search(MCTS(), trees=3, num_envs=7, budget=Budget(steps=60), listed=Priors(0.5, cells="13")):
        for node in tree.root.walk():
            merged = node.closed and not node.visits
            assert (node.untried is not None) == (node.key in "13" and not node.ended and not merged)


def test_prompts_and_environments_that_cannot() -> None:
    right, none = Reply(tagged("right")), Reply("", finish="prompt-too-long")
    (tree,) = search(BestOfN(1), start=1, policy=Scripted(right, right, none, by="reply"))
    assert [(end.key, end.t, end.ended) for end in tree.ends] == [("3", 2, False)]
    (tree,) = search(MCTS(draws=2), start=3, policy=Scripted(none))
    assert (tree.cost.steps, tree.root.closed) == (0, True)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")])
    refuses(TypeError, "snapshot", lambda: Simulator(envs, RandomPolicy(), value=Value()))
    refuses(KeyError, "leave the list out", lambda: Listed().replies(["board"], {"won": np.array([False])}))
    infos = {"admissible_actions": objects((), ("up", "down", "left"))}
    replies, priors, tokens = Listed().replies(["board"] * 2, infos)
    assert (replies[0], priors[0]) == ([], [])
    assert (len(replies[1]), priors[1], tokens) == (3, [1 / 3] * 3, [0, 0])


def test_a_policys_probabilities_are_shared_among_the_listed_commands() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from policies.tiny import tiny_policy

    policy = tiny_policy(["a b", "c"], seed=0, extra_words=["up", "down", "left"], width=16, layers=1, heads=2)
    boards, infos = ["a b", "c", "a"], {"admissible_actions": objects(("up", "down"), ("left",), ())}
    replies, priors, tokens = Listed(policy).replies(boards, infos)
    assert [[reply.text for reply in each] for each in replies] == [
        [tagged("up"), tagged("down")], [tagged("left")], [],
    ]  # fmt: skip
    assert priors[1:] == [[1.0], []]
    first, second = (policy.score([reply.prompt_ids], [reply.token_ids]).logprobs.sum() for reply in replies[0])
    odds = torch.exp(first - second).item()
    assert priors[0] == pytest.approx([odds / (1 + odds), 1 / (1 + odds)], rel=1e-5)
    assert tokens == [sum(len(reply.token_ids) for reply in each) for each in replies]
    assert all(reply.prompt_ids for each in replies for reply in each)
