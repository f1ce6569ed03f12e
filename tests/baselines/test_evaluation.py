"""evaluate: outcomes per task, in the order of the tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agentgym.trajectory import Reply
from baselines.evaluation import Evaluation, at_temperature, evaluate
from tests.baselines.corridor_learning import TASKS, babbling_policy, corridor
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import Scripted, filled
from tests.refusals import refuses


class RightPolicy:
    """Jumps once from cell 1, which is not a command, then walks right."""

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        first = [key == "1" and score == 0.25 for key, score in zip(infos["state_key"], infos["score"], strict=True)]
        self.jumped = getattr(self, "jumped", 0)
        words = []
        for begins in first:
            jump = begins and self.jumped < 2
            self.jumped += jump
            words.append("jump" if jump else "right")
        return [Reply(f"<action>{word}</action>") for word in words]


def test_outcomes_per_task_in_waves_of_any_width() -> None:
    # From cell 3 one step right wins, from cell 1 three; both episodes from cell 1 jump once (-0.5) before.
    found = evaluate(corridor(4), RightPolicy(), [{"index": 3}, {"index": 1}], seed=0, repeats=2)
    assert (found.success.tolist(), found.returns.tolist()) == ([[True, True], [True, True]], [[1.0, 1.0], [0.5, 0.5]])
    assert (found.lengths.tolist(), found.invalid.tolist()) == ([[1, 1], [4, 4]], [[0, 0], [1, 1]])
    assert repr(found) == "Evaluation(2 tasks x 2: 100.0% won, 20.0% of actions refused, return 0.75, 2.5 steps)"
    assert found.summary() == {"success": 1.0, "mean_return": 0.75, "episode_length": 2.5, "invalid_rate": 0.2}
    lengths = [evaluate(corridor(places), RightPolicy(), TASKS[1:], seed=0).lengths.tolist() for places in (1, 5)]
    assert lengths == [[[2], [1]], [[2], [1]]]
    # Places 3 do not divide 3 tasks x 2 episodes; the wave that is filled up must not add entries.
    for places in (1, 4, 3):
        tasks = [{"index": 3}, {"index": 1}, {"index": 2}]
        found = evaluate(corridor(places), RightPolicy(), tasks, seed=0, repeats=2, columns=("score", "task_id"))
        assert found.columns["score"].tolist() == [0.75, 0.25, 0.5]
        assert found.columns["task_id"].tolist() == ["start-3", "start-1", "start-2"]
        assert {score: won.tolist() for score, won in found.success_by("score").items()} == {
            0.25: [[True, True]], 0.5: [[True, True]], 0.75: [[True, True]],
        }  # fmt: skip
    with pytest.raises(KeyError, match="infos have no 'task_type'"):
        evaluate(corridor(2), RightPolicy(), TASKS, seed=0, columns=("task_type",))
    with pytest.raises(KeyError, match="no column 'score'"):
        evaluate(corridor(2), RightPolicy(), TASKS, seed=0).success_by("score")


def test_greedy_policies_and_unequal_groups() -> None:
    policy = babbling_policy()
    greedy = evaluate(corridor(), policy, TASKS, seed=0, temperature=0.0, repeats=5)
    assert (greedy.lengths == greedy.lengths[:, :1]).all()
    drawn = evaluate(corridor(), policy, TASKS, seed=0, repeats=5)
    assert (drawn.lengths != drawn.lengths[:, :1]).any()
    assert np.array_equal(drawn.lengths, evaluate(corridor(), policy, TASKS, seed=0, repeats=5).lengths)
    assert policy.settings.temperature == 1.0
    assert isinstance(at_temperature(RightPolicy(), None), RightPolicy)
    with pytest.raises(TypeError, match="RightPolicy has no temperature"):
        evaluate(corridor(), RightPolicy(), TASKS, seed=0, temperature=0.5)
    table = filled(group=["a", "a", "b"], trajectory=[0, 1, 2])
    refuses(ValueError, r"one size, got sizes \[1, 2\]", Evaluation.from_table, table)
    with pytest.warns(RuntimeWarning, match="^CorridorVectorEnv.* refused every action"):
        evaluate(CorridorVectorEnv(1, max_episode_steps=2, autoreset_mode="Disabled"), RightPolicy(), TASKS[:1], seed=0)


def test_gymnasiums_vector_environment_and_a_single_one_are_played_as_ours() -> None:
    for envs in (SyncVectorEnv([CorridorEnv] * 4, autoreset_mode=AutoresetMode.DISABLED), CorridorEnv()):
        found = evaluate(envs, Scripted("right"), TASKS, seed=0, repeats=2, columns=("task_id",))
        assert found.lengths.tolist() == [[3, 3], [2, 2], [1, 1]]
        assert found.columns["task_id"].tolist() == ["start-1", "start-2", "start-3"]
