"""Two processes that share the weights train as one does: what the update's arithmetic promises to any engine.

The rules: a loss is divided by the weight of all tokens of all processes and multiplied by their number, because
gradients are averaged; every process makes as many passes as any other, if need be over rows of weight 0; the norm is
that of the whole gradient. Without the second a process waits for ever: it has 120 seconds.
"""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from baselines.batch import Batch, make_batch
from baselines.config import Loss, Memory, Optimiser, TrainerConfig
from baselines.losses import normaliser
from baselines.update import Limits, _backward
from policies.huggingface import HuggingFacePolicy
from policies.scoring.packed import rows_per_pass
from policies.tiny import tiny_policy
from tests.baselines.corridor_learning import conversations
from tests.playing import filled

ROOT = Path(__file__).resolve().parents[2]
CONFIG = TrainerConfig(
    learning_rate=1e-3,
    loss=Loss(kl=0.0, entropy=0.01),
    memory=Memory(microbatch_tokens=40),
    optimiser=Optimiser(max_grad_norm=0.5),
)
STEPS = 3
#: Rows of each process: the first has transcripts of several passes, the second a single short row.
SHARES = ((0, 1, 2, 3, 4, 5, 6, 7, 8), (9,))


def policy() -> HuggingFacePolicy:
    return tiny_policy(["up down left right"], seed=0, layers=2, width=16, heads=2, kv_heads=1, mlp=32)


def batch() -> Batch:
    """Three conversations of three turns and one row alone; weights and advantages of merged rows."""
    rng, player = np.random.default_rng(0), policy()
    replies = conversations(player, rng, 3, 3) + conversations(player, rng, 1, 1)
    table = filled(replies=replies, trajectory=[0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
    made = make_batch(table, rng.normal(size=len(table)))
    return dataclasses.replace(made, old_logprobs=-4.5 * made.mask, weight=torch.arange(1.0, len(made) + 1))


def passes(whole: Batch, rows: tuple[int, ...], count: int = 0) -> list[Batch]:
    """The passes over some rows, filled up to a number with passes that weigh nothing."""
    chosen = rows_per_pass([whole.prompts[r] for r in rows], [whole.replies[r] for r in rows], 40)
    parts = [whole.take([rows[i] for i in each]) for each in chosen]
    columns = ("weight", "positive", "negative", "positive_weight", "negative_weight")
    empty = dataclasses.replace(whole.take([rows[0]]), **dict.fromkeys(columns, torch.zeros(1)))
    return parts + [empty] * (count - len(parts))


def train(player: HuggingFacePolicy, parts: list[Batch], divisor: float) -> list[float]:
    """AdamW steps over the same passes; returns the gradient norms."""
    optimizer, norms = torch.optim.AdamW(player.model.parameters(), lr=CONFIG.learning_rate), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        for part in parts:
            _backward(player, part, None, None, divisor, CONFIG, Limits.of(player, CONFIG.memory), None)
        norm = nn.utils.clip_grad_norm_(player.model.parameters(), CONFIG.optimiser.max_grad_norm)
        norms.append(float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm))
        optimizer.step()
    return norms


def worker(rank: int, folder: Path) -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    world = len(SHARES)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    player, whole = policy(), batch()
    mesh = init_device_mesh("cpu", (world,))
    for layer in player.model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(player.model, mesh=mesh)
    count = max(len(passes(whole, rows)) for rows in SHARES)
    assert len(passes(whole, SHARES[1])) < count
    total = float(normaliser(whole.mask, whole.weight, CONFIG.loss.aggregation))
    norms = train(player, passes(whole, SHARES[rank], count), total / world)
    weights = {name: value.full_tensor() for name, value in player.model.named_parameters()}
    if rank == 0:
        torch.save(weights, folder / "weights.pt")
        (folder / "norms.json").write_text(json.dumps(norms))
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], env=environment, cwd=ROOT, check=False, timeout=900,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout

    alone, whole = policy(), batch()
    start = {name: value.detach().clone() for name, value in alone.model.named_parameters()}
    rows = tuple(range(len(whole)))
    norms = train(alone, passes(whole, rows), float(normaliser(whole.mask, whole.weight, CONFIG.loss.aggregation)))
    assert json.loads((tmp_path / "norms.json").read_text()) == pytest.approx(norms, rel=1e-5)
    found = torch.load(tmp_path / "weights.pt")
    assert found.keys() == start.keys()
    moved = max(float((value.detach() - start[name]).abs().max()) for name, value in alone.model.named_parameters())
    assert moved > 2e-3  # three steps of the learning rate
    for name, value in alone.model.named_parameters():
        torch.testing.assert_close(found[name], value.detach(), atol=2e-6, rtol=0)


if __name__ == "__main__":
    # What is imported serves both processes; neither has computed anything yet.
    other = os.fork()
    worker(int(not other), Path(sys.argv[1]))
    if other:
        sys.exit(os.waitpid(other, 0)[1] != 0)
