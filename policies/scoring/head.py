"""Forward passes of a causal language model whose output head runs only at selected positions, and in pieces."""

import contextlib
import functools
import inspect
import itertools
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.checkpoint import checkpoint

from policies.pretrained import text_config

Given = ParamSpec("Given")
ReturnT = TypeVar("ReturnT")
#: n token sequences.
Rows = Sequence[Sequence[int]]

# Positions per piece of the output head: 512 rows of a vocabulary of 151,936 are 0.3 GB in float32.
_CHUNK = 512
# Config entries of operations on logits after the head; None, 0 and 1: no operation.
_BEHIND_THE_HEAD = (
    "final_logit_softcapping", "logits_scaling", "logit_scale", "output_multiplier", "lm_head_multiplier"
)  # fmt: skip


def pad(sequences: Rows, *, fill: int, left: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Stack n token sequences, none empty, into a rectangle; `left`: padding, of the id `fill`, is at the start.

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
    return torch.tensor(rows, dtype=torch.int64).to(device, non_blocking=True), mask.to(device, non_blocking=True)


def rectangles(lengths: Sequence[int], tokens: int, rows: int | None = None) -> list[list[int]]:
    """Divide sequences, shortest first, into rectangles of at most so many tokens and rows; padding counts.

    A longer sequence is a rectangle by itself.

    >>> rectangles([30, 5, 6, 31], 64)
    [[1, 2], [0, 3]]
    """
    parts: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        if not parts or len(parts[-1]) == rows or lengths[row] * (len(parts[-1]) + 1) > tokens:
            parts.append([])
        parts[-1].append(row)
    return parts


def restrict(logits: Tensor, allowed: Rows) -> Tensor:
    """Return logits of minus infinity where a token is not allowed.

    Args:
        logits: float32 (n, V).
        allowed: n sequences of token ids; an empty one allows all.

    >>> restrict(torch.zeros(2, 3), [(2,), ()]).tolist()
    [[-inf, -inf, 0.0], [0.0, 0.0, 0.0]]
    """
    rows = [row for row, ids in enumerate(allowed) for _ in ids]
    columns = [token for ids in allowed for token in ids]
    kept = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
    places = torch.tensor([rows, columns], dtype=torch.int64).to(logits.device, non_blocking=True)
    kept[places[0], places[1]] = True
    if not all(map(len, allowed)):
        kept |= torch.tensor([[not len(ids)] for ids in allowed]).to(logits.device, non_blocking=True)
    return logits.masked_fill(~kept, -torch.inf)


def takes_positions(model: Any) -> bool:
    """Return whether the model's forward has `position_ids` (models with relative biases have not)."""
    under = model.get_base_model() if hasattr(model, "get_base_model") else model  # adapters hide the signature
    return "position_ids" in inspect.signature(under.forward).parameters


def autocast(device: torch.device, dtype: torch.dtype | None) -> contextlib.AbstractContextManager[Any]:
    """Return the context of mixed precision in `dtype`; None computes in the weights' own type."""
    if dtype is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)


# Steps of any optimiser in this process: fused ones write without torch's counters.
_STEPS = [0]
# Numbers of a weight that are compared to detect a change.
_LOOKED_AT = 1024


class WeightState(NamedTuple):
    """What is known of a model's weights.

    Attributes:
        number: changes when the weights change; no two models have the same.
        steps: of any optimiser in this process so far.
        counters: of each weight its address and torch's count of writes.
        sample: up to 2,048 numbers of each weight.
        sums: the sum of each weight in float32; nan or infinite where the weight holds such a number.
    """

    number: int
    steps: int
    counters: tuple[int, ...]
    sample: Tensor
    sums: tuple[float, ...]


_STATES: weakref.WeakKeyDictionary[nn.Module, WeightState] = weakref.WeakKeyDictionary()
_NUMBERS = itertools.count()


def _count_step(*_: object) -> None:
    _STEPS[0] += 1


register_optimizer_step_post_hook(_count_step)


@torch.no_grad()
def weight_state(model: nn.Module) -> WeightState:
    """Return the state of a model's weights, the last one if nothing has written into them since.

    Torch counts most writes, this module the steps of optimisers. For other ways to write (`weight.data`) some numbers
    of each weight are compared.
    """
    weights = _weights(model)
    counters = tuple(number for weight in weights for number in (weight.data_ptr(), weight._version))
    sample = torch.cat([_some(weight) for weight in weights])
    known = _STATES.get(model)
    same = known is not None and known.counters == counters and torch.equal(known.sample, sample)
    if known is None or not same or known.steps != _STEPS[0]:
        sums = _sums(weights)
        number = known.number if known and same and known.sums == sums else next(_NUMBERS)
        known = _STATES[model] = WeightState(number, _STEPS[0], counters, sample, sums)
    return known


def _weights(model: nn.Module) -> list[Tensor]:
    """Return every weight once, in a fixed order: `model.parameters()` without names takes a sixth of its time."""
    found: dict[int, Tensor] = {}
    modules: list[nn.Module | None] = [model]
    while modules:
        if (module := modules.pop()) is not None:
            found.update((id(weight), weight) for weight in module._parameters.values() if weight is not None)
            modules.extend(module._modules.values())
    return list(found.values())


def _some(weight: Tensor) -> Tensor:
    """Return some numbers of a weight, flat; a view where the weight is contiguous."""
    size = weight.numel()
    step = size // _LOOKED_AT if size > 2 * _LOOKED_AT else 1
    if weight.is_contiguous():
        return weight.as_strided((-(-size // step),), (step,))
    return weight.flatten()[::step]


def _sums(values: Sequence[Tensor]) -> tuple[float, ...]:
    return tuple(torch.stack([value.sum(dtype=torch.float32) for value in values]).tolist())


@torch.no_grad()
def not_finite(model: nn.Module, *, gradients: bool = False) -> str:
    """Name the first weight, or gradient of a weight, that holds nan or infinity; "" if none does."""
    values = [weight.grad for weight in model.parameters() if weight.grad is not None] if gradients else []
    # A sum propagates nan and infinity, and one transfer copies all sums; a large sum may itself be infinite.
    if all(map(math.isfinite, (_sums(values) if values else ()) if gradients else weight_state(model).sums)):
        return ""
    for name, weight in model.named_parameters():
        value = weight.grad if gradients else weight
        if value is not None and not bool(torch.isfinite(value).all()):
            kind = "nan" if bool(torch.isnan(value).any()) else "inf"
            return f"{'the gradient of ' if gradients else ''}{name} holds {kind}"
    return ""


def check_finite(model: nn.Module, whose: str) -> None:
    """Raise FloatingPointError for weights that are not finite.

    Args:
        whose: begins the message, such as "the policy's".

    Raises:
        FloatingPointError: one is nan or infinite; the message names the first.
    """
    if found := not_finite(model):
        raise FloatingPointError(f"{whose} {found}")


@contextlib.contextmanager
def _head_only_at(model: Any, rows: Tensor, columns: Tensor) -> Iterator[None]:
    # A hook on the head, instead of calling body and head separately, keeps operations on logits after the head
    # (scaling, soft caps), for every architecture.
    def gather(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (arguments[0][rows, columns].unsqueeze(0), *arguments[1:])

    handle = model.get_output_embeddings().register_forward_pre_hook(gather)
    try:
        yield
    finally:
        handle.remove()


def logits_at(model: Any, ids: Tensor, rows: Tensor, columns: Tensor, **arguments: Any) -> Tensor:
    """Return next-token logits, float32 (K, V), after `(rows, columns)`, int64 (K,), of `ids`, int64 (n, S), only.

    Right padding needs no mask here: attention is causal, so later tokens have no effect on a position. Other arguments
    are passed to the model. Differentiable when gradients are enabled.
    """
    with _head_only_at(model, rows, columns):
        logits: Tensor = model(input_ids=ids, **arguments).logits[0]
    return logits.float()


def hidden_at(model: Any, ids: Tensor, rows: Tensor, columns: Tensor, **arguments: Any) -> tuple[Tensor, Tensor]:
    """Return the inputs of the output head at `(rows, columns)` of `ids`; the head itself runs at one position.

    Arguments are those of `logits_at`.

    Returns:
        The hidden states (K, width), differentiable when gradients are enabled, in the type the model computes in;
        and the model's logits of the last position (n, 1, vocabulary).
    """
    kept: list[Tensor] = []

    def keep(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        kept.append(given[0][rows, columns])
        return (given[0][:, -1:], *given[1:])

    handle = model.get_output_embeddings().register_forward_pre_hook(keep)
    try:
        last: Tensor = model(input_ids=ids, **arguments).logits
    finally:
        handle.remove()
    return kept[0], last


def changes_logits(model: Any) -> bool:
    """Return whether the model's config has operations on logits after the output head."""
    config = text_config(model)
    return any(getattr(config, name, None) not in (None, 0, 1) for name in _BEHIND_THE_HEAD)


def attention_of(model: Any) -> str:
    """Return the name of a model's attention, as transformers has it; "" if it has none."""
    return str(getattr(getattr(model, "config", None), "_attn_implementation", ""))


def once_per_model(test: Callable[Concatenate[Any, Given], ReturnT]) -> Callable[Concatenate[Any, Given], ReturnT]:
    """Decorate a test of a model: its answer, but no error, is remembered while the model has the same attention."""
    known: weakref.WeakKeyDictionary[nn.Module, tuple[str, ReturnT]] = weakref.WeakKeyDictionary()

    @functools.wraps(test)
    def answer(model: Any, /, *args: Given.args, **kwargs: Given.kwargs) -> ReturnT:
        if model not in known or known[model][0] != attention_of(model):
            known[model] = attention_of(model), test(model, *args, **kwargs)
        return known[model][1]

    return answer


@once_per_model
@torch.no_grad()
def head_is_plain(model: Any, precision: torch.dtype | None) -> bool:
    """Return whether the output head alone gives the model's logits; one short pass per model tests it.

    Args:
        model: a Hugging Face causal language model.
        precision: autocast type, None for the weights' own.
    """
    device = next(model.parameters()).device
    ids = torch.arange(min(8, model.get_input_embeddings().num_embeddings), device=device)[None]
    # The cache of mixed precision would give these copies, which have no gradient, to the pass that needs one.
    with torch.autocast(device.type, dtype=precision, enabled=precision is not None, cache_enabled=False):
        hidden, last = hidden_at(model, ids, torch.zeros_like(ids[0]), ids[0], use_cache=False)
        alone = model.get_output_embeddings()(hidden[None, -1:])
    return not changes_logits(model) and torch.equal(alone.float(), last.float())


class TokenFigures(NamedTuple):
    """Figures of K tokens, see `policies.scoring.TokenScores`: float32, float32 and bool, (K,) each."""

    logprobs: Tensor
    entropy: Tensor
    top: Tensor


def token_logprobs(
    head: Callable[[Tensor], Tensor], hidden: Tensor, targets: Tensor, *, temperature: float = 1.0,
    entropy: bool | None = False, allowed: Rows | None = None, chunk: int = _CHUNK,
) -> TokenFigures:  # fmt: skip
    """Run the output head and reduce its logits piece by piece; the backward pass computes each piece again.

    A full head keeps float32 logits and their logarithms, 1.2 MB per token at a vocabulary of 151,936. Here only the
    hidden state is kept.

    Args:
        head: from hidden states (k, width) to logits (k, vocabulary).
        targets: int64 (K,), the token that followed each.
        temperature: divides the logits, above 0.
        entropy: True: differentiable. False: without gradient. None: not computed, 0.
        allowed: K sequences of token ids, see `restrict`; None: no restriction.
    """
    pieces = []
    for low in range(0, len(targets), chunk):
        part = slice(low, low + chunk)
        piece = head, hidden[part], targets[part], temperature, entropy, None if allowed is None else allowed[part]
        if torch.is_grad_enabled():
            pieces.append(checkpoint(_figures, *piece, use_reentrant=False, preserve_rng_state=False))
        else:
            pieces.append(_figures(*piece))
    return TokenFigures(*map(torch.cat, zip(*pieces, strict=True)))


def _figures(
    head: Callable[[Tensor], Tensor],
    hidden: Tensor,
    targets: Tensor,
    temperature: float,
    entropy: bool | None,
    allowed: Rows | None,
) -> TokenFigures:
    logits = head(hidden).float() / temperature
    if allowed is not None:
        logits = restrict(logits, allowed)
    distribution = torch.log_softmax(logits, dim=-1)
    del logits
    logprobs = distribution.gather(1, targets[:, None])[:, 0]
    return TokenFigures(logprobs, entropies(distribution, entropy), logprobs.detach() >= distribution.detach().amax(-1))


def entropies(distribution: Tensor, entropy: bool | None) -> Tensor:
    """Return the entropies, (n,), of log-probabilities (n, vocabulary), in nats; `entropy` as of `token_logprobs`."""
    if entropy is None:
        return distribution.new_zeros(len(distribution))
    with torch.set_grad_enabled(entropy and torch.is_grad_enabled()):
        # The clamp keeps 0 * -inf out: a token of probability 0 adds nothing to the entropy.
        return -(distribution.exp() * distribution.clamp(min=torch.finfo(torch.float32).min)).sum(-1)
