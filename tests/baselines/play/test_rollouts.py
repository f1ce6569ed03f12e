"""What a trainer learns from: episodes, continuations, and what of them says how the policy plays."""

import numpy as np
import pytest

from agentgym.rollout import collect
from agentgym.trajectory import Reply
from baselines.batch import make_batch
from baselines.play.rollouts import Timed, episodes_of, play_groups, steps_to_branch_at
from baselines.recipes import recipe
from baselines.trainer import Trainer
from tests.baselines.corridor_learning import CONFIG, TASKS, babbling_policy, corridor
from tests.refusals import refuses
from wrappers.credit.vine import vine

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
        most = np.minimum(np.diff(episodes.offsets), 2).sum()
        assert table.n_trajectories == episodes.n_trajectories + 2 * most


@pytest.mark.parametrize("words", ["entrpy 2", "every", "every 0", "every -1", "random two", "every 2 3", ""])
def test_unknown_words_are_explained_before_anything_is_played(words: str) -> None:
    refuses(ValueError, r"unknown branch_at .*'every N', 'entropy N', 'random N'", steps_to_branch_at, words)
    with pytest.raises(ValueError, match="unknown branch_at"):
        Trainer(babbling_policy(), corridor(), recipe("vine"), TASKS, FORKED.changed(rollout={"branch_at": words}))


def test_time_and_tokens_of_both_ways_of_asking_are_counted() -> None:
    class Two:
        def act(self, observations, infos, rng):
            return [Reply("left", (1,), (2, 3), (0.0, 0.0))] * len(observations)

    policy = Timed(Two())
    policy.act(["a"], {}, np.random.default_rng(0))
    policy.act_each(["a", "b"], {}, [np.random.default_rng(0)] * 2)
    assert policy.tokens == 6


@pytest.mark.parametrize("name", ["vine", "bpo", "tree_grpo"])
def test_a_recipe_with_branches_collects_trains_and_reports_its_episodes(name: str) -> None:
    method = recipe(name)
    config = method.configure(CONFIG.changed(iterations=2, validation={"every": 0}))
    seen = []

    def look(trainer, table, row):
        if table is not None:
            seen.append((table, trainer.advantages))

    rows = Trainer(babbling_policy(), corridor(), method, TASKS, config).run(look)
    assert len(rows) == 3
    for (table, advantages), row in zip(seen, rows[1:], strict=True):
        assert table.has_forks
        assert np.array_equal(np.isfinite(advantages), (table.parent[table.trajectory] < 0) | (name != "vine"))
        assert row["success"] == episodes_of(table, config.groups * config.group_size).trajectory_won.mean()
        assert row["steps"] == len(table)
        assert np.nan_to_num(advantages).any()


def test_what_is_only_estimated_from_is_not_trained_on() -> None:
    table = play_groups(corridor(), babbling_policy(), TASKS, FORKED, 0)
    batch = make_batch(table, vine(table), merge=False)
    assert len(batch) == (table.parent[table.trajectory] < 0).sum() < len(table)
