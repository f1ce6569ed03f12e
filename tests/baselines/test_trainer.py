"""Trainer: what it logs, that it repeats and resumes exactly, what it refuses, and adapters."""

import dataclasses
import json
import os
import signal
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from baselines.batch import make_batch
from baselines.evaluation import evaluate
from baselines.recipes import RECIPES
from baselines.records.checkpoint import checkpoints, load_checkpoint
from baselines.records.metrics import LOG_FILE, Row, read_log
from baselines.trainer import Trainer
from baselines.update import score_batch
from policies.huggingface import HuggingFacePolicy
from policies.lora import LoraSettings, add_lora
from tests.baselines.corridor_learning import (
    CONFIG,
    TASKS,
    babbling_policy,
    corridor,
    digest,
    goes_on_exactly,
    repeatable,
    small_policy,
    trainer,
)
from tests.baselines.scorers.fixed import Fixed
from tests.cases import cases
from tests.corridor import CorridorVectorEnv
from tests.processes import LEARNING, printed
from tests.refusals import refuses


@cache
def rate_before() -> float:
    return evaluate(corridor(), babbling_policy(), TASKS, seed=9, repeats=20).success_rate


# Shuffled credit goes to the wrong steps on purpose.
@pytest.mark.parametrize("name", [name for name in RECIPES if name != "shuffled"])
def test_every_recipe_learns_the_corridor(name: str) -> None:
    policy = babbling_policy()
    given = {"scorer": Fixed()} if name == "judge" else {}

    def not_yet(_: Trainer, __: StepTable | None, row: Row) -> bool:
        return row.get("success", 0) < 1  # the first row is of the start

    trainer(policy, iterations=15, group_size=8, credit=RECIPES[name], loss={"kl": 0.0}, **given).run(not_yet)
    after = evaluate(corridor(), policy, TASKS, seed=9, repeats=20).success_rate
    assert rate_before() < 0.5
    assert after > 0.9


def test_rows_say_what_happened() -> None:
    policy = babbling_policy()
    start = digest(policy)
    rows = trainer(policy, validation_tasks=TASKS).run()
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3, 4, 5, 6]
    assert ["validation_greedy_success" in row for row in rows] == [True, False, True, False, True, False, True]
    assert digest(policy) != start
    for row in rows[1:]:
        shares = [row[f"share_{part}"] for part in ("environment", "generation", "credit", "update")]
        assert sum(shares) == pytest.approx(100)
        assert min(shares) > 0
        assert 0 <= row["success"] <= 1
        assert 0 <= row["invalid_rate"] <= 1
        assert 0 < row["entropy"] <= np.log(small_policy().model.config.vocab_size)
        assert row["rows"] * row["steps_per_row"] == pytest.approx(row["steps"])
        assert row["updates"] == np.ceil(row["rows"] / CONFIG.optimiser.minibatch_rows)
        assert {"approx_kl", "clip_fraction", "grad_norm", "tokens_per_second"} <= set(row)
    # The first mini-batch of the first iteration still has the start's weights, the others have moved away.
    assert rows[1]["kl"] > 0
    assert rows[1]["approx_kl"] > 0


def test_schedules_references_and_rates() -> None:
    # A single update sees ratio 1 everywhere: nothing is clipped, and the first iteration has no divergence.
    rows = trainer(iterations=1, optimiser={"minibatch_rows": 10_000}).run()
    assert (rows[1]["updates"], rows[1]["clip_fraction"], rows[1]["approx_kl"]) == (1, 0, pytest.approx(0, abs=1e-9))
    assert rows[1]["kl"] == pytest.approx(0, abs=1e-9)
    policy = babbling_policy()
    policy.model.bfloat16()
    refuses(ValueError, r"bfloat16 weights do not move.*dtype=torch.float32", trainer, policy)
    built = trainer(iterations=1, loss={"kl": 0.0})
    assert built.learner.reference is None
    assert built.run()[1]["kl"] == 0.0
    rows = trainer(iterations=4, schedule={"shape": "linear"}).run()
    assert [row["learning_rate"] for row in rows[1:]] == pytest.approx([1e-2, 0.75e-2, 0.5e-2, 0.25e-2])
    policy = babbling_policy()
    before = digest(policy)
    trainer(policy, learning_rate=0.0, iterations=2).run()
    assert digest(policy) == before


def test_a_budget_of_tokens_ends_a_run_lowers_its_rate_and_says_when_to_validate(tmp_path: Path) -> None:
    budget = 3 * int(trainer(iterations=1).run()[1]["tokens"])  # about three iterations
    limits = {"iterations": 20, "token_budget": budget, "schedule.shape": "linear", "validation.every": 0}
    limits |= {"validation.tokens": budget // 2, "validation_tasks": TASKS}
    counted = [0]

    def count(_: Trainer, table: StepTable | None, row: Row) -> None:
        if table is not None and table.replies is not None:
            counted.append(sum(len(reply.token_ids) for reply in table.replies if reply is not None))
            assert row["tokens"] == counted[-1]

    rows = trainer(folder=tmp_path / "a", **limits).run(count)
    spent = np.cumsum(counted)
    assert spent[-2] < budget <= spent[-1]
    assert (tmp_path / "a" / "final").is_dir()
    # Before the i-th iteration the share spent is that of its tokens, which runs ahead of i / 20.
    assert [row["learning_rate"] for row in rows[1:]] == pytest.approx(1e-2 * (1 - spent[:-1] / budget))
    halves = spent // (budget // 2)
    expected = [True, *(halves[1:] > halves[:-1])]
    expected[-1] = True
    assert ["validation_greedy_success" in row for row in rows] == expected

    def stop(_: Trainer, __: StepTable | None, row: Row) -> bool:
        return row["iteration"] < 1

    assert len(trainer(folder=tmp_path / "b", **limits).run(stop)) == 2
    again = trainer(folder=tmp_path / "b", resume=True, **limits)
    assert repeatable(again.run()) == repeatable(rows)
    assert len(again.run()) == len(rows)  # its end is its end


def test_a_log_without_tokens_cannot_keep_a_budget_of_them(tmp_path: Path) -> None:
    trainer(folder=tmp_path, iterations=1).run()
    log = tmp_path / LOG_FILE
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps({key: row[key] for key in row if key != "tokens"}) + "\n" for row in rows))
    again = trainer(folder=tmp_path, resume=True, iterations=2, token_budget=10**9)
    refuses(ValueError, "the log of this run holds no tokens, so that token_budget=1000000000", again.run)


@pytest.mark.parametrize("new_tokens", [1, 3])
def test_sampler_and_scorer_agree_on_log_probabilities(new_tokens: int) -> None:
    policy = small_policy(max_new_tokens=new_tokens, temperature=0.7)
    table = collect(corridor(), policy, tasks=TASKS, group_size=4, seed=0)
    batch = make_batch(table, np.ones(len(table)))
    torch.testing.assert_close(score_batch(policy, batch, 0.7), batch.old_logprobs, atol=1e-5, rtol=0)


def test_a_run_that_signals_stop_twice_is_one_that_none_stopped(tmp_path: Path) -> None:
    straight, log, given = babbling_policy(), tmp_path / "b" / LOG_FILE, {"validation_tasks": TASKS}
    expected = trainer(straight, folder=tmp_path / "a", **given).run()
    for at, number, error, words in (
        (2, signal.SIGTERM, SystemExit, "143"), (3, signal.SIGINT, KeyboardInterrupt, None)
    ):  # fmt: skip

        def stop(_: Any, __: Any, row: Row, at: int = at, number: int = number) -> None:
            if row["iteration"] == at:
                os.kill(os.getpid(), number)

        refuses(error, words, trainer(folder=tmp_path / "b", resume=True, **given).run, stop)
        assert [row["iteration"] for row in read_log(log)] == list(range(at + 1))
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    for _ in range(2):  # a finished run has nothing left to do
        resumed = babbling_policy()
        rows = trainer(resumed, folder=tmp_path / "b", resume=True, **given).run()
        assert digest(resumed) == digest(straight)
        assert repeatable(rows) == repeatable(read_log(log)) == repeatable(expected)


def test_a_crash_goes_back_to_the_checkpoint_and_doubles_no_row(tmp_path: Path) -> None:
    expected = trainer(folder=tmp_path / "a", checkpoint={"every": 3}).run()

    def crash(_: Any, __: Any, row: Row) -> None:
        if row["iteration"] == 5:
            raise RuntimeError("power cut")

    refuses(RuntimeError, "power cut", lambda: trainer(folder=tmp_path / "b", checkpoint={"every": 3}).run(crash))
    with open(tmp_path / "b" / "log.jsonl", "a", encoding="utf-8") as file:
        file.write('{"iteration": 6, "succ')
    rows = trainer(folder=tmp_path / "b", resume=True, checkpoint={"every": 3}).run()
    assert repeatable(rows) == repeatable(expected)
    assert repeatable(read_log(tmp_path / "b" / "log.jsonl")) == repeatable(expected)


def test_resume_needs_no_checkpoint_and_a_used_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"iteration": 0}\n{"iteration": 1, "success": 1.0}\n')
    rows = trainer(folder=tmp_path, resume=True, iterations=1).run()
    assert [row["iteration"] for row in rows] == [0, 1]
    assert rows[1]["steps"] > 0
    with pytest.raises(ValueError, match="already holds a training run; pass resume=True or another folder"):
        trainer(folder=tmp_path, iterations=1)


@cases(
    "changes, words",
    ({"loss.clip_high": 0.3}, "config.loss.clip_high: checkpoint 0.2, here 0.3"),
    ({"credit": RECIPES["graphgpo"]}, r"method: checkpoint rewardflow\(.*\), here graphgpo\("),
    ({"credit": RECIPES["rewardflow"].with_options(gamma=0.5)}, "method: checkpoint .*gamma=0.9.* here .*gamma=0.5"),
    ({"policy": small_policy(width=32)}, r"model.model.embed_tokens.weight: checkpoint float32\[\d+, 16\]"),
    ({"policy": small_policy(suffix="</a>")}, "policy.suffix: checkpoint </action>, here </a>"),
    ({"validation_tasks": TASKS}, "tasks: checkpoint"),
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    trainer(folder=tmp_path, iterations=1).run()
    with pytest.raises(ValueError, match=f"belongs to another run:\n  {words}"):
        trainer(folder=tmp_path, iterations=1, resume=True, **changes)


def test_divergence_is_an_error_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    def poisoned(limit: int) -> Callable[[StepTable], Any]:
        calls: list[int] = []

        def credit(table: StepTable) -> Any:
            calls.append(len(table))
            return np.full(len(table), 1e38 if len(calls) > limit else 1.0)

        return credit

    with pytest.raises(FloatingPointError, match="gradient norm is"):
        trainer(folder=tmp_path, credit=poisoned(2), checkpoint={"every": 1}, loss={"aggregation": "row-sum"}).run()
    assert [path.name for path in checkpoints(tmp_path)] == ["checkpoint-000001", "checkpoint-000002"]
    saved = load_file(checkpoints(tmp_path)[-1] / "model.safetensors")
    assert all(torch.isfinite(value).all() for value in saved.values())


def test_unusable_policies_and_no_iterations() -> None:
    refuses(ValueError, "no training tasks", lambda: Trainer(small_policy(), corridor(), RECIPES["grpo"], [], CONFIG))
    with pytest.raises(TypeError, match=r"credit must be a function .*, got 'gigpo'; baselines\.recipes\.recipe\("):
        Trainer(small_policy(), corridor(), "gigpo", TASKS, CONFIG)  # type: ignore[arg-type]
    built = trainer(iterations=0)
    with pytest.warns(UserWarning, match="iterations=0, the policy is validated and not trained") as caught:
        assert [row["iteration"] for row in built.run()] == [0]
    assert [warning.filename for warning in caught] == [__file__]


def test_parsers_are_warned_of() -> None:
    envs = CorridorVectorEnv(4, max_episode_steps=6, autoreset_mode="Disabled")
    with pytest.warns(
        UserWarning, match=r"begin with '<action>', and nothing in CorridorVectorEnv.* reads them"
    ) as caught:
        built = Trainer(babbling_policy(), envs, RECIPES["grpo"], TASKS, dataclasses.replace(CONFIG, iterations=2))
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(RuntimeWarning, match="refused every action of the first") as caught:
        rows = built.run()
    # Not again in the second iteration.
    assert len([warning for warning in caught if warning.category is RuntimeWarning]) == 1
    assert [row["invalid_rate"] for row in rows[1:]] == [1.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Trainer(small_policy(prefix="", suffix=""), CorridorVectorEnv(4, autoreset_mode="Disabled"), RECIPES["grpo"],
                TASKS, CONFIG)  # fmt: skip
        trainer()


def test_tensorboard_files_are_written(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer(folder=tmp_path, tensorboard=True, iterations=2, checkpoint={"every": 1}).run()
    trainer(folder=tmp_path, tensorboard=True, iterations=3, resume=True).run()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    expected = [(int(row["iteration"]), row["success"]) for row in read_log(tmp_path / "log.jsonl")[1:]]
    assert [event.step for event in events.Scalars("success")] == [1, 2, 3] == [step for step, _ in expected]
    assert [event.value for event in events.Scalars("success")] == pytest.approx([value for _, value in expected])


def trained() -> list[Any]:
    policy = babbling_policy()
    return [digest(policy), repeatable(trainer(policy, iterations=3).run()), digest(policy)]


def test_two_processes_agree_to_the_last_bit() -> None:
    code = "import json; from tests.baselines.test_trainer import trained; print(json.dumps(trained()))"
    there = printed(code, "1", LEARNING)
    here = trained()
    assert json.loads(there.splitlines()[-1]) == json.loads(json.dumps(here))
    assert len(here[1]) == 4
    assert here[0] != here[2]


def test_a_resumed_run_whose_log_is_lost_is_refused(tmp_path: Path) -> None:
    # It would validate trained weights and call them the start.
    trainer(folder=tmp_path, iterations=2).run()
    (tmp_path / "log.jsonl").unlink()
    refuses(ValueError, "train into an empty folder", lambda: trainer(folder=tmp_path, iterations=2, resume=True).run())


def adapted(seed: int = 0) -> HuggingFacePolicy:
    return add_lora(babbling_policy(seed), LoraSettings(rank=4, alpha=16.0), seed=0)


GRPO: dict[str, Any] = {"credit": RECIPES["grpo"], "learning_rate": 2e-2}


def test_an_adapter_learns_the_corridor_and_its_base_stands_still(tmp_path: Path) -> None:
    policy = adapted()
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    start = evaluate(corridor(), policy, TASKS, seed=9, repeats=20).success_rate
    memory = {"microbatch_tokens": 200}
    trainer(policy, **GRPO, iterations=15, group_size=8, loss={"kl": 0.0}, memory=memory).run()
    assert start < 0.5
    assert evaluate(corridor(), policy, TASKS, seed=9, repeats=20).success_rate > 0.9
    after = policy.model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all("lora_" in name for name in changed)
    policy.save_pretrained(tmp_path)
    loaded = HuggingFacePolicy.from_pretrained(tmp_path, device="cpu")
    found, expected = (evaluate(corridor(), each, TASKS, seed=9, repeats=20).summary() for each in (loaded, policy))
    assert found == expected


def test_the_reference_is_the_base() -> None:
    policy = adapted()
    made = trainer(policy, **GRPO, iterations=3, loss={"kl": 0.05}, optimiser={"minibatch_rows": 1000})
    assert made.learner.reference.model is policy.model
    rows = made.run()
    assert rows[1]["kl"] == 0.0  # a fresh adapter is its base, and one update per iteration sees the start
    assert rows[2]["kl"] > 0


@pytest.mark.parametrize("recipe", ["grpo", "ppo"])
def test_a_resumed_run_is_the_same_to_the_last_bit(tmp_path: Path, recipe: str) -> None:
    goes_on_exactly(tmp_path, 2, make=adapted, iterations=4, credit=RECIPES[recipe], learning_rate=2e-2)


def test_a_checkpoint_holds_adapters_alone_and_knows_their_base(tmp_path: Path) -> None:
    made = trainer(adapted(), **GRPO, folder=tmp_path, iterations=1, loss={"kl": 0.05})
    made.run()
    assert all("lora_" in name for name in load_checkpoint(tmp_path, made._identity()).model)
    other = {"folder": tmp_path, "resume": True, "iterations": 2, "loss": {"kl": 0.05}}
    refuses(ValueError, "frozen: checkpoint", trainer, adapted(seed=1), **GRPO, **other)


def test_a_reference_in_16_bits_is_half_as_large_and_resumes(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"loss.kl": 0.05, "loss.reference": "bfloat16", "credit": RECIPES["grpo"]}
    reference = trainer(**changes).learner.reference
    assert {weight.dtype for weight in reference.model.parameters()} == {torch.bfloat16}
    goes_on_exactly(tmp_path, 1, iterations=3, **changes)
