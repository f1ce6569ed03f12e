"""Models of known shapes with random weights, and what is measured: decode loop, training passes, iterations."""

from __future__ import annotations

import contextlib
import itertools
import string
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

import agentgym  # noqa: F401  # registers the environments
from agentgym.trajectory import StepTable
from baselines.batch import make_batch
from baselines.config import Checkpoints, Loss, Memory, TrainerConfig, Validation
from baselines.environments.settings import tasks
from baselines.evaluation import evaluate
from baselines.recipes import recipe
from baselines.records.metrics import Row
from baselines.records.utilisation import (
    PeakMemory,
    decode_seconds,
    forward_flops,
    peak_bandwidth,
    peak_flops,
    training_flops,
)
from baselines.runs.plan import Allocations
from baselines.trainer import Trainer
from benchmarks.speed.gpu_results import MEASURED, ON_DEVICE, STAGES, WARMUP, Figures, Sizes
from benchmarks.statistics import wilson_interval
from policies.decode.loop import LoopSampler
from policies.decode.sampler import Decoding
from policies.huggingface import HuggingFacePolicy
from policies.lora import LoraSettings, add_lora, has_adapter
from policies.scoring import TokenScores
from policies.scoring.packed import merge_chains
from policies.tiny import tiny_tokenizer
from policies.training import recomputed_activations
from wrappers.reply import VectorReplyParser
from wrappers.transcript import VectorTranscript

_SEED = 0


@dataclass(frozen=True)
class Shape:
    """The Qwen2 architecture in one size, and what is measured with it by default.

    `tied`: embedding and output head are one matrix; `rank`: of an adapter on a bfloat16 base, 0: all weights are
    trained, in float32; `instructions`: prompts begin with the task's rules, about 800 tokens here.
    """

    width: int
    mlp: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool
    rank: int
    instructions: bool
    sizes: Sizes


_SIZES = Sizes(
    warmup=WARMUP, iterations=MEASURED, groups=4, group_size=8, turns=5, reply_tokens=128, tokens=4096,
    decode_batch=128, decode_context=1000, decode_tokens=64, attention="sdpa", held_out=32,
)  # fmt: skip
_TINY_SIZES = Sizes(
    warmup=WARMUP, iterations=MEASURED, groups=2, group_size=2, turns=2, reply_tokens=4, tokens=512,
    decode_batch=4, decode_context=32, decode_tokens=8, attention="sdpa", held_out=4,
)  # fmt: skip
#: Shapes by name; the large ones are those of Qwen2.5.
SHAPES = {
    "tiny": Shape(32, 64, 2, 2, 1, 512, True, 0, False, _TINY_SIZES),
    "1.5B": Shape(1536, 8960, 28, 12, 2, 151_936, True, 0, True, _SIZES),
    "7B-lora": Shape(3584, 18_944, 28, 28, 4, 152_064, False, 32, True, _SIZES),
}


def make_policy(shape: Shape, sizes: Sizes, device: torch.device) -> HuggingFacePolicy:
    """Return a policy with random weights on a device; `torch.OutOfMemoryError` where it does not fit."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    # A word for every token: what the model writes is the text of its tokens and of no others.
    names = map("".join, itertools.product(string.ascii_lowercase, repeat=4))
    plain = len(tiny_tokenizer([]))
    tokenizer = tiny_tokenizer([], list(itertools.islice(names, shape.vocabulary - plain)))
    config = Qwen2Config(
        vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        max_position_embeddings=32_768, tie_word_embeddings=shape.tied,
        rope_theta=1e6,  # type: ignore[call-arg]  # releases 4 and 5 both take this name
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    dtype = torch.bfloat16 if shape.rank else torch.float32
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), device:
        torch.manual_seed(_SEED)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=sizes.attention)
    policy = HuggingFacePolicy(
        model, tokenizer, prefix="<action>", suffix="</action>", max_new_tokens=sizes.reply_tokens
    )
    return add_lora(policy, LoraSettings(shape.rank, 2.0 * shape.rank), seed=_SEED) if shape.rank else policy


GIB = 2**30
#: Numbers that a layer keeps per token between forward and backward pass, in the widths of the feed-forward part and
#: of the residual stream: gate, up, their activation and product; norms, queries, keys, values, output, residuals.
_LAYER_MLP, _LAYER_WIDTH = 4.0, 12.7
#: Positions of the output head per piece, and float32 copies of their logits that are alive at once.
_HEAD, _HEAD_COPIES = 512, 5


def expected_memory(policy: Any, tokens: int, *, reference: bool) -> dict[str, float]:
    """Return the parts of an update's peak in GiB, for passes of so many tokens, activations recomputed, with AdamW.

    With `reference` a bfloat16 copy of the start is kept, but for an adapter.
    """
    model, config = policy.model, policy.model.config
    weights = list(model.parameters())
    trained = sum(weight.numel() for weight in weights if weight.requires_grad)
    every = sum(weight.numel() for weight in weights)
    cast = sum(weight.numel() for weight in weights if weight.dtype == torch.float32 and weight.dim() == 2)
    layer = _LAYER_MLP * config.intermediate_size + _LAYER_WIDTH * config.hidden_size
    parts = {
        "weights": sum(weight.numel() * weight.element_size() for weight in weights),
        "gradients": 4 * trained,
        "optimiser": 8 * trained,
        "16-bit copies": 2 * cast if policy.precision == torch.bfloat16 else 0,
        "reference": 2 * every if reference and not has_adapter(model) else 0,
        "layer inputs": 2 * config.num_hidden_layers * config.hidden_size * tokens,
        "one layer": 2 * layer * tokens,  # the one that is being computed again
        "output head": 4 * _HEAD_COPIES * min(_HEAD, tokens) * config.vocab_size,
    }
    return {name: value / GIB for name, value in parts.items()}


_REPEATS = 3
#: Tokens of a chain of a training pass, half prompt and half reply.
_CHAIN = 1024


def share_of_peak(flops: float, seconds: float, device: torch.device) -> float | None:
    """Return a share of the device's peak arithmetic in percent."""
    peak = peak_flops(device)
    return None if peak is None else 100 * flops / seconds / peak


def seconds_of(device: torch.device, work: Callable[[], Any], repeats: int = _REPEATS) -> float:
    """Return the median seconds of some calls; one before them is left out."""
    found = []
    for _ in range(repeats + 1):
        _wait(device)
        begin = time.perf_counter()
        work()
        _wait(device)
        found.append(time.perf_counter() - begin)
    return float(np.median(found[1:]))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure_decode(policy: HuggingFacePolicy, sizes: Sizes) -> Figures:
    """Time the decode loop without its prefill: many tokens less two."""
    device, batch = policy.device, sizes.decode_batch
    rng = np.random.default_rng(0)
    prompt = tuple(int(token) for token in rng.integers(8, len(policy.tokenizer), sizes.decode_context))
    uniforms = rng.random((batch, sizes.decode_tokens))

    def write(tokens: int) -> Callable[[], object]:
        decoding = Decoding(1.0, tokens, lambda _: False, 0, batch, policy.precision)
        return lambda: sampler.write([prompt] * batch, uniforms, decoding)

    sampler = LoopSampler(policy.model, reuse=True)
    spent = seconds_of(device, write(sizes.decode_tokens)) - seconds_of(device, write(2))
    rate = batch * (sizes.decode_tokens - 2) / max(spent, 1e-9)
    peak, bandwidth, limit = peak_flops(device), peak_bandwidth(device), None
    if peak is not None and bandwidth is not None:
        context = sizes.decode_context + sizes.decode_tokens // 2
        limit = batch / decode_seconds(policy.model, batch, context, bandwidth, peak)
    share = None if limit is None else 100 * rate / limit
    return {"decode.tokens_per_second": rate, "decode.limit": limit, "decode.share": share}


def measure_pass(policy: HuggingFacePolicy, tokens: int, *, recomputation: bool) -> Figures:
    """Time one forward and backward pass over packed random rows, and weigh what it keeps."""
    device, cuda, few = policy.device, policy.device.type == "cuda", max(tokens // 2, 4)
    mode = recomputed_activations(policy.model) if recomputation else contextlib.nullcontext()
    with mode:
        half, (kept, lengths) = _forward(policy, few)[0], _forward(policy, tokens)

        def train() -> None:
            policy.model.zero_grad(set_to_none=True)
            prompts, replies, _ = random_rows(len(policy.tokenizer), tokens)
            scores = policy.score(prompts, replies, 1.0, tokens_per_pass=tokens, entropy=False)
            scores.logprobs.sum().backward()

        if cuda:
            torch.cuda.reset_peak_memory_stats(device)
        spent = seconds_of(device, train)
        most = torch.cuda.max_memory_allocated(device) / 2**30 if cuda else None
    policy.model.zero_grad(set_to_none=True)
    model = training_flops(policy.model, lengths)
    done = model + forward_flops(policy.model, lengths) * recomputation
    count = sum(lengths)
    found = {
        "tokens": count, "seconds": spent, "tokens_per_second": count / spent, "peak": most,
        "utilisation": share_of_peak(model, spent, device), "with_recomputation": share_of_peak(done, spent, device),
        "kept": (kept - half) / (count - few) / 1e6 if cuda else None,
    }  # fmt: skip
    return {f"passes.{int(recomputation)}.{name}": value for name, value in found.items()}


def random_rows(
    vocabulary: int, tokens: int, chain: int = _CHAIN
) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """Prompts and replies whose chains are `tokens` long together, and each length; a chain lacks the last token."""
    rng = np.random.default_rng(0)
    lengths = [chain] * (tokens // chain) + [tokens % chain] * bool(tokens % chain)
    prompts, replies = [], []
    for length in lengths:
        ids = rng.integers(8, vocabulary, length + 1).tolist()
        cut = max(length // 2, 1)
        prompts.append(ids[:cut])
        replies.append(ids[cut:])
    return prompts, replies, lengths


def _forward(policy: HuggingFacePolicy, tokens: int) -> tuple[int, list[int]]:
    """Bytes that one forward pass leaves for its backward pass; 0 on a CPU."""
    prompts, replies, lengths = random_rows(len(policy.tokenizer), tokens)
    if policy.device.type != "cuda":
        return 0, lengths
    before = torch.cuda.memory_allocated(policy.device)
    scores = policy.score(prompts, replies, 1.0, tokens_per_pass=tokens, entropy=False)
    kept = torch.cuda.memory_allocated(policy.device) - before
    del scores
    return kept, lengths


def pass_memory(
    policy: HuggingFacePolicy, rows: int, row: int, reply: int, *, packed: bool, recompute: bool
) -> float:  # fmt: skip
    """Return the most bytes that a training pass over random rows makes beside weights and gradients."""
    device, weights = policy.device, [each for each in policy.model.parameters() if each.requires_grad]
    ids = np.random.default_rng(0).integers(8, len(policy.tokenizer), (rows, row)).tolist()
    prompts, replies = [each[: row - reply] for each in ids], [each[row - reply :] for each in ids]
    size = rows * row if packed else None
    policy.score(prompts[:1], replies[:1], 1.0, tokens_per_pass=size)  # what is looked at once for a model
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    cuda = device.type == "cuda"
    before = torch.cuda.memory_allocated(device) if cuda else 0
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    mode = recomputed_activations(policy.model) if recompute else contextlib.nullcontext()
    with mode, Allocations() if not cuda else contextlib.nullcontext() as found:
        policy.score(prompts, replies, 1.0, tokens_per_pass=size, entropy=False).logprobs.sum().backward()
    policy.model.zero_grad(set_to_none=True)
    return float(torch.cuda.max_memory_allocated(device) - before if found is None else found.peak)


@torch.no_grad()
def measure_agreement(policy: HuggingFacePolicy, envs: Any, sizes: Sizes) -> Figures:
    """Compare sampled log-probabilities with scored ones, and scores in bfloat16 with scores in float32."""
    observations, infos = envs.reset(seed=0)
    replies = policy.act(observations, infos, np.random.default_rng(0))
    prompts, tokens = [list(one.prompt_ids) for one in replies], [list(one.token_ids) for one in replies]

    def scored(precision: torch.dtype | None) -> NDArray[np.float64]:
        other = HuggingFacePolicy(policy.model, policy.tokenizer, autocast=precision, **vars(policy.settings))
        scores = other.score(prompts, tokens, 1.0, tokens_per_pass=sizes.tokens, entropy=False)
        found: NDArray[np.float64] = scores.logprobs[scores.mask].double().cpu().numpy()
        return found

    sampled = np.concatenate([np.asarray(one.logprobs, np.float64) for one in replies])
    trainer = scored(policy.precision)
    apart: dict[str, Any] = {"sampler": difference(sampled, trainer)}
    if any(weight.dtype == torch.bfloat16 for weight in policy.model.parameters()):
        apart["precision"] = dict.fromkeys(apart["sampler"], "the base is stored in bfloat16")
    else:
        apart["precision"] = difference(scored(torch.bfloat16), scored(None))
    return {f"agreement.{of}.{name}": value for of, each in apart.items() for name, value in each.items()}


def difference(one: Sequence[float] | NDArray[np.float64], other: Sequence[float] | NDArray[np.float64]) -> Figures:
    """Return the mean, the 99th percentile and the largest of absolute differences.

    >>> difference([0.0, -1.0], [-1.0, -4.0])["mean"]
    2.0
    """
    apart = np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64))
    return {
        "mean": float(apart.mean()), "percentile_99": float(np.percentile(apart, 99)), "largest": float(apart.max()),
    }  # fmt: skip


#: Weights of a correction are clipped here.
_TIS = 2.0


@dataclass
class Watch:
    """One iteration: seconds and memory of passes without gradients (old and reference log-probabilities).

    Then forward `passes` with gradients and the tokens `through` them, padding included; the trainer's row; tokens of
    all prompts and replies; rows of the batch; and the tokens of each chain that went through the update.
    """

    scoring: float = 0.0
    memory: dict[str, float] = field(default_factory=dict)
    passes: int = 0
    through: int = 0
    row: Row = field(default_factory=dict)
    prompts: int = 0
    replies: int = 0
    rows: int = 0
    lengths: list[int] = field(default_factory=list)


class WatchedPolicy(HuggingFacePolicy):
    """A policy that notes its scoring passes in `watch`; copies of it note theirs in the same place."""

    watch = Watch()

    @classmethod
    def over(cls, policy: HuggingFacePolicy) -> WatchedPolicy:
        watched = cls(policy.model, policy.tokenizer, autocast=policy.precision, **vars(policy.settings))
        watched.watch = Watch()
        return watched

    def score(
        self, prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]], *arguments: Any, **options: Any
    ) -> TokenScores:
        if torch.is_grad_enabled():
            return super().score(prompts, replies, *arguments, **options)
        begin = time.perf_counter()
        memory = PeakMemory(self.device)
        found = super().score(prompts, replies, *arguments, **options)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        memory.end("scoring")
        for name, value in memory.figures.items():
            self.watch.memory[name] = max(value, self.watch.memory.get(name, 0.0))
        self.watch.scoring += time.perf_counter() - begin
        return found


def make_envs(shape: Shape, sizes: Sizes, places: int) -> Any:
    """Return Sokoban in conversations, `places` side by side."""
    envs = gym.make_vec(
        "AgentRL/Sokoban-v0", places, autoreset_mode="Disabled", max_episode_steps=sizes.turns
    )  # fmt: skip
    return VectorTranscript(VectorReplyParser(envs), instructions=shape.instructions)


def trainer_config(shape: Shape, sizes: Sizes) -> TrainerConfig:
    """Return the trainer's settings: everything that costs time or memory is on."""
    return TrainerConfig(
        iterations=sizes.warmup + sizes.iterations,
        groups=sizes.groups,
        group_size=sizes.group_size,
        learning_rate=1e-5 if shape.rank else 1e-6,
        seed=_SEED,
        memory=Memory(microbatch_tokens=sizes.tokens, activation_checkpointing=True),
        loss=Loss(reference="bfloat16", old_logprobs="recompute", tis=_TIS),
        validation=Validation(every=0),
        checkpoint=Checkpoints(every=0),
    )


def run_training(policy: WatchedPolicy, shape: Shape, sizes: Sizes, report: Callable[[int, int], None]) -> Figures:
    """Train a policy in place; return what the measured iterations cost, and the success on held-out tasks."""
    config = trainer_config(shape, sizes)
    found: list[Watch] = []

    def note(trainer: Trainer, table: StepTable | None, row: Row) -> None:
        if table is not None and trainer.advantages is not None:
            loss = config.loss
            batch = make_batch(table, trainer.advantages, weighting=loss.weighting, keep_zero=loss.keep_zero).kept()
            watch, replies = policy.watch, [] if table.replies is None else list(table.replies)
            watch.row, watch.rows = row, len(batch)
            watch.prompts = sum(len(one.prompt_ids) for one in replies)
            watch.replies = sum(len(one.token_ids) for one in replies)
            watch.lengths = [len(chain.tokens) for chain in merge_chains(batch.prompts, batch.replies)]
            found.append(watch)
            report(len(found), config.iterations)
        policy.watch = Watch()
        # The reference is a copy of the policy: it has to note where the policy does.
        reference = trainer.learner.reference
        if isinstance(reference, WatchedPolicy):
            reference.watch = policy.watch

    def count(_: torch.nn.Module, __: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        if torch.is_grad_enabled():
            policy.watch.passes += 1
            policy.watch.through += given["input_ids"].numel()

    places = sizes.groups * sizes.group_size
    hook = policy.model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        with warnings.catch_warnings():
            # Random weights write no commands: every action is refused, and the places wait out their turns.
            warnings.filterwarnings("ignore", message=".*refused every action.*")
            envs = make_envs(shape, sizes, places)
            trainer = Trainer(policy, envs, recipe("rewardflow"), tasks("train", 4 * sizes.groups), config)
            trainer.run(note)
            envs = make_envs(shape, sizes, min(places, sizes.held_out))
            played = evaluate(envs, policy, tasks("test", sizes.held_out), seed=_SEED, temperature=0.0)
    finally:
        hook.remove()
    won = wilson_interval(float(np.sum(played.success)), sizes.held_out)
    success = {"share": won.mean, "low": won.low, "high": won.high, "tasks": sizes.held_out}
    return {**costs_of(found[sizes.warmup :], policy), **{f"success.{name}": value for name, value in success.items()}}


def costs_of(measured: Sequence[Watch], policy: WatchedPolicy) -> Figures:
    """Return means of some iterations: time and memory of every stage, tokens, and rates."""
    count, device = len(measured), policy.device

    def total(name: str) -> float:
        return float(sum(getattr(one, name) for one in measured))

    seconds = {name: sum(one.row[f"seconds_{name}"] for one in measured) for name in STAGES if name != "scoring"}
    seconds["scoring"] = total("scoring")
    seconds["update"] -= seconds["scoring"]  # the trainer counts old and reference log-probabilities to it
    whole, found = sum(seconds.values()), Figures()
    for name, spent in seconds.items():
        found |= {f"stages.{name}.seconds": spent / count, f"stages.{name}.share": 100 * spent / whole}
    for name, (key, end) in itertools.product(ON_DEVICE, (("allocated", ""), ("reserved", "_reserved"))):
        memory = f"memory_{name}{end}"
        values = [one.row.get(memory, one.memory.get(memory)) for one in measured]
        found[f"stages.{name}.{key}"] = max((value for value in values if value is not None), default=None)
    lengths = [length for one in measured for length in one.lengths]
    model, update = training_flops(policy.model, lengths), max(seconds["update"], 1e-9)
    return found | {
        "tokens.prompts": total("prompts") / count,
        "tokens.replies": total("replies") / count,
        "tokens.per_pass": total("through") / max(total("passes"), 1),
        "tokens.padding": 100 * (1 - sum(lengths) / max(total("through"), 1)),
        "tokens.rows": total("rows") / count,
        "tokens.chains": len(lengths) / count,
        "tokens.chains_per_row": len(lengths) / max(total("rows"), 1),
        "rates.generated": total("replies") / max(seconds["generation"], 1e-9),
        "rates.trained": sum(lengths) / update,
        "rates.utilisation": share_of_peak(model, update, device),
        "rates.with_recomputation": share_of_peak(model + forward_flops(policy.model, lengths), update, device),
        "agreement.tis_clipped": 100 * sum(one.row.get("tis_clipped", 0.0) for one in measured) / count,
    }
