"""Learner and callbacks: what replies cost, which are trained on, how fast, and who may look and stop."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.rollout import collect
from agentgym.rollout.tree import collect_tree, every
from agentgym.trajectory import Reply, StepTable
from baselines.batch import make_batch
from baselines.learner import Learner
from baselines.play.reply_costs import cut_off, less_divergence, less_overlong, without_cut_off, written
from baselines.recipes import RECIPES
from baselines.records.metrics import Row
from baselines.trainer import Trainer
from baselines.update import Limits, sequences
from policies.huggingface import HuggingFacePolicy
from policies.prompts import PromptTooLongError
from tests.baselines.corridor_learning import (
    CONFIG,
    TASKS,
    babbling_policy,
    corridor,
    digest,
    goes_on_exactly,
    small_policy,
    trainer,
)
from tests.corridor import CorridorVectorEnv
from tests.playing import filled
from tests.refusals import refuses
from wrappers import VectorReplyParser, VectorTranscript


def table_of(lengths: list[int], finishes: list[Any], trajectory: list[int]) -> StepTable:
    replies = [Reply("", (1,), (2,) * k, (-1.0,) * k, f) for k, f in zip(lengths, finishes, strict=True)]
    return filled(replies=replies, trajectory=trajectory, reward=[1.0] * len(lengths))


def test_long_and_cut_replies_by_hand_in_a_tree_too() -> None:
    # Limit 10, buffer 4: free up to 6 tokens, then 1/4 of the penalty per token, all of it at 10.
    table = table_of([1, 6, 7, 9, 10], ["stop"] * 5, [0, 0, 0, 0, 0])
    found = less_overlong(table, limit=10, buffer=4, penalty=2.0)
    assert found.reward.tolist() == [1.0, 1.0, 0.5, -0.5, -1.0]
    assert table.reward.tolist() == [1.0] * 5
    table = table_of([1, 2, 3, 1], ["stop", "length", "stop", "stop"], [0, 0, 1, 2])
    assert cut_off(table).tolist() == [False, True, False, False]
    kept = without_cut_off(table)
    assert kept.trajectories == (1, 2)
    assert [len(reply.token_ids) for reply in kept.replies] == [3, 1]  # type: ignore[union-attr]
    assert without_cut_off(kept) is kept
    with pytest.raises(ValueError, match=r"row 1: its reply does not say how it ended \(Reply.finish\)"):
        cut_off(table_of([1, 1], ["stop", ""], [0, 0]))
    finishes = ["stop", "prompt-too-long", "prompt-too-long", "stop"]
    table = dataclasses.replace(
        table_of([1, 0, 0, 2], finishes, [0, 0, 1, 2]),
        truncated=np.array([False, True, True, False]), terminated=np.array([False, False, False, True]),
    )  # fmt: skip
    found = written(table)
    assert (found.trajectories, found.truncated.tolist()) == ((0, 2), [True, False])
    assert found.terminated.tolist() == [False, True]
    assert [reply.finish for reply in found.replies] == ["stop", "stop"]  # type: ignore[union-attr]
    assert written(found) is found
    assert len(written(table_of([0, 0], ["prompt-too-long"] * 2, [0, 1]))) == 0
    refuses(ValueError, "row 1 has no reply, its prompt did not fit", lambda: make_batch(table, np.ones(4)))
    # Trajectory 1 was cut from 0 after its first step, 2 from 1 after its own first; 0 was cut off in its second step.
    replies = [Reply("", (1,), (2,), (-1.0,), finish) for finish in ("stop", "length", "stop", "stop", "stop")]
    table = filled(
        replies=replies, trajectory=[0, 0, 1, 1, 2], t=[0, 1, 1, 2, 2], state=[0, 1, 1, 2, 2],
        next_state=[1, 9, 2, 9, 9], reward=[1.0, 2.0, 4.0, 8.0, 16.0], parent={1: (0, 0), 2: (1, 1)},
    )  # fmt: skip
    kept = without_cut_off(table)
    assert kept.trajectories == (1, 2)
    assert kept.reward.tolist() == [1.0, 4.0, 8.0, 16.0]  # the first step goes to the first that goes through it
    assert (kept.parent.tolist(), kept.episode_return.tolist()) == ([-1, 1], [13.0, 21.0])
    assert len(without_cut_off(dataclasses.replace(table, replies=np.array([replies[1]] * 5, object)))) == 0


def talking(places: int = 12) -> VectorTranscript:
    envs = CorridorVectorEnv(places, max_episode_steps=6, autoreset_mode="Disabled")
    return VectorTranscript(VectorReplyParser(envs), instructions=False)


def conversing(truncate: str, longest: int | None) -> Any:
    return babbling_policy().with_settings(truncate=truncate, max_prompt_tokens=longest)


@pytest.mark.parametrize("truncate", ["left", "end-episode"])
def test_a_run_whose_prompts_outgrow_their_room_learns_and_is_the_same_again(tmp_path: Path, truncate: str) -> None:
    whole = collect(talking(), conversing("raise", None), tasks=TASKS, group_size=4, seed=1)
    lengths = sorted({len(reply.prompt_ids) for reply in whole.replies})  # type: ignore[union-attr]
    longest = lengths[2]  # three steps of every transcript fit
    with pytest.raises(PromptTooLongError):
        collect(talking(), conversing("raise", longest), tasks=TASKS, group_size=4, seed=1)
    table = collect(talking(), conversing(truncate, longest), tasks=TASKS, group_size=4, seed=1)
    replies = list(table.replies)  # type: ignore[arg-type]
    assert max(len(reply.prompt_ids) for reply in replies) == longest
    if truncate == "end-episode":
        assert {int(t) for t, reply in zip(table.t, replies, strict=True) if not reply.token_ids} == {3}
        assert table.truncated[table.t == 3].all()
    else:
        assert table.t.max() == whole.t.max() == 5
    rows = goes_on_exactly(tmp_path, 1, talking, make=lambda: conversing(truncate, longest), iterations=2)
    shares = [row.get("prompt_too_long") for row in rows[1:]]
    assert all(0 < share < 1 for share in shares) if truncate == "end-episode" else shares == [None, None]
    assert all(row["signal"] > 0 for row in rows[1:])


def test_where_all_replies_were_cut_nothing_is_learned() -> None:
    """Where some were: the goldens training/setting-overlong-mask and -drop."""
    table = collect(corridor(), babbling_policy(), tasks=TASKS, group_size=4, seed=1)
    replies = [dataclasses.replace(reply, finish="length") for reply in table.replies]
    table = dataclasses.replace(table, replies=np.array(replies, dtype=object))
    for how in ("mask", "drop"):
        learner = Learner(babbling_policy(), RECIPES["grpo"], CONFIG.changed(rollout={"overlong": how}))
        figures = learner.learn(table, 0, np.random.default_rng(0)).figures
        assert (figures["updates"], figures["cut_off"]) == (0.0, 1.0)


def test_the_divergence_in_the_reward() -> None:
    policy, reference = small_policy(max_new_tokens=3), small_policy(seed=4, max_new_tokens=3)
    table = collect(corridor(), policy, tasks=TASKS, group_size=2, seed=1)
    config = CONFIG.changed(loss={"kl": 0.5, "kl_form": "k1", "kl_limit": None})
    found, mean = less_divergence(table, policy, reference, config)
    total = tokens = 0.0
    for row, reply in enumerate(table.replies):
        start = reference.score([reply.prompt_ids], [reply.token_ids], 1.0).logprobs[0]
        cost = float((torch.tensor(reply.logprobs) - start.detach()).sum())
        assert found.reward[row] == pytest.approx(table.reward[row] - 0.5 * cost, abs=1e-5)
        total, tokens = total + cost, tokens + len(reply.token_ids)
    assert mean == pytest.approx(total / tokens, abs=1e-5)
    assert abs(mean) > 0.01


def test_callbacks_see_trainer_table_and_row_and_the_last_row_that_one_of_them_wants() -> None:
    seen: list[int] = []

    def look(run: Trainer, table: StepTable | None, row: Row) -> None:
        seen.append(0 if table is None else len(table))
        if table is not None:
            assert (run.iteration, run.advantages.shape) == (row["iteration"], (len(table),))

    rows = trainer(iterations=4).run(lambda trainer, table, row: row["iteration"] < 2, look)
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    assert seen == [row.get("steps", 0) for row in rows]


def forked(**changes: Any) -> StepTable:
    given: dict[str, Any] = {"tasks": TASKS, "group_size": 2, "branches": 2, "select": every(2), "seed": 3, **changes}
    return collect_tree(talking(), babbling_policy(), **given)


@pytest.mark.parametrize("recipe", ["grpo", "gigpo", "graphgpo", "salt", "ppo", "agentprm"])
def test_a_table_with_forks_is_learned_from_and_no_prefix_twice(recipe: str) -> None:
    table = forked()
    assert table.has_forks
    learner = Learner(babbling_policy(), RECIPES[recipe], CONFIG)
    before = digest(learner.policy)
    found = learner.learn(table, 0, np.random.default_rng(0))
    assert digest(learner.policy) != before
    assert found.figures["steps"] == len(table)
    batch = make_batch(table, found.advantages, merge=False)
    assert batch.raw_rows == len(batch) == np.isfinite(found.advantages).sum()


def test_a_shared_prefix_is_read_once_where_prefixes_are_shared() -> None:
    table = forked(common=False)
    batch = make_batch(table, np.ones(len(table)))
    chains, trees = (Limits(tokens=4096, share_prefixes=share, packed=True) for share in (False, True))
    read, read_shared = (sum(length for length, _ in sequences(batch, each)) for each in (chains, trees))
    whole, _ = table.unfolded()
    assert read_shared < read
    # In a tree of prefixes there is no difference between the table and its whole episodes: the batch is the same.
    unfolded = make_batch(whole, np.ones(len(whole)))
    assert sum(length for length, _ in sequences(unfolded, trees)) == read_shared
    assert set(zip(unfolded.prompts, unfolded.replies, strict=True)) == set(
        zip(batch.prompts, batch.replies, strict=True)
    )
    assert unfolded.weight.sum() == len(whole) > batch.weight.sum() == len(table)


@pytest.mark.parametrize("recipe", ["spa_network", "istar", "hisr"])
def test_a_scorer_of_whole_trajectories_says_that_it_takes_no_forks(recipe: str) -> None:
    learner = Learner(babbling_policy(), RECIPES[recipe], CONFIG)
    with pytest.raises(ValueError, match=r"cut from others \(StepTable.parent\): \w+ reads whole trajectories"):
        learner.learn(forked(), 0, np.random.default_rng(0))


class _Shifted(HuggingFacePolicy):
    """Says of its replies that they were half a nat likelier than they were."""

    def act_each(self, *given: Any) -> list[Reply]:
        found = super().act_each(*given)
        return [dataclasses.replace(one, logprobs=tuple(x + 0.5 for x in one.logprobs)) for one in found]

    def _like(self, model: Any, **given: Any) -> HuggingFacePolicy:
        return _Shifted(model, self.tokenizer, **given)


def test_a_probe_stops_a_run_or_goes_on_with_importance_weights() -> None:
    plain = babbling_policy()
    rollout = {"probe_every": 2}
    config = CONFIG.changed(iterations=3, rollout=rollout, validation={"every": 0})
    rows = Trainer(plain, corridor(), RECIPES["grpo"], TASKS, config).run()
    probed = [row.get("probe_mean") for row in rows]
    assert [value is None for value in probed] == [True, False, True, False]
    assert max(row.get("probe_max", 0.0) for row in rows) < 1e-5
    stale = config.changed(
        **{"rollout.staleness": 1, "loss.old_logprobs": "recompute", "loss.tis": 2.0, "loss.kl": 0.0}
    )
    rows = Trainer(
        babbling_policy(), corridor(), RECIPES["grpo"], TASKS, stale.changed(rollout={"probe_every": 1})
    ).run()
    assert ["probe_mean" in row for row in rows] == [False, True, False, False]
    wrong = _Shifted(plain.model, plain.tokenizer, **vars(plain.settings))
    with pytest.raises(FloatingPointError, match=r"differ by 0\.5 nats in the mean over 8 tokens"):
        Trainer(wrong, corridor(), RECIPES["grpo"], TASKS, config).run()
    config = config.changed(rollout={**rollout, "on_mismatch": "weights"})
    rows = Trainer(wrong, corridor(), RECIPES["grpo"], TASKS, config).run()
    assert rows[1]["probe_weights"] == 1.0
    # exp(-1/2) for every token: what was played half a nat likelier than the trainer says.
    assert rows[1]["tis_weight"] == pytest.approx(np.exp(-0.5), abs=1e-3)
    assert "tis_weight" in rows[2]
