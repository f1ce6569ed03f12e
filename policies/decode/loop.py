"""The decode loop over the policy's own model: exact, and slow for long replies."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from policies.decode.batch import KeyedBatch, takes_runs
from policies.decode.cache import LogitsCache, PlayedModel, weights_version
from policies.decode.continuous import Continuous, Request
from policies.decode.graph import StepGraphs
from policies.decode.kept import KeptKeys, TokenCounts
from policies.decode.sampler import (
    Completion,
    Decoding,
    Restriction,
    allowed_next,
    append_tokens,
    complete,
    first_logits,
    pick,
)
from policies.prompts import Prompt
from policies.scoring.head import attention_of

#: Number of parameters above which reading a prompt costs more than finding its kept keys.
_LARGE = 10_000_000
#: See `LoopSampler`.
Reuse = bool | int | Literal["auto"]
# Models for which the warning about whole prompts was given.
_SAID: set[str] = set()


class LoopSampler:
    """Generates replies with the policy's own model, and reads no text twice.

    Keys and values are kept until the weights change (`policies.decode.kept.KeptKeys`). Models with a recurrent state
    or a sliding window, and attention other than "sdpa", read whole prompts, with a warning. The tokens are the same
    as without kept keys, up to rounding (1e-6 in float32).

    Args:
        model: a Hugging Face causal language model.
        reuse: most bytes of keys and values; True: an eighth of the device's memory; False: none; "auto": True for
            models of 10 million parameters, else False.
        graphs: steps are recorded as CUDA graphs (`policies.decode.graph`) where keys are kept; None: on a GPU.
    """

    def __init__(self, model: Any, reuse: Reuse = "auto", graphs: bool | None = None) -> None:
        if reuse == "auto":
            reuse = sum(weight.numel() for weight in model.parameters()) >= _LARGE
        self.counts = TokenCounts()
        self._played = PlayedModel(model)
        self._cache = LogitsCache(model)
        self._model = model
        self._version: tuple[float, ...] | None = None
        cuda = next(model.parameters()).device.type == "cuda"
        self._graphs = StepGraphs() if graphs or (graphs is None and cuda) else None
        self._kept = KeptKeys(None if reuse is True else int(reuse)) if reuse else None

    def share(self, other: LoopSampler) -> None:
        """Share the caches of another sampler of the same model, with the same count of versions."""
        self._played, self._kept, self.counts = other._played, other._kept, other.counts
        self._graphs = other._graphs

    def playing(self, precision: torch.dtype | None) -> Any:
        """Return the model for decoding, see `policies.decode.cache.PlayedModel`."""
        return self._played.of(precision, self._version)

    def continuous(self, decoding: Decoding) -> Continuous:
        """Return a queue of completions; the model must take runs."""
        return Continuous(self.playing(decoding.precision), decoding, self._at(decoding), self.counts, self._graphs)

    def _at(self, decoding: Decoding) -> KeptKeys | None:
        if self._kept is not None:
            self._kept.at((self._version or weights_version(self._model), decoding.precision))
        return self._kept

    def write(
        self,
        prompts: Sequence[Prompt],
        draws: NDArray[np.float64] | None,
        decoding: Decoding,
        restrictions: Sequence[Restriction | None] | None = None,
    ) -> list[Completion]:
        """Write one completion per prompt, see `policies.decode.sampler.Sampler`."""
        model = self.playing(decoding.precision)
        reuse = self._kept is not None and (takes_runs(self._model) or self._say(model))
        if decoding.max_new_tokens == 1:
            return self._one_token(model, prompts, draws, decoding, restrictions, reuse)
        if not reuse:
            return complete(model, prompts, draws, decoding, restrictions, self.counts)
        queue, completions = self.continuous(decoding), [Completion() for _ in prompts]
        for number in sorted(range(len(prompts)), key=lambda number: (prompts[number], number)):  # alike, side by side
            limit = None if restrictions is None else restrictions[number]
            drawn = None if draws is None else draws[number]
            queue.put(Request(number, prompts[number], drawn, limit, completions[number]))
        left = len(prompts)
        while left:
            left -= len(queue.get())
        return completions

    def _one_token(
        self, model: Any, prompts: Sequence[Prompt], draws: NDArray[np.float64] | None, decoding: Decoding,
        restrictions: Sequence[Restriction | None] | None, reuse: bool,
    ) -> list[Completion]:  # fmt: skip
        def compute(missing: list[Prompt]) -> Tensor:
            return (
                self._first(model, missing, decoding) if reuse else first_logits(model, missing, decoding, self.counts)
            )

        logits = self._cache(prompts, compute, self._version)
        completions = [Completion() for _ in prompts]
        rows = list(range(len(prompts)))
        allowed = allowed_next(completions, rows, restrictions)
        drawn = None if draws is None else torch.from_numpy(draws[:, 0]).to(logits.device, non_blocking=True)
        tokens, logprobs = pick(logits, drawn, decoding.temperature, allowed)
        append_tokens(completions, rows, tokens, logprobs, allowed, decoding)
        return completions

    @torch.no_grad()
    def _first(self, model: Any, prompts: list[Prompt], decoding: Decoding) -> Tensor:
        """Return the logits of the first reply token, float32 (n, V), and keep what was read."""
        order, kept = sorted(range(len(prompts)), key=lambda number: prompts[number]), self._at(decoding)
        found: dict[int, Tensor] = {}
        for low in range(0, len(order), decoding.batch_size):
            part = order[low : low + decoding.batch_size]
            batch = KeyedBatch(model, [prompts[number] for number in part], kept, self.counts)
            for row, number in enumerate(part):
                batch.store(row, prompts[number])
                found[number] = batch.logits[row]
        return torch.stack([found[number] for number in range(len(prompts))])

    def _say(self, model: Any) -> bool:
        name = type(model).__name__
        if name not in _SAID:
            _SAID.add(name)
            warnings.warn(
                f"{name} with attention {attention_of(model)!r} reads whole prompts: what it read before cannot be "
                "kept (a recurrent state, a sliding window, or attention other than 'sdpa')",
                stacklevel=4,
            )
        return False

    def follow(self, model: nn.Module, version: int) -> None:
        self._version = (float(version),)

    def rest(self) -> None:
        """Free memory until replies are asked for again, as engines do."""
        self.forget()

    def forget(self) -> None:
        self._cache.clear()
        self._played.forget()
        if self._graphs is not None:
            self._graphs.clear()
        if self._kept is not None:
            self._kept.clear()
