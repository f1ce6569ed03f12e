"""What a policy remembers between calls while its weights stay as they are: their state, and logits of prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from policies.prompts import Prompt

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

    Args:
        model: whose logits are kept.
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
