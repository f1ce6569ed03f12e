"""State of decoding: a copy of the weights, their version, and cached logits."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from policies.lora import has_adapter, merged_weights
from policies.pretrained import pictures_of
from policies.prompts import Prompt
from policies.scoring.head import weight_state
from policies.training import copied


class PlayedModel:
    """The model that the loop decodes with: the policy's own, or a copy of it in 16 bits, or with its adapter merged.

    Mixed precision would cast every float32 weight again at every token, and an adapter costs two more products. The
    copy has weights of the computation's type, with the adapter added; it shares other weights and follows the
    policy's. `forget` frees its memory.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._copy: Any = None
        self._dtype: torch.dtype | None = None
        self._version: object = None

    def __deepcopy__(self, memo: dict[int, Any]) -> PlayedModel:
        return PlayedModel(copy.deepcopy(self._model, memo))

    def forget(self) -> None:
        self._copy = None

    @torch.no_grad()
    def of(self, dtype: torch.dtype | None, version: object) -> Any:
        """Return the model to decode with.

        Args:
            dtype: the type to compute in; None: the weights' own.
            version: version of the weights by `WeightsCount`; None: unknown, the copy is made again.
        """
        adapted = has_adapter(self._model)
        if not adapted and (dtype is None or all(weight.dtype == dtype for weight in self._model.parameters())):
            return self._model
        if self._copy is None or self._dtype != dtype or (adapted and (version is None or version != self._version)):
            self._copy = None
            # Pictures are registered with the adapted model.
            merges = adapted and pictures_of(self._model) is None and self._fits()
            sums = merged_weights(self._model) if merges else None
            if sums is None and (dtype is None or all(weight.dtype == dtype for weight in self._model.parameters())):
                return self._model
            self._copy, self._dtype = copied(self._model, dtype, sums), dtype
            if sums is not None:
                self._copy = self._copy.unload()
        elif version is None or version != self._version:
            for mine, theirs in zip(self._copy.parameters(), self._model.parameters(), strict=True):
                if mine.data_ptr() != theirs.data_ptr():
                    mine.copy_(theirs)
        self._version = version
        return self._copy

    def _fits(self) -> bool:
        weight = next(self._model.parameters())
        if weight.device.type != "cuda":
            return True
        size = sum(each.numel() * each.element_size() for each in self._model.parameters())
        return bool(torch.cuda.mem_get_info(weight.device)[0] > 2 * size)


#: Entries of a `LogitsCache` are float32 rows over the vocabulary; 2**24 numbers are 64 MiB.
_MOST_NUMBERS = 2**24


@torch.no_grad()
def weights_version(model: nn.Module) -> tuple[float, ...]:
    """Return a value that changes when anything writes into the weights.

    It holds the sums of all weights, and is not finite where a weight is not. Weights on "meta" never change here.
    """
    if next(model.parameters()).is_meta:
        return (0.0,)
    state = weight_state(model)
    return (state.number, *_adapters(model), *state.sums)


def _adapters(model: Any) -> list[float]:
    if not hasattr(model, "peft_config"):
        return []
    layers = (module for module in model.modules() if hasattr(module, "merged_adapters"))
    return [
        float(zlib.crc32(repr((each.disable_adapters, each.active_adapters, each.merged_adapters)).encode()))
        for each in layers
    ]


class WeightsCount:
    """Counts the states of a model's weights: 0 until they change after the first call.

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
        return WeightsCount()

    def __call__(self, state: tuple[float, ...]) -> int:
        """Return the number of a state from `weights_version`."""
        if state != self._state:
            self._state = state
            self._version += 1
        return self._version


class LogitsCache:
    """Answers repeated prompts without the model.

    Empties itself when the weights change, and when it is full.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._rows: dict[Prompt, Tensor] = {}
        self._version: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        self._rows = {}

    def __call__(
        self,
        prompts: Sequence[Prompt],
        compute: Callable[[list[Prompt]], Tensor],
        version: tuple[float, ...] | None = None,
    ) -> Tensor:
        """Return the logits of every prompt.

        Args:
            compute: called once with the distinct prompts that it does not hold; returns float32 (k, V).
            version: the current `weights_version`, if the caller already has it.

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
