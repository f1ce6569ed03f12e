"""First-token logits of prompts, remembered for as long as the model's weights stay the same."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from policies.prompts import Prompt

# Entries are float32 rows over the vocabulary; 2**24 numbers are 64 MiB.
_MOST_NUMBERS = 2**24


@torch.no_grad()
def weights_version(model: nn.Module) -> tuple[float, ...]:
    """A value that changes when anything writes into the weights.

    Torch counts most writes, but not those of fused optimisers or through ``parameter.data``: the sum of every
    tensor is compared as well. For the tiny model this costs a hundredth of a forward pass.
    """
    weights = list(model.parameters())
    counters = [number for weight in weights for number in (weight.data_ptr(), weight._version)]
    return (*counters, *torch.stack([weight.sum(dtype=torch.float32) for weight in weights]).tolist())


class LogitsMemo:
    """Answers repeated prompts without the model.

    In a group of rollouts the same board is met again and again, by other places and at later steps; while the
    policy is fixed the answer is the same. Empties itself when the weights change, and when it is full.

    Args:
        model: whose logits are remembered.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._rows: dict[Prompt, Tensor] = {}
        self._version: tuple[float, ...] = ()

    def __len__(self) -> int:
        """How many prompts are remembered."""
        return len(self._rows)

    def clear(self) -> None:
        """Forget everything."""
        self._rows = {}

    def __call__(
        self,
        prompts: Sequence[Prompt],
        compute: Callable[[list[Prompt]], Tensor],
        version: tuple[float, ...] | None = None,
    ) -> Tensor:
        """Logits of every prompt.

        Args:
            prompts: n prompts, repeats allowed.
            compute: called once with the distinct prompts that are not remembered; returns float32 (k, V).
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
