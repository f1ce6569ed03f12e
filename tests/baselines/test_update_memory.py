"""Updates in bounded passes: the same gradient, passes no longer than allowed, and an error that helps."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from baselines.batch import Batch, make_batch
from baselines.config import Loss, Memory, TrainerConfig
from baselines.imitation.cloning import imitate
from baselines.recipes import RECIPES
from baselines.trainer import Trainer
from baselines.update import Limits, recomputes, score_batch, update
from policies.huggingface import HuggingFacePolicy
from tests.baselines.corridor_learning import (
    CONFIG,
    TASKS,
    babbling_policy,
    conversations,
    corridor,
    passes_of,
    same_weights,
    small_policy,
)
from tests.cases import cases
from tests.playing import filled
from tests.refusals import refuses

PLAIN = TrainerConfig(learning_rate=0.1, loss=Loss(kl=0.1, entropy=0.01)).changed(
    optimiser={"max_grad_norm": 100.0, "minibatch_rows": 5, "epochs": 2}
)


def transcripts(policy: HuggingFacePolicy) -> Batch:
    """Three conversations of four turns, with made-up advantages."""
    rng = np.random.default_rng(4)
    replies = conversations(policy, rng, 3, 4)
    table = filled(replies=replies, trajectory=np.arange(12) // 4, t=np.arange(12) % 4)
    return make_batch(table, rng.normal(size=len(table)))


def trained(config: TrainerConfig) -> tuple[dict[str, float], HuggingFacePolicy, list[tuple[int, int]]]:
    policy, reference = small_policy(max_new_tokens=3), small_policy(seed=1, max_new_tokens=3)
    batch = transcripts(policy)
    policy.score([(1,)], [(1,)], 1.0, tokens_per_pass=1)  # the model is examined once, which is a pass of its own
    reference.score([(1,)], [(1,)], 1.0, tokens_per_pass=1)
    shapes = passes_of((policy if config.loss.kl == 0 else reference).model.model)
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=config.learning_rate)
    return update(policy, optimizer, batch, config, np.random.default_rng(0), reference), policy, shapes


@pytest.mark.parametrize(
    "changes",
    [{}, {"memory.activation_checkpointing": True}, {"memory.microbatch_rows": 2}, {"memory.share_prefixes": True}],
)
def test_packed_passes_train_alike(changes: dict[str, Any]) -> None:
    # All rows in one mini-batch: which rows meet in one differs, because chains stay together.
    config = PLAIN.changed(optimiser={"minibatch_rows": 100}, loss={"old_logprobs": "recompute"})
    figures, policy, _ = trained(config)
    for tokens in (1, 30, 10_000):
        found, other, _ = trained(config.changed(memory={"microbatch_tokens": tokens}, **changes))
        assert found == pytest.approx(figures, rel=1e-4, abs=1e-6)
        same_weights(policy.model, other.model, atol=1e-6)
        assert not any(module.training for module in other.model.modules())


def test_auto_packs_large_models_and_shares_prefixes_where_that_saves_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    config = PLAIN.changed(optimiser={"minibatch_rows": 100}, loss={"old_logprobs": "recompute"})
    assert config.memory.microbatch_tokens == config.changed(**{"memory.pass_tokens": "auto"}).memory.microbatch_tokens
    figures, policy, _ = trained(config)  # a small model reads rectangles
    batch = transcripts(policy)
    assert Limits.of(policy, config.memory, batch.prompts, batch.replies) == Limits()
    monkeypatch.setattr("baselines.update.LARGE", 1)
    assert Limits.of(policy, config.memory, batch.prompts, batch.replies) == Limits(tokens=2048, packed=True)
    one = [(5, 6, 7, 8)] * 3, [(1, 2), (3, 4), (5, 6)]
    assert Limits.of(policy, config.memory, *one).share_prefixes
    found, other, shapes = trained(config)
    assert found == pytest.approx(figures, rel=1e-4, abs=1e-6)
    assert all(rows == 1 for rows, _ in shapes)
    same_weights(policy.model, other.model, atol=1e-6)


def test_passes_with_and_without_gradients_are_bounded() -> None:
    length = 5 + 3 * 3  # of a chain's prompt, with replies of 1 to 3 tokens between
    for kl in (0.0, 0.1):
        config = PLAIN.changed(
            loss={"kl": kl, "old_logprobs": "recompute"},
            memory={"microbatch_tokens": 30},
            optimiser={"minibatch_rows": 100},
        )
        _, _, shapes = trained(config)
        assert len(shapes) > 1
        assert all(rows == 1 and length <= tokens <= 30 for rows, tokens in shapes)
    policy = small_policy(max_new_tokens=3)
    batch = transcripts(policy)
    for share in (False, True):
        found = score_batch(policy, batch, 0.7, Memory(microbatch_tokens=30, share_prefixes=share))
        torch.testing.assert_close(found, score_batch(policy, batch, 0.7), atol=1e-5, rtol=0)


def test_prefixes_are_bounded_in_a_pass_and_chains_stay_in_one_minibatch() -> None:
    config = PLAIN.changed(loss={"kl": 0.0}, optimiser={"minibatch_rows": 100, "epochs": 1})
    _, _, shapes = trained(config.changed(memory={"microbatch_tokens": 30, "share_prefixes": True}))
    assert len(shapes) > 2  # a look at the model is one more
    assert all(lines * tokens <= 30 for lines, tokens in shapes)
    with pytest.raises(ValueError, match=r"share_prefixes must be False unless microbatch_tokens"):
        config.changed(memory={"microbatch_tokens": None, "share_prefixes": True})
    # Three transcripts of four turns in mini-batches of four rows: each transcript is read once, in one piece.
    _, _, shapes = trained(config.changed(memory={"microbatch_tokens": 10_000}, optimiser={"minibatch_rows": 4}))
    batch = transcripts(small_policy(max_new_tokens=3))
    whole = [len(batch.prompts[row]) + len(batch.replies[row]) - 1 for row in (3, 7, 11)]
    assert sorted(tokens for _, tokens in shapes) == sorted(whole)


def full_above(policy: HuggingFacePolicy, tokens: int) -> None:
    """Raise what a full device raises, for passes of more than so many tokens."""

    def check(_: Any, __: Any, given: dict[str, Any]) -> None:
        if torch.is_grad_enabled() and given["input_ids"].numel() > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    policy.model.model.register_forward_pre_hook(check, with_kwargs=True)


@cases(
    "tokens, room, words",
    (None, 15, r"microbatch_tokens.*None, all at once: set it, to \d+ for a start.*activation_checkpointing=True"),
    (100, 50, r"microbatch_tokens.*100: lower it to 50.*Tried to allocate 2.00 GiB"),
    (15, 5, r"microbatch_tokens.*15, and the longest row has \d+: shorten"),
)
def test_a_full_device_says_what_to_lower(tokens: int | None, room: int, words: str) -> None:
    policy = small_policy(max_new_tokens=3)
    batch, before = transcripts(policy), {name: value.clone() for name, value in policy.model.state_dict().items()}
    full_above(policy, room)
    config = PLAIN.changed(loss={"kl": 0.0}, memory={"microbatch_tokens": tokens}, optimiser={"minibatch_rows": 100})
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.1)
    refuses(torch.OutOfMemoryError, words, lambda: update(policy, optimizer, batch, config, np.random.default_rng(0)))
    assert all(torch.equal(value, before[name]) for name, value in policy.model.state_dict().items())
    assert all(value.grad is None for value in policy.model.parameters())


def full(*_: Any) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_full_device_is_explained_by_whoever_fills_it() -> None:
    policy = small_policy(max_new_tokens=3)
    rows = policy.act(["cell 1"], {}, np.random.default_rng(0))
    queue = policy.reply_queue()
    policy.model.model.register_forward_pre_hook(full)
    with pytest.raises(torch.OutOfMemoryError, match=r"lower batch_size \(256.*expandable_segments.*CUDA out"):
        policy.act(["cell 2"], {}, np.random.default_rng(0))
    queue.put([0], ["cell 2"], {}, [np.random.default_rng(0)])
    refuses(torch.OutOfMemoryError, "lower batch_size", queue.get)
    with pytest.raises(torch.OutOfMemoryError, match=r"an update of 32 rows does not fit.*microbatch_tokens"):
        imitate(policy, rows, epochs=1, seed=0)

    for method, changes in (("ppo", {}), ("grpo", {"loss.kl": 0.1, "loss.kl_in": "reward"})):
        run = Trainer(babbling_policy(), corridor(), RECIPES[method], TASKS, CONFIG.changed(**changes))
        scorer: Any = run.learner.scorer
        (run.learner.reference.model if scorer is None else scorer.model.trunk).register_forward_pre_hook(full)
        refuses(torch.OutOfMemoryError, r"learning from \d+ steps does not fit.*microbatch_tokens", run.run)


def test_in_16_bits_old_log_probabilities_are_computed_again_and_the_difference_is_logged() -> None:
    policy = small_policy(max_new_tokens=3)
    batch, config = transcripts(policy), PLAIN.changed(loss={"kl": 0.0})
    half = HuggingFacePolicy(policy.model, policy.tokenizer, autocast=torch.bfloat16, **vars(policy.settings))
    assert [recomputes(each, config) for each in (policy, half)] == [False, True]
    assert not recomputes(half, config.changed(loss={"old_logprobs": "stored"}))
    found = update(half, torch.optim.SGD(policy.model.parameters(), lr=0.0), batch, config, np.random.default_rng(0))
    assert found["mismatch_max"] > 1e-4
    assert found["approx_kl"] == pytest.approx(0.0, abs=1e-3)  # of the update alone, which has not moved
    # Where they are not, the first mini-batch is compared, before a step: half a nat for every token.
    shifted = torch.where(batch.mask, batch.old_logprobs + 0.5, 0.0)
    moving, small = torch.optim.SGD(policy.model.parameters(), lr=0.1), config.changed(optimiser={"minibatch_rows": 2})
    found = update(policy, moving, dataclasses.replace(batch, old_logprobs=shifted), small, np.random.default_rng(0))
    assert found["updates"] > 1
    assert found["mismatch_mean"] == pytest.approx(0.5, abs=1e-5)
    assert found["mismatch_max"] == pytest.approx(0.5, abs=1e-5)
    assert all(weight.grad is None for weight in policy.model.parameters())


def test_rectangles_have_their_padding_in_the_limit() -> None:
    prompts, replies = [(1,) * length for length in (9, 2, 3, 2, 30)], [(1,)] * 5
    limits = Limits(tokens=8)
    parts = [part.tolist() for part in limits.passes(prompts, replies, np.arange(5))]
    assert parts == [[1, 3], [2], [0], [4]]


def run(folder: Any, policy: HuggingFacePolicy, iterations: int, **changes: Any) -> Trainer:
    config = CONFIG.changed(iterations=iterations, checkpoint={"every": 1}, **changes)
    return Trainer(policy, corridor(), RECIPES["grpo"], TASKS, config, folder=folder, resume=True)


def test_nothing_is_lost_when_the_device_is_full(tmp_path: Any) -> None:
    run(tmp_path, babbling_policy(), 2).run()
    kept = (tmp_path / "log.jsonl").read_text()
    policy = babbling_policy()
    stopped = run(tmp_path, policy, 4)
    full_above(policy, 6)
    refuses(torch.OutOfMemoryError, "resumed with another microbatch_tokens", stopped.run)
    assert (tmp_path / "log.jsonl").read_text() == kept
    policy = babbling_policy()
    again = run(tmp_path, policy, 4, memory={"microbatch_tokens": 6, "activation_checkpointing": True})
    assert again.iteration == 2
    full_above(policy, 6)
    assert [row["iteration"] for row in again.run()] == [0, 1, 2, 3, 4]


def test_sampling_inside_a_run_is_sampling_outside(tmp_path: Any) -> None:
    """Replies of a policy that is being trained with recomputed activations, and of a copy that never was."""
    policy = babbling_policy()
    run(None, policy, 2, memory={"activation_checkpointing": True, "microbatch_tokens": 40}).run()
    policy.save_pretrained(tmp_path)
    fresh = HuggingFacePolicy.from_pretrained(tmp_path, device="cpu")
    for player in (policy, fresh):
        player.forget()
    settings = {"max_new_tokens": 6, "prefix": "", "suffix": "", "stop": ()}
    inside, outside = (
        player.with_settings(**settings).act(["cell 1", "cell 2"], {}, np.random.default_rng(3))
        for player in (policy, fresh)
    )
    assert [reply.version for reply in inside] == [2, 2]  # updates that the weights have behind them
    assert [dataclasses.replace(reply, version=0) for reply in inside] == outside


def test_no_keys_stay_in_memory_after_a_validation_and_after_rollouts() -> None:
    policy = HuggingFacePolicy(babbling_policy().model, babbling_policy().tokenizer, reuse=True, max_new_tokens=2)
    run = Trainer(policy, corridor(), RECIPES["grpo"], TASKS, CONFIG, validation_tasks=TASKS)
    kept, most = policy.sampler._kept, []  # type: ignore[attr-defined]
    add = kept.add
    kept.add = lambda *given: (add(*given), most.append(kept.bytes))
    for play in (run._validate, lambda: run._gather(run._sampler, 0)):
        most.clear()
        play()
        assert (max(most) > 0, kept.bytes) == (True, 0)
