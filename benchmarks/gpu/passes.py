"""Parts of generation and training alone: the decode loop, one training pass, and log-probabilities side by side."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from baselines.utilisation import decode_limit, forward_flops, peak_bandwidth, peak_flops, training_flops
from benchmarks.gpu.results import Decode, Difference, Figure, Pass, Sizes
from policies.decode.sampler import Decoding, complete
from policies.huggingface import HuggingFacePolicy
from policies.training import recomputed_activations

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
