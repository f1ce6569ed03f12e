"""Rollouts of a learner: groups sampled again, and a second player."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agentgym.outside.dialogue import NONE, Act, Player, write
from agentgym.rollout import collect
from agentgym.sotopia.env import SotopiaEnv
from agentgym.sotopia.players import PLAYERS
from agentgym.trajectory import Reply, StepTable
from baselines.batch import make_batch
from baselines.play.dynamic_sampling import Sample, sample_groups
from baselines.play.rollouts import Timed, episodes_of, play_groups, steps_to_branch_at
from baselines.play.second_player import PolicyPartner
from baselines.recipes import RECIPES, recipe
from baselines.trainer import Trainer
from policies.scripted import RandomPolicy, tagged
from tests.baselines.corridor_learning import CONFIG, TASKS, babbling_policy, corridor, goes_on_exactly, trainer
from tests.cases import cases
from tests.playing import Scripted, filled
from tests.refusals import refuses
from wrappers.credit.dapo import contrasting_groups
from wrappers.credit.vine import vine
from wrappers.prompt import PromptWindow, VectorPromptWindow
from wrappers.reply import VectorReplyParser

FORKED = CONFIG.changed(rollout={"branches": 2, "branch_at": "every 2"})
COUNT = len(TASKS) * CONFIG.group_size


def test_without_branches_it_is_collect() -> None:
    table = play_groups(corridor(), babbling_policy(), TASKS, CONFIG, 5)
    expected = collect(corridor(), babbling_policy(), tasks=TASKS, group_size=CONFIG.group_size, seed=5)
    assert table.actions == expected.actions
    np.testing.assert_array_equal(table.action, expected.action)
    assert episodes_of(table, COUNT) is table
    plain = play_groups(corridor(), babbling_policy(), TASKS, CONFIG, 5).to_trajectories()
    forked = play_groups(corridor(), babbling_policy(), TASKS, FORKED, 5)
    assert forked.has_forks
    assert episodes_of(forked, COUNT).to_trajectories() == plain
    # Step 0 and every second step after it, two continuations of each; those of step 0 are episodes too.
    chosen = sum(-(-len(one.steps) // 2) for one in plain)
    assert forked.n_trajectories == len(plain) + 2 * chosen
    assert (forked.parent < 0).sum() == 3 * len(plain)
    forked = play_groups(corridor(), babbling_policy(), TASKS, FORKED, 5)
    scored = forked.keep(forked.trajectory_group > 0)
    expected = episodes_of(forked, COUNT)
    assert episodes_of(scored, COUNT).n_trajectories == (expected.trajectory_group > 0).sum()


@pytest.mark.parametrize("words", ["all", "every 3", "entropy 2", "random 2", "distinct"])
def test_every_selection_chooses_rows(words: str) -> None:
    table = play_groups(corridor(), babbling_policy(), TASKS, FORKED.changed(rollout={"branch_at": words}), 1)
    assert table.n_trajectories > 3 * CONFIG.group_size
    if words.endswith("2"):
        episodes = episodes_of(table, COUNT)
        assert table.n_trajectories == episodes.n_trajectories + 2 * np.minimum(np.diff(episodes.offsets), 2).sum()


@pytest.mark.parametrize("words", ["entrpy 2", "every", "every 0", "every -1", "random two", "every 2 3", ""])
def test_unknown_words_are_explained_before_anything_is_played(words: str) -> None:
    refuses(ValueError, r"unknown branch_at .*'every N', 'entropy N', 'random N'", steps_to_branch_at, words)
    with pytest.raises(ValueError, match="unknown branch_at"):
        Trainer(babbling_policy(), corridor(), recipe("vine"), TASKS, FORKED.changed(rollout={"branch_at": words}))


def test_time_and_tokens_of_both_ways_of_asking_are_counted() -> None:
    policy = Timed(Scripted(Reply("left", (1,), (2, 3), (0.0, 0.0))))
    policy.act(["a"], {}, np.random.default_rng(0))
    policy.act_each(["a", "b"], {}, [np.random.default_rng(0)] * 2)
    assert policy.tokens == 6


def test_what_is_only_estimated_from_is_not_trained_on() -> None:
    table = play_groups(corridor(), babbling_policy(), TASKS, FORKED, 0)
    assert len(make_batch(table, vine(table), merge=False)) == (table.parent[table.trajectory] < 0).sum() < len(table)


NAMES: list[Mapping[str, Any]] = [{"index": i} for i in range(100)]


def play(tasks: Sequence[Mapping[str, Any]], seed: int) -> StepTable:
    """Two episodes of two steps per task; those of even tasks differ in success."""
    names = [f"task {task['index']}" for task in tasks for _ in range(4)]
    number = np.repeat(np.arange(2 * len(tasks)), 2)
    won = [episode == 0 and task["index"] % 2 == 0 for task in tasks for episode in (0, 0, 1, 1)]
    # A task listed twice is two groups, as in agentgym.rollout.collect.
    names = [f"{name} ({i // 4})" for i, name in enumerate(names)]
    return filled(group=names, trajectory=number, t=[0, 1] * (2 * len(tasks)), won=won)


def numbers(sample: Sample) -> list[int]:
    return [int(str(name).split()[1]) for name in sample.table.groups]


def test_draws_without_rounds() -> None:
    found = sample_groups(play, NAMES, 8, np.random.default_rng(0))
    assert found.table is found.first
    assert (found.played, found.resampled, found.flat) == (32, 0, 0)
    draws = [numbers(sample_groups(play, NAMES, 8, np.random.default_rng(s), rounds=9)) for s in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    found = sample_groups(play, NAMES[:3], 3, np.random.default_rng(0), rounds=5)
    assert found.table.n_groups == 3
    assert np.bincount(found.table.trajectory_group).tolist() == [2, 2, 2]
    assert found.flat == 0
    odd = [task for task in NAMES if task["index"] % 2]
    found = sample_groups(play, odd, 4, np.random.default_rng(0), rounds=2)
    assert found.table.n_groups == 4
    assert (found.resampled, found.flat) == (8, 4)
    assert found.table.groups == found.first.groups  # drawn first, kept first


def test_groups_are_replaced_to_the_same_size() -> None:
    for seed in range(20):
        found = sample_groups(play, NAMES, 8, np.random.default_rng(seed), rounds=10)
        assert (found.table.n_groups, found.first.n_groups) == (8, 8)
        assert contrasting_groups(found.table).all()
        assert np.bincount(found.table.trajectory_group).tolist() == [2] * 8
        assert len(set(numbers(found))) == 8  # no task twice while there are others
        assert (found.flat, found.played) == (0, 4 * (8 + found.resampled))
        # Those of the first round that have contrast come first, in order.
        kept = [name for name, good in zip(found.first.groups, contrasting_groups(found.first), strict=True) if good]
        assert list(found.table.groups[: len(kept)]) == kept
        assert all("round" in str(name) for name in found.table.groups[len(kept) :])

    def forked(tasks: Sequence[Mapping[str, Any]], seed: int) -> StepTable:
        episodes = play(tasks, seed).to_trajectories()
        for i in range(1, len(episodes), 2):  # the second episode of each task, from the first step of the first one
            steps = (dataclasses.replace(episodes[i].steps[0], t=1),)
            episodes[i] = dataclasses.replace(episodes[i], steps=steps, parent=(episodes[i - 1].trajectory, 0))
        return StepTable.from_trajectories(episodes)

    table = sample_groups(forked, NAMES, 8, np.random.default_rng(0), rounds=10).table
    assert table.parent.tolist() == [-1 if i % 2 == 0 else 3 * (i // 2) for i in range(16)]
    # Three of four are flat at first; the next round plays 4 tasks for 3 places, and all have contrast.
    calls: list[int] = []

    def scripted(tasks: Sequence[Mapping[str, Any]], seed: int) -> StepTable:
        evens = [{"index": 2 * i} for i in range(len(tasks))]
        first = [{"index": 1}, {"index": 3}, {"index": 5}, {"index": 0}]
        calls.append(len(tasks))
        return play(first if len(calls) == 1 else evens, seed)

    found = sample_groups(scripted, NAMES, 4, np.random.default_rng(0), rounds=3)
    assert calls == [4, 4]
    assert list(found.table.groups) == ["task 0 (3)", *(f"task {2 * i} ({i}), round 1" for i in range(3))]
    assert (found.resampled, found.flat) == (4, 0)
    # 6 of 8 have contrast: for 2 missing at a share of 3/4, three more (2 * 8 / 6 = 2.7) are played.
    calls: list[int] = []

    def scripted(tasks: Sequence[Mapping[str, Any]], seed: int) -> StepTable:
        calls.append(len(tasks))
        return play([{"index": 1}, {"index": 3}, *({"index": 2 * i} for i in range(len(tasks)))][: len(tasks)], seed)

    found = sample_groups(scripted, NAMES, 8, np.random.default_rng(0), rounds=2)
    assert calls == [8, 3, 2]  # then one of three has contrast; 1 is missing at a share of 7/11
    assert (found.table.n_groups, found.flat) == (8, 1)


def test_the_trainer_reports_the_first_round_and_repeats_itself(tmp_path: Any) -> None:
    config: dict[str, Any] = {"credit": RECIPES["dapo"], "groups": 4, "group_size": 3}
    plain = trainer(**config, iterations=1).run()
    expected = goes_on_exactly(tmp_path, 2, **config, iterations=5, rollout={"resample_rounds": 4})
    for key in ("success", "mean_return", "episode_length", "invalid_rate"):
        assert expected[1][key] == plain[1][key]
    assert "groups_flat" not in plain[1]
    assert sum(row["groups_resampled"] for row in expected[1:]) > 0
    assert all(row["groups_flat"] <= 4 for row in expected[1:])


COMMANDS = [write(Act("speak", "Hello – <b>you</b>.")), write(NONE), "no command", write(Act("action", "nods"))]


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("order", ["round-robin", "simultaneous"])
@cases(
    "style",
    {"history": None},
    {"history": 2, "keep_first": True, "admissible": True},
    {"history": 0, "instructions": False},
    {"history": 3, "shown": "actions", "instructions": "Talk.", "max_chars": 900},
)
def test_a_policy_sees_as_the_partner_what_it_would_see_as_the_agent(role, order, style) -> None:
    env = SotopiaEnv(partner="fair", role=role, order=order, max_turns=12)
    window = PromptWindow(env, **style)
    messages, info = window.reset(seed=3, options={"split": "test", "index": 4})
    partner = PolicyPartner(Scripted(""), order=order, **style)
    for step in range(4):
        if info["ended"]:  # nobody is asked any more
            break
        assert partner.messages(env.world.view(role)) == messages
        messages, _, _, _, info = window.step(write(Act("speak", f"{step} <i>hm</i>")) if step != 1 else write(NONE))
    assert step >= 1


def test_replies_are_read_as_the_agents_are() -> None:
    env = SotopiaEnv(role=0, max_turns=6)
    env.reset(seed=0, options={"split": "test", "index": 0})
    env.world.play((Act("speak", "Hi."), NONE))
    view = env.world.view(1)
    replies = [tagged(write(Act("speak", "a"))), f"<think>x</think>{tagged(write(Act('leave')))}", write(NONE), "", "<"]
    partner = PolicyPartner(Scripted(*replies, by="place"))
    assert isinstance(partner, Player)
    assert partner.act([view] * 5) == [Act("speak", "a"), Act("leave"), NONE, NONE, NONE]
    assert partner.act([]) == []
    assert PolicyPartner(Scripted(replies[0]), reply={"require_think": True}).act([view]) == [NONE]


def test_one_policy_plays_both_sides_and_repeats() -> None:
    policy = Scripted(*[tagged(command) for command in COMMANDS], by="place")
    envs: Any = gym.make_vec(
        "AgentRL/SOTOPIA-v0", num_envs=4, partner=PolicyPartner(policy, history=4), max_turns=6,
        autoreset_mode="Disabled",
    )  # fmt: skip
    envs = VectorPromptWindow(VectorReplyParser(envs), history=4)
    table = collect(envs, policy, tasks=[{"split": "train", "index": 0}], group_size=4, seed=1)
    assert table.n_trajectories == 4
    assert len({messages[0]["content"] for step in policy.seen for messages in step}) == 1

    def play() -> list[str]:
        partner = PolicyPartner(RandomPolicy(), seed=5)
        envs: Any = gym.make_vec("AgentRL/SOTOPIA-v0", num_envs=3, partner=partner, autoreset_mode="Disabled")
        table = collect(VectorReplyParser(envs), RandomPolicy(), tasks=[{}] * 6, seed=1)
        return [str(table.states[i]) for i in table.next_state]

    assert play() == play()
    assert len(set(play())) > 6
    refuses(ValueError, "several must be", lambda: PolicyPartner(Scripted(""), reply={"several": "all"}))
    refuses(ValueError, "history", lambda: PolicyPartner(Scripted(""), history=-1))
    refuses(ValueError, "order", lambda: PolicyPartner(Scripted(""), order="chaos"))
    assert "fair" in PLAYERS
