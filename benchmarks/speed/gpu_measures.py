"""Models of known shapes with random weights, and what is measured of them: decode loop, training passes, agreement."""

import contextlib
import itertools
import string
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

import agentgym  # noqa: F401  # registers the environments
from baselines.records.utilisation import decode_seconds, forward_flops, peak_bandwidth, peak_flops, training_flops
from baselines.runs.pass_memory import Allocations
from policies.decode.loop import LoopSampler
from policies.decode.sampler import Decoding
from policies.huggingface import HuggingFacePolicy
from policies.tiny import tiny_tokenizer
from policies.training import recomputed_activations
from wrappers.reply import VectorReplyParser
from wrappers.transcript import VectorTranscript

_SEED = 0
#: Figures by key; None: only a known GPU has them.
Figures = dict[str, float | None]


@dataclass(frozen=True)
class Shape:
    """The Qwen2 architecture in one size with all weights in float32, and what is measured with it.

    `instructions`: prompts begin with the task's rules, about 800 tokens here; `tokens` are those of a training pass;
    the decode loop writes `decode_tokens` each behind a context.
    """

    width: int
    mlp: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    instructions: bool
    places: int
    turns: int
    reply_tokens: int
    tokens: int
    decode_batch: int
    decode_context: int
    decode_tokens: int


#: Shapes by name; the large one is Qwen2.5's.
SHAPES = {
    "tiny": Shape(
        32, 64, 2, 2, 1, 512, False, places=4, turns=2, reply_tokens=4, tokens=512, decode_batch=4, decode_context=32,
        decode_tokens=8,
    ),
    "1.5B": Shape(
        1536, 8960, 28, 12, 2, 151_936, True, places=32, turns=5, reply_tokens=128, tokens=4096, decode_batch=128,
        decode_context=1000, decode_tokens=64,
    ),
}  # fmt: skip


def make_policy(shape: Shape, device: torch.device, attention: str = "sdpa") -> HuggingFacePolicy:
    """Return a policy with random weights on a device; `torch.OutOfMemoryError` where it does not fit."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    # A word for every token: what the model writes is the text of its tokens and of no others.
    names = map("".join, itertools.product(string.ascii_lowercase, repeat=4))
    plain = len(tiny_tokenizer([]))
    tokenizer = tiny_tokenizer([], list(itertools.islice(names, shape.vocabulary - plain)))
    config = Qwen2Config(
        vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        max_position_embeddings=32_768, tie_word_embeddings=True,
        rope_theta=1e6,  # type: ignore[call-arg]  # releases 4 and 5 both take this name
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), device:
        torch.manual_seed(_SEED)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention)
    return HuggingFacePolicy(
        model, tokenizer, prefix="<action>", suffix="</action>", max_new_tokens=shape.reply_tokens
    )  # fmt: skip


def make_envs(shape: Shape) -> Any:
    """Return Sokoban in conversations."""
    envs = gym.make_vec(
        "AgentRL/Sokoban-v0", shape.places, autoreset_mode="Disabled", max_episode_steps=shape.turns
    )  # fmt: skip
    return VectorTranscript(VectorReplyParser(envs), instructions=shape.instructions)


_REPEATS = 3
#: Tokens of a chain of a training pass, half prompt and half reply.
_CHAIN = 1024


def share_of_peak(flops: float, seconds: float, device: torch.device) -> float | None:
    """Return a share of the device's peak arithmetic in percent."""
    peak = peak_flops(device)
    return None if peak is None else 100 * flops / seconds / peak


def seconds_of(device: torch.device, work: Callable[[], Any]) -> float:
    """Return the median seconds of some calls; one before them is left out."""
    found = []
    for _ in range(_REPEATS + 1):
        _wait(device)
        begin = time.perf_counter()
        work()
        _wait(device)
        found.append(time.perf_counter() - begin)
    return float(np.median(found[1:]))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure_decode(policy: HuggingFacePolicy, shape: Shape) -> Figures:
    """Time the decode loop without its prefill: many tokens less two."""
    device, batch = policy.device, shape.decode_batch
    rng = np.random.default_rng(0)
    prompt = tuple(int(token) for token in rng.integers(8, len(policy.tokenizer), shape.decode_context))
    uniforms = rng.random((batch, shape.decode_tokens))

    def write(tokens: int) -> Callable[[], object]:
        decoding = Decoding(1.0, tokens, lambda _: False, 0, batch, policy.precision)
        return lambda: sampler.write([prompt] * batch, uniforms, decoding)

    sampler = LoopSampler(policy.model, reuse=True)
    spent = seconds_of(device, write(shape.decode_tokens)) - seconds_of(device, write(2))
    rate = batch * (shape.decode_tokens - 2) / max(spent, 1e-9)
    peak, bandwidth, limit = peak_flops(device), peak_bandwidth(device), None
    if peak is not None and bandwidth is not None:
        context = shape.decode_context + shape.decode_tokens // 2
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
def measure_agreement(policy: HuggingFacePolicy, shape: Shape) -> Figures:
    """Compare log-probabilities of replies as they were sampled with those that the trainer scores."""
    observations, infos = make_envs(shape).reset(seed=0)
    replies = policy.act(observations, infos, np.random.default_rng(0))
    prompts, tokens = [list(one.prompt_ids) for one in replies], [list(one.token_ids) for one in replies]
    scores = policy.score(prompts, tokens, 1.0, tokens_per_pass=shape.tokens, entropy=False)
    sampled = np.concatenate([np.asarray(one.logprobs, np.float64) for one in replies])
    apart = difference(sampled, scores.logprobs[scores.mask].double().cpu().numpy())
    return {f"agreement.sampler.{name}": value for name, value in apart.items()}


def difference(one: Sequence[float] | NDArray[np.float64], other: Sequence[float] | NDArray[np.float64]) -> Figures:
    """Return the mean, the 99th percentile and the largest of absolute differences.

    >>> difference([0.0, -1.0], [-1.0, -4.0])["mean"]
    2.0
    """
    apart = np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64))
    return {
        "mean": float(apart.mean()), "percentile_99": float(np.percentile(apart, 99)), "largest": float(apart.max()),
    }  # fmt: skip
