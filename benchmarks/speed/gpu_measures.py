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
from baselines.metrics import Row
from baselines.recipes import recipe
from baselines.trainer import Trainer
from baselines.utilisation import (
    PeakMemory,
    decode_limit,
    forward_flops,
    peak_bandwidth,
    peak_flops,
    training_flops,
)
from benchmarks.speed.gpu_results import MEASURED, WARMUP, Decode, Difference, Figure, Pass, Sizes, Success
from benchmarks.statistics import wilson_interval
from policies.decode.sampler import Decoding, complete
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
    """The Qwen2 architecture in one size, and what is measured with it.

    Attributes:
        width, mlp, layers, heads, kv_heads, vocabulary: of the model.
        tied: whether embedding and output head are one matrix.
        rank: of the adapter; 0: all weights are trained, in float32. The base of an adapter is bfloat16.
        instructions: whether prompts begin with the task's rules: about 800 tokens here.
        sizes: what is measured unless told otherwise.
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
    """Return a policy with random weights on a device.

    Raises:
        torch.OutOfMemoryError: it does not fit.
    """
    from transformers import AutoModelForCausalLM, Qwen2Config

    # A word for every token: what the model writes is the text of its tokens and of no others.
    names = map("".join, itertools.product(string.ascii_lowercase, repeat=4))
    plain = len(tiny_tokenizer([]))
    tokenizer = tiny_tokenizer([], list(itertools.islice(names, shape.vocabulary - plain)))
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=32_768,
        rope_theta=1e6,  # type: ignore[call-arg]  # releases 4 and 5 both take this name
        tie_word_embeddings=shape.tied,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
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
    """Return the parts of an update's peak in GiB: recomputed activations, AdamW, packed passes.

    Args:
        policy: with its model.
        tokens: of a pass.
        reference: whether a bfloat16 copy of the start is kept; with an adapter there is none.
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


DECODE_FORMULA = "tokens/s = B / max((2 W + B C kv) / bandwidth, (2 W B + a B C) / peak)"
TRAINING_FORMULA = "((4 W + 2 W_trained) S + 3 a S^2 / 2) / seconds / peak; recomputed: + 2 W S + a S^2 / 2"
UNKNOWN = "the device's peak is not known to baselines.utilisation"
_REPEATS = 3
#: Tokens of a chain of a training pass, half prompt and half reply.
_CHAIN = 1024


def absence(device: torch.device) -> str:
    """Say why a share of the peak is not there."""
    return "no GPU" if device.type != "cuda" else UNKNOWN


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


def measure_decode(policy: HuggingFacePolicy, sizes: Sizes) -> Decode:
    """Time the decode loop without its prefill: many tokens less one token."""
    device, batch = policy.device, sizes.decode_batch
    rng = np.random.default_rng(0)
    prompt = tuple(int(token) for token in rng.integers(8, len(policy.tokenizer), sizes.decode_context))
    uniforms = rng.random((batch, sizes.decode_tokens))

    def write(tokens: int) -> Callable[[], object]:
        decoding = Decoding(1.0, tokens, lambda _: False, 0, batch, policy.precision)
        return lambda: complete(policy.model, [prompt] * batch, uniforms, decoding)

    spent = seconds_of(device, write(sizes.decode_tokens)) - seconds_of(device, write(1))
    rate = batch * (sizes.decode_tokens - 1) / max(spent, 1e-9)
    peak, bandwidth = peak_flops(device), peak_bandwidth(device)
    limit = None
    if peak is not None and bandwidth is not None:
        context = sizes.decode_context + sizes.decode_tokens // 2
        limit = decode_limit(policy.model, batch, context, bandwidth, peak)
    share = None if limit is None else 100 * rate / limit
    return Decode(rate, Figure.of(limit, absence(device)), Figure.of(share, absence(device)), DECODE_FORMULA)


def measure_pass(policy: HuggingFacePolicy, tokens: int, *, recomputation: bool) -> Pass:
    """Time one forward and backward pass over packed random rows, and weigh what it keeps."""
    device, peak = policy.device, peak_flops(policy.device)
    mode = recomputed_activations(policy.model) if recomputation else contextlib.nullcontext()
    with mode:
        half, _ = _forward(policy, max(tokens // 2, 4))
        kept, lengths = _forward(policy, tokens)

        def train() -> None:
            policy.model.zero_grad(set_to_none=True)
            prompts, replies, _ = _rows(policy, tokens)
            scores = policy.score(prompts, replies, 1.0, tokens_per_pass=tokens, entropy=False)
            scores.logprobs.sum().backward()

        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        spent = seconds_of(device, train)
        most = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None
    policy.model.zero_grad(set_to_none=True)
    model = training_flops(policy.model, lengths)
    done = model + forward_flops(policy.model, lengths) * recomputation
    count = sum(lengths)
    grown = (kept - half) / (count - max(tokens // 2, 4)) / 1e6
    return Pass(
        recomputation, count, spent, count / spent,
        Figure.of(None if peak is None else 100 * model / spent / peak, absence(device)),
        Figure.of(None if peak is None else 100 * done / spent / peak, absence(device)),
        Figure.of(grown if device.type == "cuda" else None),
        Figure.of(most),
    )  # fmt: skip


def _rows(policy: HuggingFacePolicy, tokens: int) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """Random rows whose chains are `tokens` long together; a chain lacks the last token of its reply."""
    rng = np.random.default_rng(0)
    lengths = [_CHAIN] * (tokens // _CHAIN)
    if tokens % _CHAIN:
        lengths.append(tokens % _CHAIN)
    prompts, replies = [], []
    for length in lengths:
        ids = rng.integers(8, len(policy.tokenizer), length + 1).tolist()
        cut = max(length // 2, 1)
        prompts.append(ids[:cut])
        replies.append(ids[cut:])
    return prompts, replies, lengths


def _forward(policy: HuggingFacePolicy, tokens: int) -> tuple[int, list[int]]:
    """Bytes that one forward pass leaves for its backward pass; 0 on a CPU."""
    prompts, replies, lengths = _rows(policy, tokens)
    if policy.device.type != "cuda":
        return 0, lengths
    before = torch.cuda.memory_allocated(policy.device)
    scores = policy.score(prompts, replies, 1.0, tokens_per_pass=tokens, entropy=False)
    kept = torch.cuda.memory_allocated(policy.device) - before
    del scores
    return kept, lengths


@torch.no_grad()
def measure_agreement(policy: HuggingFacePolicy, envs: Any, sizes: Sizes) -> tuple[Difference, Difference]:
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
    if any(weight.dtype == torch.bfloat16 for weight in policy.model.parameters()):
        nothing = Figure.of(None, "the base is stored in bfloat16")
        return difference(sampled, trainer), Difference(nothing, nothing, nothing)
    return difference(sampled, trainer), difference(scored(torch.bfloat16), scored(None))


def difference(one: Sequence[float] | NDArray[np.float64], other: Sequence[float] | NDArray[np.float64]) -> Difference:
    """Return the mean, the 99th percentile and the largest of absolute differences.

    >>> difference([0.0, -1.0], [-1.0, -4.0]).mean.value
    2.0
    """
    apart = np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64))
    return Difference(*(Figure.of(float(value)) for value in (apart.mean(), np.percentile(apart, 99), apart.max())))


#: Weights of a correction are clipped here.
_TIS = 2.0


@dataclass
class Watch:
    """What one iteration does besides what its row says.

    Attributes:
        scoring: seconds of passes without gradients (old and reference log-probabilities).
        memory: figures of `baselines.utilisation.PeakMemory` for them.
        passes: forward passes with gradients.
        tokens: of those, padding included.
    """

    scoring: float = 0.0
    memory: dict[str, float] = field(default_factory=dict)
    passes: int = 0
    tokens: int = 0


class WatchedPolicy(HuggingFacePolicy):
    """A policy that notes its scoring passes in `watch`; copies of it note theirs in the same place."""

    watch = Watch()

    @classmethod
    def over(cls, policy: HuggingFacePolicy) -> WatchedPolicy:
        """Return a watched policy over the same model, tokenizer and settings."""
        watched = cls(policy.model, policy.tokenizer, autocast=policy.precision, **vars(policy.settings))
        watched.watch = Watch()
        return watched

    def score(
        self, prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]], *arguments: Any, **options: Any
    ) -> TokenScores:
        """Score as a policy does."""
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


@dataclass(frozen=True)
class Measured:
    """One measured iteration: the trainer's row, what was watched, and what it was trained on.

    Attributes:
        row: of the trainer.
        watch: of the policy.
        prompt_tokens, reply_tokens: of all steps.
        rows: distinct rows of the batch.
        lengths: tokens of each chain that went through the update.
    """

    row: Row
    watch: Watch
    prompt_tokens: int
    reply_tokens: int
    rows: int
    lengths: list[int]


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


def run_training(
    policy: WatchedPolicy, shape: Shape, sizes: Sizes, report: Callable[[int, int], None]
) -> tuple[list[Measured], Success]:
    """Train, and return the measured iterations and the success on held-out tasks.

    Args:
        policy: changed in place.
        shape: of its model.
        sizes: what is measured.
        report: called with finished iterations and their number.
    """
    config = trainer_config(shape, sizes)
    found: list[Measured] = []

    def note(trainer: Trainer, table: StepTable | None, row: Row) -> None:
        if table is not None and trainer.advantages is not None:
            scored = make_batch(
                table, trainer.advantages, weighting=config.loss.weighting, keep_zero=config.loss.keep_zero
            )
            batch = scored.kept()
            replies = [] if table.replies is None else list(table.replies)
            chains = merge_chains(batch.prompts, batch.replies)
            found.append(
                Measured(
                    row, policy.watch, sum(len(one.prompt_ids) for one in replies),
                    sum(len(one.token_ids) for one in replies), len(batch), [len(chain.tokens) for chain in chains],
                )
            )  # fmt: skip
            report(len(found), config.iterations)
        policy.watch = Watch()
        # The reference is a copy of the policy: it has to note where the policy does.
        reference = trainer.learner.reference
        if isinstance(reference, WatchedPolicy):
            reference.watch = policy.watch

    def count(_: torch.nn.Module, __: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        if torch.is_grad_enabled():
            policy.watch.passes += 1
            policy.watch.tokens += given["input_ids"].numel()

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
    won = float(np.sum(played.success))
    interval = wilson_interval(won, sizes.held_out)
    return found[sizes.warmup :], Success(interval.mean, interval.low, interval.high, sizes.held_out)
