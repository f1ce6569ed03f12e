"""Trainer: what it logs, that it repeats and resumes exactly whatever ends it, what it refuses, adapters, pictures."""

import contextlib
import dataclasses
import errno
import json
import os
import signal
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import agentgym  # noqa: F401  # registers the environments
from agentgym.outside.files import LockedError
from agentgym.trajectory import StepTable
from baselines.config import Checkpoints, Loss, TrainerConfig, Validation
from baselines.evaluation import evaluate
from baselines.imitation.cloning import clone
from baselines.recipes import RECIPES, recipe
from baselines.records.checkpoint import checkpoints, load_checkpoint
from baselines.records.metrics import LOG_FILE, Row, read_log
from baselines.trainer import Trainer
from policies.huggingface import HuggingFacePolicy
from policies.lora import LoraSettings, add_lora
from policies.vision.policy import VisionPolicy
from policies.vision.tiny import tiny_vision_policy
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
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser


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
    """The figures themselves are in the goldens of recipes."""
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
        assert {"approx_kl", "clip_fraction", "grad_norm", "tokens_per_second"} <= set(row)


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


def test_unusable_policies_no_iterations_and_missing_parsers_are_said() -> None:
    refuses(ValueError, "no training tasks", lambda: Trainer(small_policy(), corridor(), RECIPES["grpo"], [], CONFIG))
    with pytest.raises(TypeError, match=r"credit must be a function .*, got 'gigpo'; baselines\.recipes\.recipe\("):
        Trainer(small_policy(), corridor(), "gigpo", TASKS, CONFIG)  # type: ignore[arg-type]
    built = trainer(iterations=0)
    with pytest.warns(UserWarning, match="iterations=0, the policy is validated and not trained") as caught:
        assert [row["iteration"] for row in built.run()] == [0]
    assert [warning.filename for warning in caught] == [__file__]
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


def test_references_are_bases_or_half_as_large_and_checkpoints_hold_adapters_alone(tmp_path: Path) -> None:
    policy = adapted()
    made = trainer(policy, **GRPO, iterations=3, loss={"kl": 0.05}, optimiser={"minibatch_rows": 1000})
    assert made.learner.reference.model is policy.model
    rows = made.run()
    assert rows[1]["kl"] == 0.0  # a fresh adapter is its base, and one update per iteration sees the start
    assert rows[2]["kl"] > 0
    made = trainer(adapted(), **GRPO, folder=tmp_path, iterations=1, loss={"kl": 0.05})
    made.run()
    assert all("lora_" in name for name in load_checkpoint(tmp_path, made._identity()).model)
    other = {"folder": tmp_path, "resume": True, "iterations": 2, "loss": {"kl": 0.05}}
    refuses(ValueError, "frozen: checkpoint", trainer, adapted(seed=1), **GRPO, **other)
    changes: dict[str, Any] = {"loss.kl": 0.05, "loss.reference": "bfloat16", "credit": RECIPES["grpo"]}
    reference = trainer(**changes).learner.reference
    assert {weight.dtype for weight in reference.model.parameters()} == {torch.bfloat16}
    goes_on_exactly(tmp_path, 1, iterations=3, **changes)


@pytest.mark.parametrize("recipe", ["grpo", "ppo"])
def test_a_resumed_run_is_the_same_to_the_last_bit(tmp_path: Path, recipe: str) -> None:
    goes_on_exactly(tmp_path, 2, make=adapted, iterations=4, credit=RECIPES[recipe], learning_rate=2e-2)


LEVELS = [{"split": "train", "index": i} for i in range(4)]
SHORT = TrainerConfig(
    iterations=2, groups=2, group_size=2, learning_rate=1e-3,
    loss=Loss(kl=0.01), validation=Validation(every=0), checkpoint=Checkpoints(every=1),
)  # fmt: skip


def envs(**options: Any) -> Any:
    bare = gym.make_vec(
        "AgentRL/VisualSokoban-v0", 4, autoreset_mode="Disabled", tile_size=8, max_episode_steps=5, **options
    )
    return VectorPromptWindow(VectorReplyParser(bare), history=0, instructions=False)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a clone: it knows that commands are to be given."""
    pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike
    policy = tiny_vision_policy(["Boxes on targets: 0 of 2."], seed=0, layers=1, width=32, mlp=64)
    clone(policy, envs(expert=True), LEVELS, epochs=4, seed=0, warmup=2)
    folder = tmp_path_factory.mktemp("start")
    policy.save_pretrained(folder)
    return folder


def trained_to_see(
    start: Path, folder: Path, method: str, *callbacks: Any, **changes: Any
) -> tuple[list[dict[str, float]], VisionPolicy]:
    policy = VisionPolicy.from_pretrained(start, device="cpu")
    policy.pictures.keep_in(folder / "pictures")
    config = dataclasses.replace(SHORT, **changes)
    return Trainer(policy, envs(), recipe(method), LEVELS, config, folder=folder, resume=True).run(*callbacks), policy


@cases(
    "method, changes",
    ("grpo", {}),
    ("grpo", {"memory.microbatch_tokens": 400, "memory.activation_checkpointing": True}),
    ("rewardflow", {"memory.microbatch_tokens": 400, "memory.share_prefixes": True}),
    ("ppo", {}),  # with a critic, which sees as well
)
def test_training_moves_the_vision_tower(start: Path, tmp_path: Path, method: str, changes: dict[str, Any]) -> None:
    before = VisionPolicy.from_pretrained(start, device="cpu").model.state_dict()
    rows, policy = trained_to_see(start, tmp_path, method, **changes)
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    assert rows[-1]["rows"] > 1  # pictures are told apart
    moved = [name for name, weight in policy.model.state_dict().items() if not torch.equal(weight, before[name])]
    assert any("visual.blocks" in name for name in moved)
    assert any("language_model" in name for name in moved)


#: The next iteration's episodes are played before an update: they stand in the checkpoint.
AHEAD = {"rollout.staleness": 1, "loss.old_logprobs": "recompute", "loss.tis": 2.0}


@pytest.mark.parametrize("changes", [{}, AHEAD], ids=["in turn", "one step ahead"])
def test_a_run_that_is_stopped_goes_on_as_if_it_was_not(start: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    whole, _ = trained_to_see(start, tmp_path / "whole", "grpo", **changes)
    trained_to_see(start, tmp_path / "parts", "grpo", lambda trainer, table, row: row["iteration"] < 1, **changes)
    parts, _ = trained_to_see(start, tmp_path / "parts", "grpo", **changes)
    assert repeatable(parts) == repeatable(whole)


#: Calls of the system that write, by which a run is cut.
WRITES = ("os.fsync", "os.replace", "os.rename")


class Cut(BaseException):
    """What a kill looks like from inside: nothing catches it."""


@pytest.mark.parametrize("error", [Cut(), OSError(errno.ENOSPC, "No space left on device")], ids=["kill", "full disk"])
def test_a_cut_at_any_write_is_made_good_by_resuming(tmp_path: Path, monkeypatch: Any, error: BaseException) -> None:
    settings: dict[str, Any] = {"iterations": 2, "checkpoint.every": 1, "checkpoint.keep": 1, "validation.every": 0}
    settings |= {"envs": corridor(limit=1)}  # what is played and learned does not matter, as long as weights move
    straight, made, number = babbling_policy(), 0, 0
    expected = trainer(straight, folder=tmp_path / "straight", **settings).run()
    assert digest(straight) != digest(babbling_policy())

    def watched(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal made
            made += 1
            if made == number or (made > number and isinstance(error, OSError)):  # a full disk stays full
                raise error
            return real(*arguments, **named)

        return call

    while made >= number:
        number, made = number + 1, 0
        folder = tmp_path / str(number)
        with monkeypatch.context() as patch, contextlib.suppress(type(error)):
            for name in WRITES:
                patch.setattr(name, watched(getattr(os, name.removeprefix("os."))))
            trainer(folder=folder, **settings).run()
        resumed = babbling_policy()
        rows = trainer(resumed, folder=folder, resume=True, **settings).run()
        assert digest(resumed) == digest(straight)
        assert repeatable(rows) == repeatable(read_log(folder / "log.jsonl")) == repeatable(expected)
        assert sorted(path.name for path in folder.iterdir()) == [
            "checkpoint-000002", "final", "log.jsonl", "trainer.lock"
        ]  # fmt: skip
    assert 10 < number < 80


def test_two_trainers_of_one_process_do_not_mix(tmp_path: Path) -> None:
    def second(*_: Any) -> None:
        refuses(LockedError, f"in use by process {os.getpid()}", other.run)

    first, other = trainer(folder=tmp_path, iterations=2), trainer(folder=tmp_path, iterations=2)
    rows = first.run(second)
    saved = (tmp_path / "checkpoint-000002" / "seal.json").read_bytes()
    # It was made when the folder was empty, and would begin anew over a finished run.
    refuses(ValueError, r"another trainer has written to .* make this one again with resume=True", other.run)
    assert (tmp_path / "checkpoint-000002" / "seal.json").read_bytes() == saved
    assert repeatable(read_log(tmp_path / "log.jsonl")) == repeatable(rows)
    assert repeatable(first.run()) == repeatable(rows)


def test_weights_that_are_not_numbers_are_named_before_and_after_an_update(tmp_path: Path) -> None:
    for value in (float("nan"), float("inf")):
        policy = babbling_policy()
        name, weight = list(policy.model.named_parameters())[3]
        with torch.no_grad():
            weight.view(-1)[5] = value
        refuses(FloatingPointError, f"the policy's {name} holds {value}", trainer, policy)
    given = {"learning_rate": 1e39, "loss": {"kl": 0.0}, "optimiser": {"minibatch_rows": 1000}}
    words = r"the update was too large: the policy's model\.\S+ holds (inf|nan)"
    refuses(FloatingPointError, words, trainer(folder=tmp_path, **given).run)
    assert not list(tmp_path.glob("checkpoint*"))
    assert (tmp_path / "trainer.lock").read_text() == ""  # no process is there any more


def test_the_best_policy_and_the_final_one_are_models_of_plain_transformers(tmp_path: Path) -> None:
    policy = babbling_policy()
    rows = trainer(policy, folder=tmp_path, iterations=4, validation_tasks=TASKS, validation={"every": 1}).run()
    final = AutoModelForCausalLM.from_pretrained(tmp_path / "final")
    for name, value in policy.model.state_dict().items():
        assert torch.equal(final.state_dict()[name], value)
    # The first of the iterations with the best greedy validation, the start left out.
    greedy = [row["validation_greedy_success"] for row in rows[1:]]
    assert [path.name for path in tmp_path.glob("best-*")] == [f"best-{1 + greedy.index(max(greedy)):06d}"]
    trainer(folder=tmp_path, iterations=6, validation_tasks=TASKS, resume=True, validation={"every": 1}).run(
        lambda *_: False
    )
    assert not (tmp_path / "final").exists()  # it goes on: what was final is not


def test_what_others_have_put_into_the_folder_of_a_run_stays(tmp_path: Path) -> None:
    for name in ("final", "best-photos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.txt").write_text("mine")
    (tmp_path / "best-of.txt").write_text("mine")
    with pytest.warns(UserWarning, match=r"final held thesis\.txt, .* kept as final\.kept-1$"):
        trainer(folder=tmp_path, iterations=3, validation_tasks=TASKS, validation={"every": 1}).run()
    for name in ("final.kept-1/thesis.txt", "best-photos/thesis.txt", "best-of.txt"):
        assert (tmp_path / name).read_text() == "mine"
    assert len([path for path in tmp_path.glob("best-0*") if path.is_dir()]) == 1


def test_a_run_is_resumed_with_the_policy_that_it_began_with(tmp_path: Path) -> None:
    trainer(folder=tmp_path, iterations=1).run()
    with pytest.raises(ValueError, match=r"start: checkpoint [0-9a-f]{16}, here [0-9a-f]{16}"):
        trainer(babbling_policy(seed=5), folder=tmp_path, iterations=2, resume=True)
    # Without a divergence the start is of no importance: all comes from the checkpoint.
    straight, other = babbling_policy(), babbling_policy(seed=5)
    trainer(straight, folder=tmp_path / "a", iterations=2, loss={"kl": 0.0}).run()
    trainer(folder=tmp_path / "b", iterations=1, loss={"kl": 0.0}).run()
    trainer(other, folder=tmp_path / "b", iterations=2, resume=True, loss={"kl": 0.0}).run()
    assert digest(other) == digest(straight)


def test_a_run_of_an_earlier_version_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"old")
    refuses(ValueError, r"already holds a training run", trainer, folder=tmp_path)
    refuses(ValueError, r"checkpoint\.pt is a checkpoint of an earlier version", trainer, folder=tmp_path, resume=True)
