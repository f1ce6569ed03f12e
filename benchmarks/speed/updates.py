"""`speed updates`: an update of a language model on the same rows, with the default settings and without, and in TRL.

TRL's figure is the loss, its gradient and the step alone, of rows that are in its memory already. Seconds are counted
as in `speed rollouts`: the ways alternate, and the fastest of some rounds counts.
"""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from agentgym.trajectory import StepTable
from baselines.batch import make_batch
from baselines.config import Loss, Memory, Optimiser, TrainerConfig
from baselines.engines import prompting
from baselines.imitation.cloning import demonstrations, imitate
from baselines.recipes.definition import Recipe
from baselines.update import make_optimizer, update
from benchmarks.console import option
from benchmarks.speed.record import Comparison, Measurement, Part, SpeedConfig, speed_study
from benchmarks.speed.rollouts import checked_names, distinct_tokens, play, policy_of, replies_of, seconds
from policies.huggingface import HuggingFacePolicy

PARTS = {
    "transcripts": "transcripts of several turns",
    "replies": "replies to one prompt",
    "cloning": "an expert's steps with their windows, an epoch of cloning",
}
WAYS = {
    "auto": "here, default settings",
    "rows": "here, each row by itself (microbatch_tokens=None, microbatch_rows=1)",
    "trl": "TRL, all rows in a pass",
    "trl_rows": "TRL, a pass for each row",
}
RATE = 1e-6


def ours(policy: Any, table: StepTable, advantages: np.ndarray, memory: Memory) -> Callable[[], Any]:
    """Return what makes one step on all rows."""
    every = Optimiser(minibatch_rows=len(table))
    config = TrainerConfig(learning_rate=RATE, loss=Loss(kl=0.0, clip_high=0.28), optimiser=every, memory=memory)
    optimizer, rng = make_optimizer(policy.model, config), np.random.default_rng(0)
    return lambda: update(policy, optimizer, make_batch(table, advantages), config, rng)


def theirs(policy: HuggingFacePolicy, table: StepTable, advantages: np.ndarray, folder: str) -> Callable[[int], None]:
    """Return what makes the same step in TRL, in passes of so many rows."""
    from trl import GRPOConfig

    from baselines.engines.trl import CreditGRPO

    class Replayed(CreditGRPO):
        def play(self, *given: Any) -> StepTable:
            return table

    rows = table.n_trajectories
    args = GRPOConfig(
        folder, per_device_train_batch_size=rows, num_generations=rows, learning_rate=RATE, loss_type="dapo", beta=0.0,
        epsilon_high=0.28, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], save_strategy="no",
    )  # fmt: skip
    credit = Recipe("given", lambda _: advantages)
    trainer = Replayed(policy=policy, envs=prompting("AgentRL/Sokoban-v0", 1), credit=credit, tasks=[{}], args=args)
    trainer.current_gradient_accumulation_steps = 1
    trainer.create_optimizer()
    batch = trainer._generate_and_score_completions([dict(trainer.train_dataset[0]) for _ in range(rows)])
    model = trainer.model.train()

    def step(size: int) -> None:
        for low in range(0, rows, size):
            part = {
                name: column[low : low + size] if isinstance(column, torch.Tensor) and column.dim() else column
                for name, column in batch.items()
            }
            trainer._compute_loss(model, part).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        trainer.optimizer.step()
        model.zero_grad(set_to_none=True)

    return step


def cloning(policy: HuggingFacePolicy, rows: list[Any], memory: Memory) -> Callable[[], Any]:
    """Return an epoch of one step."""
    return lambda: imitate(
        policy, rows, epochs=1, seed=0, batch_size=len(rows), microbatch_rows=memory.microbatch_rows,
        microbatch_tokens=memory.microbatch_tokens, learning_rate=RATE, warmup=0,
    )  # fmt: skip


def measure(config: SpeedConfig, part: str, folder: Path) -> Part:
    """Measure the ways of one part."""
    model, transcripts, turns, replies, new, rounds, chosen = (
        config.options[name] for name in ("model", "transcripts", "turns", "replies", "new_tokens", "rounds", "ways")
    )
    make, skipped = functools.partial(policy_of, model, new, True), list[str]()
    policy = make()
    with tempfile.TemporaryDirectory() as work:
        if part == "cloning":
            envs = prompting("AgentRL/Sokoban-v0", 8, transcript=False, expert=True)
            tasks = [{"split": "train", "index": index} for index in range(transcripts * turns)]
            read = demonstrations(policy, envs, tasks, seed=0)[: transcripts * turns]
            ways = {"auto": cloning(policy, read, Memory()), "rows": cloning(policy, read, Memory(1, None))}
        else:
            groups, size, steps = (transcripts, 1, turns) if part == "transcripts" else (1, replies, 1)
            table, _, _ = play(policy, groups, steps, size)
            read = replies_of(table)
            advantages = np.random.default_rng(0).normal(size=len(table))
            ways = {
                "auto": ours(policy, table, advantages, Memory()),
                "rows": ours(policy, table, advantages, Memory(1, None)),
            }
            try:
                if "trl" in chosen:
                    step = theirs(make(), table, advantages, work)
                    ways |= {"trl": lambda: step(table.n_trajectories), "trl_rows": lambda: step(1)}
            except ImportError as error:
                skipped.append(f"{PARTS[part]}: TRL ({error})")
        policy.forget()
        ways = {name: way for name, way in ways.items() if name in chosen.split(",")}
        least = dict.fromkeys(ways, float("inf"))
        for _ in range(rounds):
            for name, work_of in ways.items():
                begin = seconds(policy.device)
                work_of()
                least[name] = min(least[name], seconds(policy.device) - begin)
    of_rows = sum(len(reply.prompt_ids) + len(reply.token_ids) for reply in read)
    what = f"{PARTS[part]}: {len(read)} rows, {of_rows:,} tokens, {distinct_tokens(read):,} distinct"
    return Part(
        [
            Measurement(f"{part}_{name}", what, WAYS[name], not name.startswith("trl"), spent, "s")
            for name, spent in least.items()
        ],
        skipped,
    )


def configure(
    model: Annotated[str, option("smollm2, tiny, or a model's folder.")] = "smollm2",
    transcripts: Annotated[int, option("Episodes of several turns.", min=2)] = 4,
    turns: Annotated[int, option("Turns of an episode.", min=1)] = 12,
    replies: Annotated[int, option("Replies to one prompt.", min=2)] = 12,
    new_tokens: Annotated[int, option("Maximum tokens of a reply.", min=2)] = 12,
    rounds: Annotated[int, option("Repetitions of each way; the fastest counts.", min=1)] = 3,
    parts: Annotated[str, option("Names, separated by commas.")] = ",".join(PARTS),
    ways: Annotated[str, option("Names, separated by commas.")] = ",".join(WAYS),
    quick: Annotated[bool, option("A few short rows of the tiny model; for CI.", "--quick")] = False,
) -> SpeedConfig:
    """Compare updates in batches, row by row, and in TRL if it is installed."""
    if quick:
        model, transcripts, turns, replies, new_tokens, rounds = "tiny", 2, 3, 3, 4, 1
    options = {
        "model": model, "transcripts": transcripts, "turns": turns, "replies": replies, "new_tokens": new_tokens,
        "rounds": rounds, "ways": ways,
    }  # fmt: skip
    checked_names("--ways", ways, WAYS)
    return SpeedConfig(checked_names("--parts", parts, PARTS), options)


STUDY = speed_study(
    "updates", "Updates of a language model", configure, measure,
    [
        Comparison(f"{part}_auto", f"{part}_{way}", f"default settings over {WAYS[way]}")
        for part in PARTS for way in WAYS if way != "auto"
    ],
)  # fmt: skip
