"""A padded forward pass of a causal language model whose output head runs only where logits are wanted."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def pad(sequences: Sequence[Sequence[int]], *, fill: int, left: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Stack token sequences into a rectangle.

    Args:
        sequences: n sequences of token ids, none empty.
        fill: the token id written into the padding.
        left: pad at the start (True) or at the end (False).
        device: where the tensors go.

    Returns:
        `ids` int64 (n, S) and `mask` bool (n, S), True = a real token; S is the longest length.
    """
    longest = max(map(len, sequences))
    if left:
        rows = [[fill] * (longest - len(one)) + list(one) for one in sequences]
    else:
        rows = [list(one) + [fill] * (longest - len(one)) for one in sequences]
    lengths = torch.tensor([len(one) for one in sequences])
    columns = torch.arange(longest)
    mask = columns >= (longest - lengths)[:, None] if left else columns < lengths[:, None]
    return torch.tensor(rows, dtype=torch.int64).to(device), mask.to(device)


def takes_positions(model: nn.Module) -> bool:
    """Return whether the model's forward has `position_ids` (models with relative biases have not)."""
    return "position_ids" in inspect.signature(model.forward).parameters


def autocast(device: torch.device, dtype: torch.dtype | None) -> contextlib.AbstractContextManager[Any]:
    """Return the context of mixed precision in `dtype`; None computes in the weights' own type."""
    if dtype is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)


@torch.no_grad()
def not_finite(model: nn.Module, *, gradients: bool = False) -> str:
    """Say which weight, or gradient of a weight, is the first that holds nan or infinity; "" where none does."""
    for name, weight in model.named_parameters():
        value = weight.grad if gradients else weight
        if value is not None and not bool(torch.isfinite(value).all()):
            kind = "nan" if bool(torch.isnan(value).any()) else "inf"
            return f"{'the gradient of ' if gradients else ''}{name} holds {kind}"
    return ""


def check_finite(model: nn.Module, whose: str) -> None:
    """Refuse weights that are not numbers.

    Args:
        model: whose parameters are looked at.
        whose: begins the message, such as "the policy's".

    Raises:
        FloatingPointError: one is nan or infinite; the message names the first.
    """
    if found := not_finite(model):
        raise FloatingPointError(f"{whose} {found}")


@contextlib.contextmanager
def _head_only_at(model: Any, rows: Tensor, columns: Tensor) -> Iterator[None]:
    # A hook on the head instead of calling body and head separately: what a model does to its logits after
    # the head (scaling, soft caps) still happens, for every architecture.
    def gather(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (arguments[0][rows, columns].unsqueeze(0), *arguments[1:])

    handle = model.get_output_embeddings().register_forward_pre_hook(gather)
    try:
        yield
    finally:
        handle.remove()


def logits_at(model: Any, ids: Tensor, rows: Tensor, columns: Tensor, **arguments: Any) -> Tensor:
    """Return next-token logits after the tokens at `(rows, columns)` of `ids`, and at no other position.

    Right padding needs no mask here: attention is causal, so what stands after a position cannot reach it.

    Args:
        model: a Hugging Face causal language model.
        ids: int64 (n, S).
        rows: int64 (K,), the sequence of each wanted position.
        columns: int64 (K,), its place in the sequence.
        **arguments: passed on to the model (mask, position ids, cache).

    Returns:
        float32 (K, vocabulary); differentiable when gradients are enabled.
    """
    with _head_only_at(model, rows, columns):
        logits: Tensor = model(input_ids=ids, **arguments).logits[0]
    return logits.float()
