"""Recorded decode steps against the plain loop, under schedules that nobody thought of."""

import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from policies.decode import batch, graph
from policies.decode.batch import KeyedBatch
from policies.decode.graph import StepGraphs
from policies.decode.kept import KeptKeys
from tests.policies.decode.test_loop import qwen

WAITS = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default}


class Tape(TorchDispatchMode):
    """A step's operations with the tensors they read and write: like a CUDA graph, it knows addresses and no Python."""

    def __init__(self, step: Any, pool: Any) -> None:
        super().__init__()
        self._calls: list[tuple[Any, Any, Any, Any]] = []
        step.__self__.repeat()  # recording runs the step here, so it is the last one once more
        with self:
            step()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in WAITS:
            raise RuntimeError("operation not permitted when stream is capturing")
        found = func(*args, **(kwargs or {}))
        self._calls.append((func, args, kwargs or {}, found))
        return found

    def __call__(self) -> None:
        for func, args, kwargs, found in self._calls:
            for old, new in zip(tree_leaves(found), tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@dataclass
class Twins:
    """A batch with graphs, the same one without, and the tokens of their rows."""

    recorded: KeyedBatch
    plain: KeyedBatch
    rows: list[list[int]]

    def append(self, tokens: list[int]) -> None:
        for row, token in zip(self.rows, tokens, strict=True):
            row.append(token)
        for each in (self.recorded, self.plain):
            each.append(torch.tensor(tokens))
        self.check()

    def keep(self, rows: list[int]) -> None:
        for row, tokens in enumerate(self.rows):
            if row not in rows:
                self.recorded.store(row, tuple(tokens))
        (order, chosen), (same, _) = self.recorded.keep(rows), self.plain.keep(rows)
        assert order == same == chosen.tolist()
        self.rows = [self.rows[row] for row in order]

    def join(self, other: "Twins") -> None:
        self.recorded.join(other.recorded)
        self.plain.join(other.plain)
        self.rows += other.rows
        self.check()

    def check(self) -> None:
        torch.testing.assert_close(self.recorded.logits, self.plain.logits, atol=2e-5, rtol=2e-5)


@dataclass
class Schedule:
    """Random batches of two models over the same graphs: they begin, grow, shrink, join, take turns and end."""

    rng: np.random.Generator
    models: list[Any]
    graphs: StepGraphs = field(default_factory=StepGraphs)
    live: list[tuple[int, Twins]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._kept = [KeptKeys(2**20) for _ in self.models]
        self._known: list[list[int]] = []

    def tokens(self, size: int) -> list[int]:
        found: list[int] = self.rng.integers(4, 40, size=size).tolist()
        return found

    def begun(self, model: int) -> Twins:
        rows = [self.tokens(self.rng.integers(1, 14)) for _ in range(self.rng.integers(1, 7))]
        for row in range(len(rows)):  # as the next turns of what was played, and forks of it
            if self._known and self.rng.random() < 0.5:
                rows[row] = [*self._known[self.rng.integers(len(self._known))], *rows[row]][:40]
        prompts, room = [tuple(row) for row in rows], int(self.rng.integers(1, 6))
        recorded = KeyedBatch(self.models[model], prompts, self._kept[model], graphs=self.graphs, room=room)
        twins = Twins(recorded, KeyedBatch(self.models[model], prompts), rows)
        twins.check()
        return twins

    def step(self) -> None:
        what = str(
            self.rng.choice(["begin", "grow", "keep", "join", "end", "clear"], p=[0.15, 0.4, 0.15, 0.13, 0.12, 0.05])
        )
        if not self.live or (what == "begin" and len(self.live) < 3):
            what, model = "begin", int(self.rng.random() < 0.15)
            self.live.append((model, self.begun(model)))
        elif what == "clear":
            self.graphs.clear()
        else:
            place = int(self.rng.integers(len(self.live)))
            model, twins = self.live[place]
            count = len(twins.rows)
            if what == "end":
                del self.live[place]
            elif what == "keep" and count > 1:
                self._known += [list(row) for row in twins.rows]
                left = sorted(self.rng.choice(count, size=self.rng.integers(1, count), replace=False).tolist())
                twins.keep(left)
                twins.append(self.tokens(len(left)))
            elif what == "join" and count < 12:
                twins.append(self.tokens(count))
                twins.join(self.begun(model))
            else:
                what = "grow"
                for _ in range(self.rng.integers(1, 7)):
                    twins.append(self.tokens(count))
        self.done[what] += 1


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Steps are recorded on tapes; how often they were replayed."""
    found = Counter[str]()

    class Counted(Tape):
        def __call__(self) -> None:
            found["replays"] += 1
            super().__call__()

    monkeypatch.setattr(graph, "record", Counted)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    return found


@pytest.mark.filterwarnings("error:CUDA graphs")
@pytest.mark.parametrize("seed", range(8))
@torch.no_grad()
def test_any_schedule_gives_the_logits_of_the_plain_loop(
    monkeypatch: pytest.MonkeyPatch, replays: Counter[str], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(graph, "COLUMNS", 8)
    monkeypatch.setattr(batch, "_ROOM", 2)
    monkeypatch.setattr(graph, "_PAID", int(rng.choice([1, 3, 8])))
    monkeypatch.setattr(graph, "_SPARE", int(rng.choice([1, 2, 4])))
    other = qwen()
    other.load_state_dict({name: -value for name, value in other.state_dict().items()})
    schedule = Schedule(rng, [qwen(), other])
    for _ in range(120):
        schedule.step()
    assert schedule.graphs.works
    assert replays["replays"] > 20
    assert min(schedule.done[what] for what in ("begin", "grow", "keep", "join", "end", "clear")) > 0


@pytest.mark.filterwarnings("error:CUDA graphs")
@torch.no_grad()
def test_rows_that_have_ended_are_not_compared_when_a_step_is_recorded(replays: Counter[str]) -> None:
    """They see columns that another batch has written meanwhile, and do not when the step is repeated."""
    model, graphs = qwen(), StepGraphs()
    one, other = (KeyedBatch(model, [(4 + row,) * size for row in range(5)], graphs=graphs) for size in (2, 130))
    for step in range(graph._PAID + 2):
        if step == 1:
            one.keep([0, 1, 2])
        for each in (one, other):
            each.append(torch.arange(len(each._lengths)) + step)
    assert graphs.works
    # The comparison and two steps of each, less one: the first is counted anew when the storage has grown.
    assert replays["replays"] == 2 * (1 + 2) - 1


@torch.no_grad()
def test_shapes_share_room_for_logits_and_what_is_replaced_is_freed(replays: Counter[str]) -> None:
    model, graphs = qwen(), StepGraphs()
    first = KeyedBatch(model, [(4 + row, 7) for row in range(8)], graphs=graphs, room=1)
    first.append(torch.arange(8) + 9)
    held = weakref.ref(graphs._storage.untyped_storage())
    first.keep([0, 1])
    while first._width < 65:
        first.append(torch.tensor([5, 6]))
    # Two rows of 192 columns fit where eight of 64 were. The storage does not grow for rows that have ended.
    assert [(shape.rows, shape.columns) for shape in graphs._shapes.values()] == [(8, 64), (2, 192)]
    assert graphs._storage.untyped_storage() is held()
    (place,) = {shape.logits.data_ptr() for shape in graphs._shapes.values()}
    assert place == graphs._logits.data_ptr()
    del first
    KeyedBatch(model, [(4,) * 300] * 8, graphs=graphs)
    assert held() is None  # before the larger batch has taken a step
