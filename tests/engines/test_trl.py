"""TRL trains on the house's advantages: its gradient is ours. Run by `./do engines trl`, in a separate environment."""

import functools
import math
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

trl = pytest.importorskip("trl", reason="needs TRL in an environment of its own: ./do engines trl")

import agentgym  # noqa: E402, F401
from baselines.batch import make_batch  # noqa: E402
from baselines.config import Loss, Optimiser, TrainerConfig  # noqa: E402
from baselines.engines import prompting  # noqa: E402
from baselines.engines.sequences import token_sequences  # noqa: E402
from baselines.engines.trl import CreditGRPO, _steps, _turns  # noqa: E402
from baselines.recipes import recipe  # noqa: E402
from baselines.recipes.definition import Recipe  # noqa: E402
from baselines.update import update  # noqa: E402
from policies.tiny import tiny_policy  # noqa: E402
from tests.refusals import refuses  # noqa: E402
from wrappers import VectorPromptWindow, VectorReplyParser, VectorTranscript  # noqa: E402
from wrappers.tools import tool_environment  # noqa: E402

pytestmark = pytest.mark.engines
ROOT = Path(__file__).parents[2]
TASKS = [{"split": "train", "index": index} for index in range(8)]


class Recorded:
    """A recipe that keeps what it was asked and what it answered."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.tables, self.advantages = recipe, [], []

    def __getattr__(self, name: str):
        return getattr(self.recipe, name)

    def __call__(self, table):
        self.tables.append(table)
        self.advantages.append(self.recipe(table))
        return self.advantages[-1]


def _trainer(folder, credit, *, wrapper=VectorTranscript, steps=3, **changes) -> CreditGRPO:
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=16, autoreset_mode="Disabled", max_episode_steps=10)
    envs = wrapper(VectorReplyParser(envs))
    texts = [messages[-1]["content"] for messages in envs.reset(seed=0)[0]]
    options = {
        "output_dir": str(folder), "per_device_train_batch_size": 16, "num_generations": 8, "max_steps": steps,
        "learning_rate": 1e-3, "beta": 0.0, "loss_type": "dapo", "epsilon_high": 0.28, "temperature": 1.0,
        "use_cpu": True, "report_to": [], "save_strategy": "no", "logging_steps": 1, "bf16": False,
        "gradient_checkpointing": False, "disable_tqdm": True,
    }  # fmt: skip
    policy, args = tiny_policy(texts, seed=0, positions=4096), trl.GRPOConfig(**options | changes)
    return CreditGRPO(policy=policy, envs=envs, credit=credit, tasks=TASKS, args=args)


def test_the_gradient_is_the_houses(tmp_path) -> None:
    # An untrained policy wins nothing: numbers drawn at random differ from step to step all the same.
    credit = Recorded(Recipe("noise", lambda table: np.random.default_rng(0).normal(size=len(table))))
    trainer = _trainer(tmp_path, credit)
    model = trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    batch = trainer._generate_and_score_completions([dict(row) for row in trainer.train_dataset for _ in range(8)][:16])
    assert max(len(set(row[row != 0].tolist())) for row in batch["advantages"]) > 3
    trainer._compute_loss(model, batch).backward()
    theirs = torch.cat([weight.grad.flatten() for weight in model.parameters()]).double()
    table, advantages = credit.tables[0], credit.advantages[0].copy()
    # This policy writes tokens that show as nothing: texts coincide, and TRL gets the longest piece of such a rollout.
    longest: dict[int, tuple[int, ...]] = {}
    for one in token_sequences(table, advantages):
        longest[one.trajectory] = max(one.rows, longest.get(one.trajectory, ()), key=len)
    kept = [row for rows in longest.values() for row in rows]
    assert len(kept) > 0.7 * len(table)
    advantages[np.setdiff1d(np.arange(len(table)), kept)] = np.nan
    config = TrainerConfig(
        temperature=1.0, loss=Loss(kl=0.0, clip_high=0.28), optimiser=Optimiser(minibatch_rows=10**6, max_grad_norm=1e9)
    )
    found, optimizer = [], torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.register_step_pre_hook(lambda *_: found.extend(weight.grad.flatten() for weight in model.parameters()))
    update(trainer._policy, optimizer, make_batch(table, advantages, merge=False), config, np.random.default_rng(0))
    ours = torch.cat(found).double()
    cosine = torch.nn.functional.cosine_similarity(ours, theirs, dim=0).item()
    print(f"{len(kept)} of {len(table)} steps, cosine {cosine:.7f}, ratio of norms {theirs.norm() / ours.norm():.7f}")
    assert cosine > 1 - 1e-6
    torch.testing.assert_close(theirs, ours, atol=1e-6 * ours.abs().max().item(), rtol=1e-4)


def test_three_iterations_train_and_are_the_same_again(tmp_path) -> None:
    ends = []
    for folder in ("a", "b"):
        trainer = _trainer(tmp_path / folder, recipe("graphgpo"))
        start = [weight.detach().clone() for weight in trainer.model.parameters()]
        trainer.train()
        ends.append([weight.detach().clone() for weight in trainer.model.parameters()])
        assert any((a != b).any() for a, b in zip(start, ends[-1], strict=True))
        logged = [row for row in trainer.state.log_history if "rollout/success" in row]
        assert len(logged) == 3
        assert all(row["rollout/steps"] >= 1 and row["rollout/left_out"] < 0.5 for row in logged)
        assert all(math.isfinite(row["loss"]) for row in logged)
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_the_lines_of_the_page_train(tmp_path, monkeypatch) -> None:
    page = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"The same in Python:\n\n(.*?trainer\.train\(\)\n)", page, re.DOTALL)
    texts = [message["content"] for message in prompting("AgentRL/Sokoban-v0", 1).reset(seed=0)[0][0]]
    tiny_policy(texts, seed=0, positions=4096).save_pretrained(tmp_path / "DIR")
    monkeypatch.chdir(tmp_path)
    short = functools.partial(trl.GRPOConfig, max_steps=2, use_cpu=True, logging_steps=1)
    monkeypatch.setattr(trl, "GRPOConfig", short)
    scope: dict = {}
    exec(textwrap.dedent(lines), scope)
    logged = [row for row in scope["trainer"].state.log_history if "rollout/success" in row]
    assert len(logged) == 2
    assert all(math.isfinite(row["loss"]) for row in logged)


def test_trls_own_tool_calls_learn_by_credit_for_steps() -> None:
    done = subprocess.run(
        [sys.executable, "examples/train_with_trl.py"], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    won = [float(one) for one in re.findall(r"^success ([\d.]+)", done.stdout, re.MULTILINE)]
    print(f"success {won}")
    assert len(won) == 3
    assert won[0] < won[-1]


def test_turns_of_tool_calls_are_the_steps_of_an_episode() -> None:
    def make():
        return gym.make("AgentRL/Corridor-v0", length=2, expert=True)

    env, plain = tool_environment(make)(), make()
    env.reset(split="train", index=0)
    ways = [plain.reset(options={"split": "train", "index": 0})[1]["expert_action"]]
    wrong = next(way for way in ("north", "east") if way != ways[0])
    ways.append(plain.step(ways[0])[-1]["expert_action"])
    said = [{"role": "assistant", "content": "a"}]
    # Two calls of a turn, beside one of a tool that is not the environment's.
    said += [{"role": "tool", "name": "act", "content": env.act(way)} for way in (wrong, ways[0])]
    said += [{"role": "tool", "name": "other", "content": "{}"}, {"role": "assistant", "content": "b"}]
    one, two = (_steps(env, range(6), [(0, 3), (5, 6)][:turns], said[: 1 + 4 * (turns - 1)]) for turns in (1, 2))
    assert [(step["action"], step["start"], step["stop"]) for step in one] == [(f"{wrong}\n{ways[0]}", 0, 3)]
    # A turn without a call ends the episode, and is not accepted.
    assert [(step["state"], step["next_state"], step["valid"], step["truncated"]) for step in two] == [
        ("0", "1", True, False), ("1", "1", False, True),
    ]  # fmt: skip
    said.append({"role": "tool", "name": "act", "content": env.act(ways[1])})
    said.append({"role": "assistant", "content": "after the end"})
    *_, last = _steps(env, range(8), _turns([1, 1, 1, 0, 0, 1, 0, 1]), said)
    assert (last["start"], last["reward"]) == (5, 1.0)
    assert (last["won"], last["terminated"], last["truncated"]) == (True, True, False)


class TwoProcesses(trl.GRPOConfig):
    """As TRL sees itself in the first of two processes."""

    world_size = 2


def test_what_does_not_fit_is_refused(tmp_path, monkeypatch) -> None:
    for name in ("ppo", "dapo"):
        refuses(ValueError, f"{name} needs a scorer or plays groups again", _trainer, tmp_path, recipe(name))
    trainer = _trainer(tmp_path, recipe("grpo"), wrapper=VectorPromptWindow)
    refuses(ValueError, "a rollout must be one sequence", trainer.train)
    refuses(ValueError, "TRL's batch splits groups of 8", lambda: trainer.rollout(["{}"] * 7 + ['{"index": 1}'] * 9))
    monkeypatch.setattr(trl, "GRPOConfig", TwoProcesses)
    words = "scales by the whole batch, which 2 processes do not see"
    refuses(ValueError, words, _trainer, tmp_path, recipe("reinforce_plus_plus"))


def test_another_release_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.17.2")
    refuses(RuntimeError, r"tested with trl 1.16, found 1.17.2", lambda: _trainer(tmp_path, recipe("grpo")))
