"""Episodes for a trainer: outcomes of its tasks in their order, and those of the next iteration, beside an update."""

import copy
import dataclasses
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agentgym.trajectory import Reply, StepTable
from baselines.evaluation import Evaluation, at_temperature, evaluate
from baselines.experience import beside
from baselines.play.rollouts import Timed, play_groups
from baselines.recipes import RECIPES
from baselines.records.metrics import Row
from baselines.scorers.scorer import ScorerConfig
from baselines.trainer import Trainer
from tests.baselines import corridor_learning
from tests.baselines.corridor_learning import (
    CONFIG,
    TASKS,
    babbling_policy,
    corridor,
    digest,
    goes_on_exactly,
    repeatable,
)
from tests.cases import cases
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


def test_greedy_policies_unequal_groups_and_environments_of_gymnasium() -> None:
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
    for envs in (SyncVectorEnv([CorridorEnv] * 4, autoreset_mode=AutoresetMode.DISABLED), CorridorEnv()):
        found = evaluate(envs, Scripted("right"), TASKS, seed=0, repeats=2, columns=("task_id",))
        assert found.lengths.tolist() == [[3, 3], [2, 2], [1, 1]]
        assert found.columns["task_id"].tolist() == ["start-1", "start-2", "start-3"]


PLAIN: dict[str, Any] = {"validation.every": 0, "credit": RECIPES["grpo"]}
trainer = partial(corridor_learning.trainer, **PLAIN)
STALE: dict[str, Any] = {
    "rollout.staleness": 1, "loss.old_logprobs": "recompute", "loss.tis": 1.5, "loss.kl": 0.0, "iterations": 4,
}  # fmt: skip


@pytest.mark.parametrize("age", [1, 3])
def test_every_batch_is_as_many_updates_old_as_was_asked_and_weighted_for_it(age: int) -> None:
    policy = babbling_policy()
    weights, tables, rows, advantages = [copy.deepcopy(policy.model.state_dict())], [], [], []

    def note(run: Trainer, table: StepTable | None, row: Row) -> None:
        if table is not None and run.advantages is not None:
            weights.append(copy.deepcopy(run.policy.model.state_dict()))
            tables.append(table)
            rows.append(row)
            advantages.append(run.advantages)

    changes = {**STALE, "iterations": age + 2, "rollout.staleness": age}
    trainer(policy, optimiser={"minibatch_rows": 1000}, **changes).run(note)
    reader = babbling_policy()
    for number, (table, row, given) in enumerate(zip(tables, rows, advantages, strict=True)):

        def logprobs(of: int, table: StepTable = table) -> np.ndarray[Any, np.dtype[np.float64]]:
            reader.model.load_state_dict(weights[of])
            with torch.no_grad():
                found = reader.score([r.prompt_ids for r in table.replies], [r.token_ids for r in table.replies])
            return found.logprobs[:, 0].double().numpy()

        # At age 1, batches 0, 1 and 2 are written by the weights after 0, 0 and 1 updates.
        writer = max(number - age, 0)
        written = np.array([reply.logprobs[0] for reply in table.replies])
        np.testing.assert_allclose(written, logprobs(writer), atol=1e-5)
        # One update with the ratio at 1: the loss is minus the mean of min(pi / mu, 1.5) A over the steps.
        trust = np.minimum(np.exp(logprobs(number) - written), 1.5)
        assert row["policy_loss"] == pytest.approx(-float((trust * given).mean()), abs=1e-5)
        assert row["tis_weight"] == pytest.approx(float(trust.mean()), abs=1e-5)
        assert (row["mismatch_mean"] > 1e-3) == (number > 0)
        assert row["seconds_waiting"] >= 0


def four_lanes() -> Any:
    return [corridor(3) for _ in range(4)]


@cases(
    "resample_rounds, age, envs", (0, 1, corridor), (2, 1, corridor), (0, 2, corridor), (0, 2, four_lanes),
    (0, 4, four_lanes),
)  # fmt: skip
def test_a_resumed_run_is_one_that_was_never_interrupted(
    tmp_path: Path, resample_rounds: int, age: int, envs: Any
) -> None:
    settings = {**STALE, "rollout.resample_rounds": resample_rounds, "rollout.staleness": age}
    for stop in (1, 2):

        def look(parts: Path, stop: int = stop) -> None:
            saved = sorted(parts.glob("checkpoint-*/experience*.json"))
            ahead = [f"experience-{i}.json" for i in range(1, min(age, 4 - stop))]
            assert [each.name for each in saved] == [*ahead, "experience.json"]
            assert {each.parent.name for each in saved} == {f"checkpoint-{stop:06d}"}

        rows = goes_on_exactly(tmp_path, stop, envs, look, **PLAIN, **settings)
        assert min(rows[-1]["tokens"], rows[-1]["seconds_generation"]) > 0
    # The last iteration has none after it.
    assert not list((tmp_path / "straight 1").glob("checkpoint-000004/experience*"))
    with pytest.raises(ValueError, match=r"config\.rollout\.staleness: checkpoint [124], here absent"):
        trainer(folder=tmp_path / "stopped at 1", resume=True, **{**settings, "rollout.staleness": 0})


def test_nothing_is_played_past_the_end_of_a_budget_or_a_failed_update() -> None:
    run = trainer(**STALE, token_budget=1)
    assert [row["iteration"] for row in run.run()] == [0, 1]
    assert not run._ahead

    def credit(table: StepTable) -> Any:
        raise FloatingPointError("it diverged")

    refuses(FloatingPointError, "it diverged", lambda: trainer(credit=credit, **STALE).run())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("experience")]
    reached = threading.Event()

    def forever(check: Any) -> None:
        while True:
            check(0)
            reached.set()

    def fail() -> None:
        with beside(forever):
            reached.wait(60)
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()


def test_what_cannot_play_while_it_is_trained_is_refused() -> None:
    with pytest.raises(ValueError, match="staleness must be 0 unless a correction makes up for older weights"):
        CONFIG.changed(rollout={"staleness": 1})
    with pytest.raises(ValueError, match=r"unknown Rollout\.staleness 5; known: '0', '1'"):
        dataclasses.replace(CONFIG, **{**STALE, "rollout.staleness": 5})

    class Asks(ScorerConfig):
        def make_in(self, policy: Any, envs: Any) -> Any:
            return None

    def credit(table: StepTable) -> Any:
        return np.zeros(len(table))

    credit.scorer = Asks()  # type: ignore[attr-defined]
    refuses(ValueError, "Asks asks the environments, which play meanwhile", trainer, credit=credit, **STALE)
    policy = babbling_policy()
    envs = corridor(2)
    for env in envs.unwrapped.envs:  # type: ignore[attr-defined]
        env.partner = SimpleNamespace(policy=policy)
    refuses(ValueError, "SimpleNamespace plays with the weights that are being trained", trainer, policy, envs, **STALE)
    trainer(babbling_policy(), envs, **STALE)
    bare: Any = SimpleNamespace(model=policy.model)
    refuses(TypeError, "SimpleNamespace has none", trainer, bare, **STALE)


def test_lanes_of_any_number_play_the_same_actions_and_train_and_evaluate_alike(tmp_path: Path) -> None:
    one, other = babbling_policy(), babbling_policy()
    rows = trainer(one, iterations=2).run()
    assert repeatable(trainer(other, [corridor()], iterations=2).run()) == repeatable(rows)
    assert digest(one) == digest(other)
    policy = babbling_policy()
    timed = Timed(policy)
    tables = [play_groups([corridor(2) for _ in range(n)], timed, TASKS, CONFIG, 5) for n in (2, 3)]
    assert timed.tokens == sum(map(len, tables))
    first, second = ([[s.action for s in one.steps] for one in table.to_trajectories()] for table in tables)
    assert first == second
    greedy = evaluate([corridor(1), corridor(1)], policy, TASKS, seed=0, temperature=0.0)
    np.testing.assert_array_equal(greedy.lengths, evaluate(corridor(), policy, TASKS, seed=0, temperature=0.0).lengths)
    with pytest.raises(ValueError, match="noted in one environment, and 2 lanes"):
        evaluate([corridor(1), corridor(1)], policy, TASKS, seed=0, columns=["task_id"])
    with pytest.raises(ValueError, match="branches=2 are continued in one vector environment, and 2 lanes"):
        trainer(envs=[corridor(1), corridor(1)], rollout={"branches": 2})
    refuses(ValueError, "got an empty list", lambda: Trainer(policy, [], RECIPES["grpo"], TASKS, CONFIG))
