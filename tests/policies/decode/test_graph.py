"""Decode steps of few shapes, without the graphs that only a GPU records: the logits are those of exact shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from policies.decode import batch, graph, reading
from policies.decode.batch import KeyedBatch
from policies.decode.continuous import Continuous, Request
from policies.decode.graph import StepGraphs
from policies.decode.loop import LoopSampler
from tests.policies.decode.test_loop import SETTINGS, play, qwen


@pytest.fixture
def recorded(monkeypatch):
    """Shapes that were recorded; a replay runs the step itself."""
    found = []

    def record(step, pool):
        shape = step.__self__
        found.append((shape.rows, shape.columns))
        return step

    monkeypatch.setattr(graph, "record", record)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    return found


@pytest.mark.parametrize(("few", "most"), [(256, 2**16), (4, 2**16), (0, 2**16), (256, 9), (256, 3)])
def test_replies_are_those_of_exact_shapes(recorded, monkeypatch, few, most):
    """Rows with more than `few` new tokens are read one by one; a pass reads `most`."""
    monkeypatch.setattr(reading, "_FEW", few)
    monkeypatch.setattr(batch, "READ_TOKENS", most)
    model = qwen()
    expected, _ = play(LoopSampler(model, reuse=True), turns=9, rows=8)
    sampler = LoopSampler(model, reuse=True, graphs=True)
    found, _ = play(sampler, turns=9, rows=8)
    assert [one.token_ids for one in found] == [one.token_ids for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert {columns for _, columns in recorded} == {64, 128, 192}
    assert {rows for rows, _ in recorded} == {4, 3, 2, 1}  # four side by side; fewer where half have ended
    before = len(recorded)
    sampler.forget()
    assert [one.token_ids for one in play(sampler, turns=9, rows=8)[0]] == [one.token_ids for one in expected]
    assert len(recorded) == before + len(set(recorded))  # the tensors have their last size at once


def test_rows_leave_and_join_and_two_queues_take_turns(recorded):
    """Each queue's keys are copied out of the common tensors when the other takes them over."""
    model, rng = qwen(), np.random.default_rng(3)
    prompts = [tuple(rng.integers(4, 40, size=size).tolist()) for size in (3, 60, 9, 30, 5, 12, 7, 33)]
    draws = rng.random((8, 6))
    expected = LoopSampler(model, reuse=False).write(prompts, draws, SETTINGS)
    graphs, found = StepGraphs(), {}
    queues = [Continuous(model, SETTINGS, graphs=graphs) for _ in range(2)]
    for number, prompt in enumerate(prompts):
        queues[number % 2].put(Request(number, prompt, draws[number]))
    left = [4, 4]
    while any(left):
        for place, queue in enumerate(queues):
            if left[place]:
                done = queue.get()
                found |= dict(done)
                left[place] -= len(done)
    assert [found[number].token_ids for number in range(8)] == [one.token_ids for one in expected]


def test_graphs_are_dropped_with_their_weights(recorded):
    model, other, graphs = qwen(), qwen(attention_dropout=0.1), StepGraphs()
    other.load_state_dict({name: -value for name, value in model.state_dict().items()})
    tokens = torch.tensor([5, 6])

    def after(policy, steps):
        batch = KeyedBatch(policy, [(4, 7), (4, 8, 9)], graphs=steps)
        batch.append(tokens)
        return batch.logits.clone()

    with torch.no_grad():
        for each in (model, other, model):
            torch.testing.assert_close(after(each, graphs), after(each, None), atol=1e-5, rtol=1e-5)
    assert recorded == [(2, 128)] * 3
    graphs.clear()
    assert graphs._storage is None


@pytest.mark.parametrize("what", ["cannot be recorded", "replays other logits"])
def test_a_step_that_is_not_repeated_runs_without_a_graph(recorded, monkeypatch, what):
    def record(step, pool):
        if what == "cannot be recorded":
            raise RuntimeError("operation not permitted when stream is capturing")
        return lambda: step.__self__.logits.mul_(1.5)

    monkeypatch.setattr(graph, "record", record)
    model = qwen()
    expected, _ = play(LoopSampler(model, reuse=True))
    with pytest.warns(UserWarning, match=r"CUDA graphs of decode steps are not used.*(capturing|5\.0e-01)"):
        found, _ = play(LoopSampler(model, reuse=True, graphs=True))
    assert [one.token_ids for one in found] == [one.token_ids for one in expected]
