"""The loop that decodes, its cache, and its recorded graphs under schedules that nobody thought of."""

import gc
import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from policies.decode import batch, cache, graph, reading
from policies.decode.batch import KeyedBatch, takes_runs
from policies.decode.cache import LogitsCache
from policies.decode.graph import StepGraphs
from policies.decode.kept import KeptKeys
from policies.decode.loop import LoopSampler
from policies.decode.sampler import Decoding
from policies.huggingface import HuggingFacePolicy
from policies.tiny import tiny_policy
from tests.policies.agreement import check_written
from tests.policies.small_models import small_model
from wrappers import VectorReplyParser, VectorTranscript

SETTINGS = Decoding(0.8, 6, lambda ids: ids[-1] % 5 == 3, 0, 4)


def qwen(**options):
    sizes = {"hidden_size": 16, "intermediate_size": 24, "initializer_range": 0.5, "max_position_embeddings": 512}
    return small_model(**sizes, **options)


def play(sampler, *, turns=4, rows=6, forget=False):
    """Transcripts of two tasks: each prompt goes on behind the last and its reply."""
    rng = np.random.default_rng(0)
    prompts = [tuple(rng.integers(4, 40, size=9).tolist())[: 9 - row % 2] for row in range(2)] * (rows // 2)
    written, distinct = [], set()
    for _ in range(turns):
        done = sampler.write(prompts, rng.random((rows, 6)), SETTINGS)
        written += done
        whole = [(*prompt, *one.token_ids) for prompt, one in zip(prompts, done, strict=True)]
        distinct |= {ids[:end] for ids in whole for end in range(1, len(ids))}
        prompts = [(*ids, *rng.integers(4, 40, size=3).tolist()) for ids in whole]
        if forget:
            sampler.forget()
    return written, distinct


def test_turns_are_read_once_and_the_replies_are_those_of_whole_prompts():
    model = qwen()
    naive, reusing = LoopSampler(model, reuse=False), LoopSampler(model, reuse=True)
    expected, distinct = play(naive)
    check_written(play(reusing)[0], expected)
    counts = reusing.counts
    assert counts.prompts == naive.counts.prompts
    assert counts.read + counts.written <= 1.1 * len(distinct)  # equal prompts whose replies begin alike
    assert naive.counts.read > 3 * counts.read
    forgetful = LoopSampler(model, reuse=True)
    check_written(play(forgetful, forget=True)[0], expected)
    assert forgetful.counts.read > 2 * counts.read


def test_replies_of_one_token_are_read_once_as_well():
    model, one = qwen(), Decoding(0.8, 1, lambda ids: True, 0, 4)
    prompts = [tuple(range(4, 10 + row)) for row in range(5)]
    draws = np.random.default_rng(1).random((5, 1))
    naive, reusing = LoopSampler(model, reuse=False), LoopSampler(model, reuse=True)
    check_written(reusing.write(prompts, draws, one), naive.write(prompts, draws, one))
    assert (reusing.counts.read, naive.counts.read) == (10, 4 * 9 + 10)  # rectangles of four and of one


def test_other_weights_have_other_keys():
    model = qwen()
    sampler, prompt = LoopSampler(model, reuse=True), [tuple(range(4, 12))]
    draws = np.full((1, 6), 0.5)
    sampler.write(prompt, draws, SETTINGS)
    read = sampler.counts.read
    sampler.write(prompt, draws, SETTINGS)
    assert sampler.counts.read == read + 1
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    model(input_ids=torch.tensor(prompt), labels=torch.tensor(prompt)).loss.backward()
    for change in (optimiser.step, lambda: model.load_state_dict(qwen().state_dict()), model.lm_head.weight.data.neg_):
        change()
        expected = LoopSampler(model, reuse=False).write(prompt, draws, SETTINGS)
        read = sampler.counts.read
        assert sampler.write(prompt, draws, SETTINGS)[0].token_ids == expected[0].token_ids
        assert sampler.counts.read == read + 8


def test_an_optimiser_of_another_model_leaves_the_version():
    model, other = qwen(), torch.nn.Linear(1, 1)
    before = cache.weights_version(model)
    other.weight.grad = torch.ones_like(other.weight)
    torch.optim.SGD(other.parameters(), lr=1.0).step()
    assert cache.weights_version(model) == before != cache.weights_version(qwen())
    first, second = model.model.layers[0].mlp.up_proj.weight, model.model.layers[1].mlp.up_proj.weight
    held = first.data.clone()
    first.data.copy_(held.flip(0))  # of the same sum, and seen by no counter
    assert cache.weights_version(model) != before
    model.model.layers[0].mlp.up_proj.weight = torch.nn.Parameter(second.detach().t().contiguous().t())
    assert model.model.layers[0].mlp.up_proj.weight.is_contiguous() is False
    last = cache.weights_version(model)
    model.model.layers[0].mlp.up_proj.weight.data[0, 0] += 1.0
    assert cache.weights_version(model) != last


def test_sequences_share_their_beginnings_and_the_oldest_ends_are_dropped():
    def keys(tokens, scale=1.0):
        return torch.tensor(tokens, dtype=torch.float32)[None, None, None, :, None].expand(2, 2, 1, -1, 1) * scale

    token = 4 * 4  # bytes: two layers, keys and values
    kept = KeptKeys(8 * token)
    kept.add((1, 2, 3, 4), keys((1, 2, 3, 4)))
    kept.add((1, 2, 5), keys((1, 2, 5)))  # cuts the first in two
    assert kept.bytes == 5 * token
    count, pieces = kept.find((1, 2, 3, 4, 9))
    assert count == 4
    assert torch.equal(torch.cat(pieces, 3), keys((1, 2, 3, 4)))
    assert kept.find((1, 2, 5))[0] == 2  # the last token is read for its logits
    kept.add((7, 8, 9, 6), keys((7, 8, 9, 6)))
    assert kept.bytes == 8 * token
    assert [kept.find((*tokens, 0))[0] for tokens in ((1, 2, 5), (1, 2, 3, 4), (7, 8, 9, 6))] == [2, 4, 4]
    kept.add((1,) * 20, keys((1,) * 20))  # larger than all
    assert kept.bytes == 8 * token
    held = weakref.ref(kept._roots[1].keys)
    gc.disable()  # the memory is free at once, also where runs refer to each other
    try:
        kept.at(1)
        assert held() is None
    finally:
        gc.enable()
    assert (kept.bytes, kept.find((1, 2, 3))[0]) == (0, 0)


def test_forks_of_an_environment_share_what_was_read_of_their_parent():
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=3, autoreset_mode="Disabled")
    envs = VectorTranscript(VectorReplyParser(envs))
    plain = tiny_policy(["####\n#PO#\n####"], seed=0, layers=1, positions=2048, max_new_tokens=3)
    policy = HuggingFacePolicy(plain.model, plain.tokenizer, reuse=True, **vars(plain.settings))
    observations, _ = envs.reset(seed=0)
    (reply,) = policy.act(observations[:1], {}, np.random.default_rng(0))
    observations, *_ = envs.step([reply.text] * 3)
    forks, _ = envs.fork(0, [1, 2])
    before = policy.sampler.counts.read
    found = policy.act([observations[0], *forks], {}, np.random.default_rng(0))
    (prompt,) = {one.prompt_ids for one in found}
    assert prompt[: len(reply.prompt_ids)] == reply.prompt_ids
    # Only what is new to all three is read, once.
    assert policy.sampler.counts.read - before <= len(prompt) - len(reply.prompt_ids) < len(reply.prompt_ids)


def hybrid():
    torch.manual_seed(0)
    config = Qwen3_5TextConfig(
        vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, linear_num_key_heads=1, linear_num_value_heads=1, linear_key_head_dim=8,
        linear_value_head_dim=8, layer_types=["linear_attention", "full_attention"],
    )  # fmt: skip
    return Qwen3_5ForCausalLM(config).eval()


def sliding():
    return qwen(use_sliding_window=True, sliding_window=4, max_window_layers=0)


def test_models_whose_keys_cannot_be_kept_read_whole_prompts_and_say_so_once():
    recurrent = hybrid()
    assert [takes_runs(model) for model in (qwen(), sliding(), recurrent)] == [True, False, False]
    with pytest.warns(UserWarning, match="reads whole prompts"):
        found, _ = play(LoopSampler(recurrent, reuse=True), turns=2)
    check_written(found, play(LoopSampler(recurrent, reuse=False), turns=2)[0])


@pytest.mark.parametrize("make", [sliding, hybrid, qwen])
def test_prompts_are_read_in_passes_of_so_many_tokens(make, monkeypatch):
    model, sizes, most = make(), list[int](), 12 if make is qwen else 40  # where beginnings are read once: 17 tokens
    expected, _ = play(LoopSampler(model, reuse=False), turns=3)
    monkeypatch.setattr(batch, "READ_TOKENS", most)
    model.register_forward_pre_hook(lambda _, __, given: sizes.append(given["input_ids"].numel()), with_kwargs=True)
    check_written(play(LoopSampler(model, reuse=make is qwen), turns=3)[0], expected)
    assert most / 2 < max(sizes) <= most


def test_logits_are_computed_once_while_the_weights_stay_and_there_is_room(monkeypatch):
    monkeypatch.setattr(cache, "_MOST_NUMBERS", 8)  # four rows of two numbers
    model, asked = torch.nn.Linear(1, 1, bias=False), []
    remember = LogitsCache(model)

    def compute(prompts):
        asked.append(list(prompts))
        return torch.tensor([[float(prompt[0]), model.weight.item()] for prompt in prompts])

    def first(*prompts):
        return remember([(prompt,) for prompt in prompts], compute)[:, 0].tolist()

    assert (first(1, 2, 1), first(2, 3, 1)) == ([1, 2, 1], [2, 3, 1])
    assert asked == [[(1,), (2,)], [(3,)]]
    model.weight.data.fill_(5.0)
    assert remember([(1,)], compute)[0, 1] == 5.0
    remember.clear()
    first(1)
    assert len(asked) == 4
    for start in range(10, 30, 2):
        assert first(start, start + 1, start - 1) == [start, start + 1, start - 1]
        assert len(remember) <= 4
    assert sum(map(len, asked)) == 5 + 21  # what the pass before has read is there
    remember.clear()
    first(1, 2, 3, 4)
    first(1, 5)
    assert len(remember) == 2
    assert remember._rows[(1,)].untyped_storage().nbytes() == 2 * 4  # no longer that of four rows


@pytest.fixture
def recorded(monkeypatch):
    """Shapes that were recorded, at their first step; a replay runs the step itself."""
    found = []
    monkeypatch.setattr(graph, "_PAID", 1)

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
    monkeypatch.setattr(graph, "_SPARE", 2)
    monkeypatch.setattr(batch, "READ_TOKENS", most)
    model = qwen()
    expected, _ = play(LoopSampler(model, reuse=True), turns=9, rows=8)
    sampler = LoopSampler(model, reuse=True, graphs=True)
    check_written(play(sampler, turns=9, rows=8)[0], expected)
    assert {columns for _, columns in recorded} == {64, 128, 192}
    assert {rows for rows, _ in recorded} == {4, 3, 2, 1}  # four side by side; fewer where half have ended
    before = len(recorded)
    sampler.forget()
    check_written(play(sampler, turns=9, rows=8)[0], expected)
    assert len(recorded) == before + len(set(recorded))  # the tensors have their last size at once


def test_a_shape_is_recorded_when_it_has_occurred_often_and_kept_while_rows_leave(recorded, monkeypatch):
    monkeypatch.setattr(graph, "_PAID", 3)
    model, graphs = qwen(), StepGraphs()
    with torch.no_grad():
        first, plain = (KeyedBatch(model, [(4 + row, 7) for row in range(5)], graphs=each) for each in (graphs, None))
        seen = []
        for rows in (5, 5, 2, 2, 1, 1):
            for each in (first, plain):
                each.keep(range(rows))
                each.append(torch.arange(rows) + 9)
            torch.testing.assert_close(first.logits, plain.logits, atol=1e-5, rtol=1e-5)
            seen.append(list(recorded))
        assert seen == [[], [], *[[(5, 128)]] * 4]  # two of five rows are a fourth or more, one is less
        again = KeyedBatch(model, [(4, 7)] * 2, graphs=graphs)
        for _ in range(3):
            again.append(torch.tensor([9, 9]))
    assert recorded == [(5, 128), (2, 128)]


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
        check_written(play(LoopSampler(model, reuse=True, graphs=True))[0], expected)


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
