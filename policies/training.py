"""What training asks of a model: weights that can move, activations that fit, its start, and what of it changes."""

import contextlib
import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

# Half a step of a bfloat16 weight of size 0.02 is 6e-5, an update at a learning rate of 1e-6 is 1e-6.
_PRECISE = (torch.float32, torch.float64)


def check_trainable(model: nn.Module) -> None:
    """Refuse weights that an optimiser would not move.

    Raises:
        ValueError: no weight is trainable, or a trainable one has fewer than 32 bits.
    """
    trainable = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    if not trainable:
        raise ValueError("no weight of the model is trainable: call model.requires_grad_(True), or add an adapter")
    for name, weight in trainable:
        if weight.dtype not in _PRECISE:
            kind = str(weight.dtype).removeprefix("torch.")
            raise ValueError(
                f"{name} is {kind}: {kind} weights do not move at a usual learning rate, because a step is smaller "
                "than their rounding; load the model with dtype=torch.float32, or train an adapter "
                "(policies.lora.add_lora)"
            )


def check_no_dropout(model: nn.Module) -> None:
    """Refuse a model whose training mode draws random numbers: its log-probabilities would not be the sampler's.

    Raises:
        ValueError: a dropout is above 0; the message names it.
    """
    for name, module in model.named_modules():
        rate = getattr(module, "p", 0.0) if "Dropout" in type(module).__name__ else 0.0
        for field in ("attention_dropout", "dropout", "layerdrop"):
            found = getattr(module, field, 0.0)
            rate = found if isinstance(found, float) and found > 0 else rate
        if rate > 0:
            raise ValueError(
                f"{name or type(model).__name__} has a dropout of {rate}: activation checkpointing needs the model in "
                "training mode, where replies would get other log-probabilities at every look; set it to 0 in the "
                "model's config"
            )


def on_gpu(model: nn.Module) -> bool:
    """Return whether a model's weights are on a device with separate memory."""
    return next(model.parameters()).device.type not in ("cpu", "meta")


def is_exact(policy: Any) -> bool:
    """Return whether a policy computes in 32 bits or more, so that sampling and scoring agree to rounding."""
    precise = all(weight.dtype in _PRECISE for weight in policy.model.parameters())
    return getattr(policy, "precision", None) is None and precise


def can_recompute(model: Any) -> bool:
    """Return whether `recomputed_activations` takes a model."""
    try:
        check_no_dropout(model)
    except ValueError:
        return False
    under = model.get_base_model() if hasattr(model, "get_base_model") else model
    return any(
        getattr(under, name, False) for name in ("supports_activation_checkpointing", "supports_gradient_checkpointing")
    )


@contextlib.contextmanager
def memory_explained(advice: Callable[[], str]) -> Iterator[None]:
    """Add advice to an out-of-memory error; of nested blocks only the innermost adds it.

    Args:
        advice: returns what does not fit, and which settings make it smaller.

    Raises:
        torch.OutOfMemoryError: with the advice in front of the device's own message.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        if getattr(error, "is_explained", False):
            raise
        explained: Any = torch.OutOfMemoryError(
            f"{advice()}. Where much memory is reserved and not allocated, set "
            f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. Cause: {error}"
        )
        explained.is_explained = True
        raise explained from error


def recompute_activations(model: Any) -> Callable[[], None]:
    """Keep only what each layer begins with, and compute the rest again in the backward pass; return what ends it.

    transformers does this in training mode alone, in which a decode loop loses its cache: a model that plays does it
    for a block, see `recomputed_activations`.

    Args:
        model: a transformers model, or one with adapters.

    Raises:
        ValueError: the model has a dropout above 0, or its architecture cannot do this.
    """
    check_no_dropout(model)
    new = hasattr(model, "activation_checkpointing_enable")  # its name since transformers 5.20
    (model.activation_checkpointing_enable if new else model.gradient_checkpointing_enable)({"use_reentrant": False})
    model.train()

    def end() -> None:
        model.eval()
        (model.activation_checkpointing_disable if new else model.gradient_checkpointing_disable)()

    return end


@contextlib.contextmanager
def recomputed_activations(model: Any) -> Iterator[None]:
    """Do `recompute_activations` within the block; behind it the model is in evaluation mode."""
    end = recompute_activations(model)
    try:
        yield
    finally:
        end()


def copied(model: Any, dtype: torch.dtype | None = None, instead: Mapping[int, Tensor] | None = None) -> Any:
    """Return a copy of a model.

    Args:
        dtype: None: the trainable weights are copied, the frozen ones are shared. A type: no weight of the copy is
            trainable, floating-point weights have that type, and those that have it already are shared.
        instead: values of some weights in the copy, by their `id`; then no weight of the copy is trainable.
    """
    memo: dict[int, Any] = {}
    for weight in model.parameters():
        if instead is not None:
            value = instead.get(id(weight), weight.detach())
            memo[id(weight)] = nn.Parameter(value.to(dtype or value.dtype), requires_grad=False)
        elif dtype is None:
            memo |= {} if weight.requires_grad else {id(weight): weight}
        else:  # cast one by one, so that there is no whole copy in between
            cast = weight.detach().to(dtype) if weight.is_floating_point() else weight.detach()
            memo[id(weight)] = nn.Parameter(cast, requires_grad=False)
    return copy.deepcopy(model, memo)


def frozen(policy: Any, dtype: torch.dtype | None = None) -> Any:
    """Return the policy's start, to score only: the base without its adapter, or a copy of the weights as they are now.

    An adapter that has been trained before the run (`policies.lora.begin_with`) is copied; its base is shared.

    Args:
        dtype: type of the copy's weights; None: the same as the policy's, which is exact. bfloat16 takes half the
            memory of float32. Not used where there is an adapter.
    """
    start, adapted = copy.copy(policy), hasattr(policy.model, "disable_adapter")
    if adapted and not getattr(policy.model, "begins_adapted", False):
        start.score = _without_adapter(policy)
        return start
    shared = adapted or dtype is not None
    start.model = copied(policy.model, None if adapted else dtype) if shared else copy.deepcopy(policy.model)
    start.model.requires_grad_(False)
    return start


def trained_beside(policy: Any) -> Any:
    """Return the policy over a copy of its model, which is trained and saved by itself.

    Weights that are frozen under an adapter are shared: the copy is a second adapter.
    """
    twin = copy.copy(policy)
    twin.model = copied(policy.model)
    return twin


def at_rest(policy: Any) -> Any:
    """Return the policy over a copy of its weights as they are now, to act with while the policy is trained.

    Frozen weights under an adapter, and a sampler, are shared.

    Raises:
        TypeError: it has no `with_model`, or its sampler reads the weights that are being trained.
    """
    if not hasattr(policy, "with_model"):
        raise TypeError(f"{type(policy).__name__} has no with_model(model): it cannot act while it is trained")
    return policy.with_model(copied(policy.model, getattr(policy, "precision", None)))


def _without_adapter(policy: Any) -> Any:
    @torch.no_grad()
    def score(*arguments: Any, **options: Any) -> Any:
        with policy.model.disable_adapter():
            return policy.score(*arguments, **options)

    return score


def trained_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the state of a model's trainable weights; with an adapter, that of the adapter."""
    named = model.named_parameters(remove_duplicate=False)  # a tied weight has two names in a state as well
    fixed = {name for name, weight in named if not weight.requires_grad}
    return {name: value for name, value in model.state_dict().items() if name not in fixed}


def load_trained_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Take over what `trained_state` returned; the frozen weights stay as they are.

    Raises:
        ValueError: the state is of another model; the message names a weight.
    """
    expected = trained_state(model)
    if differing := sorted(expected.keys() ^ state.keys()):
        raise ValueError(f"the state is of another model: {differing[0]!r} is in only one of them")
    for name, value in state.items():
        if value.shape != expected[name].shape:
            raise ValueError(f"{name} has shape {list(expected[name].shape)}, the state {list(value.shape)}")
    model.load_state_dict(state, strict=False)


def fingerprint(weights: Iterable[tuple[str, Tensor]]) -> str:
    """Return 16 hexadecimal digits that tell weights apart: of names, shapes, and 64 numbers of each in bfloat16.

    Rounded so that the same weights in 32 and in 16 bits have the same fingerprint.
    """
    found = hashlib.sha256()
    for name, weight in sorted(weights, key=lambda pair: pair[0]):
        flat = weight.detach().flatten()
        some = flat[:: max(1, len(flat) // 64)][:64].to("cpu", torch.bfloat16)
        found.update(f"{name}{list(weight.shape)}".encode())
        found.update(some.view(torch.int16).numpy().tobytes())
    return found.hexdigest()[:16]
