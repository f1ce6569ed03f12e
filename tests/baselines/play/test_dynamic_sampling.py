"""Dynamic sampling: the batch keeps its size, the choice is repeatable, and the learning curve is not filtered."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from baselines.play.dynamic_sampling import Sample, sample_groups
from baselines.recipes import RECIPES
from tests.baselines.corridor_learning import babbling_policy
from tests.baselines.test_trainer import digest, repeatable, trainer
from wrappers.credit.dapo import contrasting_groups

NAMES: list[Mapping[str, Any]] = [{"index": i} for i in range(100)]


def play(tasks: Sequence[Mapping[str, Any]], seed: int) -> StepTable:
    """Two episodes of two steps per task; those of even tasks differ in success."""
    names = [f"task {task['index']}" for task in tasks for _ in range(4)]
    number = np.repeat(np.arange(2 * len(tasks)), 2)
    won = [episode == 0 and task["index"] % 2 == 0 for task in tasks for episode in (0, 0, 1, 1)]
    # A task listed twice is two groups, as in agentgym.rollout.collect.
    names = [f"{name} ({i // 4})" for i, name in enumerate(names)]
    return StepTable.from_arrays(
        group=names, trajectory=number, t=[0, 1] * (2 * len(tasks)), state=[0] * len(names), action=[0] * len(names),
        next_state=[0] * len(names), reward=np.zeros(len(names)), won=won,
    )  # fmt: skip


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
        assert found.table.n_groups == 8
        assert found.first.n_groups == 8
        assert contrasting_groups(found.table).all()
        assert np.bincount(found.table.trajectory_group).tolist() == [2] * 8
        assert len(set(numbers(found))) == 8  # no task twice while there are others
        assert found.flat == 0
        assert found.played == 4 * (8 + found.resampled)
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
    dapo = RECIPES["dapo"]
    config: dict[str, Any] = {
        "credit": dapo, "rollout.resample_rounds": 4, "groups": 4, "group_size": 3, "iterations": 5,
    }  # fmt: skip
    plain = trainer(**{**config, "rollout.resample_rounds": 0, "iterations": 1}).run()
    straight = babbling_policy()
    expected = trainer(straight, folder=tmp_path / "a", **config).run()
    for key in ("success", "mean_return", "episode_length", "invalid_rate"):
        assert expected[1][key] == plain[1][key]
    assert "groups_flat" not in plain[1]
    assert sum(row["groups_resampled"] for row in expected[1:]) > 0
    assert all(row["groups_flat"] <= 4 for row in expected[1:])

    trainer(babbling_policy(), folder=tmp_path / "b", **{**config, "iterations": 2}).run()
    resumed = babbling_policy()
    rows = trainer(resumed, folder=tmp_path / "b", resume=True, **config).run()
    assert digest(resumed) == digest(straight)
    assert repeatable(rows) == repeatable(expected)


def test_resampling_is_part_of_what_a_run_is(tmp_path: Any) -> None:
    trainer(folder=tmp_path, iterations=1).run()
    with pytest.raises(ValueError, match=r"config\.rollout\.resample_rounds: checkpoint absent, here 2"):
        trainer(folder=tmp_path, iterations=1, resume=True, rollout={"resample_rounds": 2})


def test_more_of_the_batch_has_something_to_say() -> None:
    signal = {}
    for rounds in (0, 4):
        rows = trainer(
            credit=RECIPES["dapo"], iterations=10, group_size=8, rollout={"resample_rounds": rounds}, loss={"kl": 0.0}
        ).run()
        signal[rounds] = np.mean([row["signal"] for row in rows[1:]])
    assert signal[4] > signal[0] + 0.1
