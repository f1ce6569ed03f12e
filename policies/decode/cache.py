"""What decoding keeps: keys and values of prompts in progress, a copy of the weights in 16 bits, and known logits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from policies.pretrained import pictures_of
from policies.prompts import Prompt
from policies.scoring.head import logits_at, pad, takes_positions
from policies.training import copied

#: Most tokens, padding included, of one pass over prompts.
_READ_TOKENS = 2**16


class DecodeBatch:
    """A key-value cache with one row per prompt; equal prompts share their prefill. Used without gradients.

    Padding is on the left: the newest tokens line up, and a sliding attention window covers the right tokens. `logits`,
    float32 (n, V), are those of the next token of every row.
    """

    def __init__(self, model: Any, prompts: Sequence[Prompt], fill: int) -> None:
        self._model, self._takes_positions = model, takes_positions(model)
        self.logits: Tensor
        self._pictures = pictures_of(model)
        # A mask in attention's own shape: transformers waits for the device to know whether an (n, S) mask hides any.
        config = model.config
        self._masks_keys = (
            getattr(config, "_attn_implementation", "") == "sdpa" and not getattr(config, "alibi", False)
            and self._takes_positions and self._pictures is None and can_join(model)
        )  # fmt: skip
        distinct = list(dict.fromkeys(prompts))
        first, *more = _parts(distinct) if can_join(model) else [distinct]
        self._read(first, fill)
        for part in more:
            self.join(DecodeBatch(model, part, fill))
        if len(distinct) < len(prompts):
            index = {prompt: row for row, prompt in enumerate(distinct)}
            self.logits = self.logits[self.keep([index[prompt] for prompt in prompts])]

    def _read(self, prompts: Sequence[Prompt], fill: int) -> None:
        from transformers import DynamicCache

        device = next(self._model.parameters()).device
        ids, self._mask = pad(prompts, fill=fill, left=True, device=device)
        self._lengths = [len(prompt) for prompt in prompts]
        self._cache: Any = DynamicCache(config=self._model.config)
        positions = (self._mask.long().cumsum(1) - 1).clamp(min=0)
        every = torch.arange(len(prompts), device=device)
        last = torch.full_like(every, ids.shape[1] - 1)
        self.logits = logits_at(self._model, ids, every, last, **self._arguments(self._mask, positions))
        self._position = positions[:, -1]
        if self._pictures is not None:
            self._position = self._position + self._pictures.shifts(ids)

    def _arguments(self, mask: Tensor, positions: Tensor) -> dict[str, Any]:
        given: dict[str, Any] = {"past_key_values": self._cache, "use_cache": True}
        padded = min(self._lengths) < mask.shape[1]
        if padded:
            one = positions.shape[1] == 1 and self._masks_keys
            given["attention_mask"] = mask[:, None, None] if one else mask.long()
        if self._pictures is not None or (padded and self._takes_positions):
            given["position_ids"] = positions
        return given

    def keep(self, rows: Sequence[int]) -> Tensor:
        """Take some rows, by number, for the next `append`, and return their numbers on the device, int64 (n,).

        `logits` stays as it is: the caller has drawn from it.
        """
        chosen = torch.tensor(rows).to(self._mask.device)
        # All layers have this method; those with a recurrent state lack `batch_select_indices`.
        self._cache.reorder_cache(chosen)
        self._mask, self._position = self._mask[chosen], self._position[chosen]
        self._lengths = [self._lengths[row] for row in rows]
        return chosen

    def append(self, tokens: Tensor) -> None:
        """Add a token, int64 (n,), to every row, and compute the next logits."""
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        self._position = self._position + 1
        self._lengths = [length + 1 for length in self._lengths]
        given = self._arguments(self._mask, self._position[:, None])
        self.logits = self._model(input_ids=tokens[:, None], **given).logits[:, -1].float()

    def join(self, other: Self) -> None:
        """Add the rows of another batch behind these; the shorter ones are padded on the left."""
        for batch in (self, other):  # columns that are padding in all rows are removed first
            batch._cut(batch._mask.shape[1] - max(batch._lengths))
        length = max(self._mask.shape[1], other._mask.shape[1])
        for batch in (self, other):
            batch._lengthen(length - batch._mask.shape[1])
        for mine, theirs in zip(self._cache.layers, other._cache.layers, strict=True):
            mine.keys, mine.values = torch.cat([mine.keys, theirs.keys]), torch.cat([mine.values, theirs.values])
        self._mask = torch.cat([self._mask, other._mask])
        self._position = torch.cat([self._position, other._position])
        self.logits = torch.cat([self.logits, other.logits])
        self._lengths = [*self._lengths, *other._lengths]

    def _cut(self, columns: int) -> None:
        if columns:
            self._mask = self._mask[:, columns:]
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[..., columns:, :], layer.values[..., columns:, :]

    def _lengthen(self, columns: int) -> None:
        if columns:
            self._mask = torch.nn.functional.pad(self._mask, (columns, 0))
            for layer in self._cache.layers:
                layer.keys = torch.nn.functional.pad(layer.keys, (0, 0, columns, 0))
                layer.values = torch.nn.functional.pad(layer.values, (0, 0, columns, 0))


def _parts(prompts: Sequence[Prompt]) -> list[list[Prompt]]:
    """Cut prompts into passes of at most `_READ_TOKENS` tokens, padding included; a longer prompt is read alone."""
    parts: list[list[Prompt]] = []
    longest = 0
    for prompt in prompts:
        longest = max(longest, len(prompt))
        if not parts or longest * (len(parts[-1]) + 1) > _READ_TOKENS:
            parts.append([])
            longest = len(prompt)
        parts[-1].append(prompt)
    return parts


def can_join(model: Any) -> bool:
    """Return whether batches of a model can be joined: all of its layers keep all keys, one after the other."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)


class PlayedModel:
    """The model that the loop decodes with: the policy's own, or a copy of it in 16 bits.

    Mixed precision would cast every float32 weight again at every token, and the keys and values would be float32. So a
    policy that computes in another type than its weights' plays with a copy in that type, without autocast. Weights
    that have the type already, such as the base under an adapter, are shared. The copy follows the weights.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._copy: Any = None
        self._dtype: torch.dtype | None = None
        self._version: object = None

    def __deepcopy__(self, memo: dict[int, Any]) -> PlayedModel:
        """Copy the model; the new one makes its own copy in 16 bits when it plays."""
        return PlayedModel(copy.deepcopy(self._model, memo))

    @torch.no_grad()
    def of(self, dtype: torch.dtype | None, version: object) -> Any:
        """Return the model to decode with.

        Args:
            dtype: the type to compute in; None: the weights' own.
            version: of the weights, as `WeightsCount` counts them; None: not known, the copy is made again.
        """
        if dtype is None or all(weight.dtype == dtype for weight in self._model.parameters()):
            return self._model
        if self._copy is None or self._dtype != dtype:
            self._copy, self._dtype = copied(self._model, dtype), dtype
        elif version is None or version != self._version:
            for mine, theirs in zip(self._copy.parameters(), self._model.parameters(), strict=True):
                if mine.data_ptr() != theirs.data_ptr():
                    mine.copy_(theirs)
        self._version = version
        return self._copy


#: Entries of a `LogitsCache` are float32 rows over the vocabulary; 2**24 numbers are 64 MiB.
_MOST_NUMBERS = 2**24


@torch.no_grad()
def weights_version(model: nn.Module) -> tuple[float, ...]:
    """Return a value that changes when anything writes into the weights.

    Torch counts most writes, but not those of fused optimisers or through `parameter.data`: the sum of every
    tensor is compared as well. For the tiny model this costs a hundredth of a forward pass. Weights on the "meta"
    device, which are elsewhere, never change here.
    """
    weights = list(model.parameters())
    if weights[0].is_meta:
        return (0.0,)
    counters = [number for weight in weights for number in (weight.data_ptr(), weight._version)]
    return (*counters, *torch.stack([weight.sum(dtype=torch.float32) for weight in weights]).tolist())


class WeightsCount:
    """Counts the states of a model's weights: 0 until they change for the first time after the first look.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> count = WeightsCount()
    >>> before = count(weights_version(model))
    >>> nn.init.zeros_(model.weight).shape, before, count(weights_version(model)), count(weights_version(model))
    (torch.Size([1, 1]), 0, 1, 1)
    """

    def __init__(self) -> None:
        self._state: tuple[float, ...] = ()
        self._version = -1

    def __deepcopy__(self, memo: object) -> WeightsCount:
        """Count anew: the weights of a copied model are its own."""
        return WeightsCount()

    def __call__(self, state: tuple[float, ...]) -> int:
        """Return the number of a state, as `weights_version` gives it."""
        if state != self._state:
            self._state = state
            self._version += 1
        return self._version


class LogitsCache:
    """Answers repeated prompts without the model.

    In a group of rollouts the same board is met again and again, in other sub-environments and at later steps; while
    the policy is fixed the answer is the same. Empties itself when the weights change, and when it is full.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._rows: dict[Prompt, Tensor] = {}
        self._version: tuple[float, ...] = ()

    def __len__(self) -> int:
        """Return how many prompts it holds."""
        return len(self._rows)

    def clear(self) -> None:
        """Drop everything."""
        self._rows = {}

    def __call__(
        self,
        prompts: Sequence[Prompt],
        compute: Callable[[list[Prompt]], Tensor],
        version: tuple[float, ...] | None = None,
    ) -> Tensor:
        """Return the logits of every prompt.

        Args:
            prompts: n prompts, repeats allowed.
            compute: called once with the distinct prompts that it does not hold; returns float32 (k, V).
            version: what `weights_version` says now, where the caller has asked already.

        Returns:
            float32 (n, V).
        """
        version = version or weights_version(self._model)
        if version != self._version:
            self.clear()
            self._version = version
        distinct = list(dict.fromkeys(prompts))
        missing = [prompt for prompt in distinct if prompt not in self._rows]
        if missing:
            rows = compute(missing)
            if (len(self._rows) + len(missing)) * rows.shape[1] > _MOST_NUMBERS:
                known = [prompt for prompt in distinct if prompt in self._rows]
                # A row is a view that keeps its whole computation alive; the few that stay are copied.
                self._rows = {prompt: self._rows[prompt].clone() for prompt in known}
            self._rows.update(zip(missing, rows.unbind(0), strict=True))
        return torch.stack([self._rows[prompt] for prompt in prompts])
