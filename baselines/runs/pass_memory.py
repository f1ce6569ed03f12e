"""Memory of a training pass, counted without memory: on PyTorch's fake tensors, by every allocation.

Two small depths give the cost of a layer.
"""

import contextlib
import copy
import functools
import weakref
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from policies.pretrained import SEEING
from policies.scoring.head import autocast, hidden_at, token_logprobs
from policies.training import recomputed_activations

#: Depths of the models whose passes are counted.
_DEPTHS = (2, 4)


class Allocations(TorchDispatchMode):
    """Counts the bytes of tensor storages allocated while the block runs: `now`, and their maximum, `peak`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count the storages of its results; those of its arguments were there before."""
        self._add((args, kwargs), counted=False)
        found = func(*args, **(kwargs or {}))
        self._add(found, counted=True)
        return found

    def _add(self, values: Any, *, counted: bool) -> None:
        for each in tree_leaves(values):
            if isinstance(each, torch.Tensor) and (key := id(storage := each.untyped_storage())) not in self._known:
                size = storage.nbytes() * counted
                self._known[key] = weakref.ref(storage, functools.partial(self._remove, key, size))
                self.now += size
                self.peak = max(self.peak, self.now)

    def _remove(self, key: int, size: int, _: object) -> None:
        self.now -= size
        del self._known[key]


def empty_model(config: Any, dtype: torch.dtype, rank: int) -> Any:
    """Return a model of a configuration on the device "meta", with an adapter unless `rank` is 0."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    kind: Any = AutoModelForImageTextToText if config.model_type in SEEING else AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(copy.deepcopy(config), dtype=dtype, attn_implementation="sdpa")
        if rank:
            import peft

            made = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
            model = peft.get_peft_model(model, made)
    return model


def on_cpu(model: Any) -> Any:
    """Give a model from "meta" weights of the processor, whose values are not set."""
    known: dict[int, Any] = {}
    for module in model.modules():
        for named in (module._parameters, module._buffers):
            for name, each in named.items():
                if each is not None and id(each) not in known:
                    fresh = torch.empty(each.shape, dtype=each.dtype)
                    known[id(each)] = fresh if named is module._buffers else nn.Parameter(fresh, each.requires_grad)
                named[name] = None if each is None else known[id(each)]
    return model


class PassSizes(NamedTuple):
    """`peaks` of what a pass allocates: forward, and backward through the head, the layers and the embeddings.

    Each grows linearly with the number of layers; their maximum does not.
    """

    parameters: int
    trained: int
    adapted: int
    weights: int
    peaks: tuple[int, ...]

    @property
    def activations(self) -> int:
        return max(self.peaks)


def count_pass(
    config: Any, dtype: torch.dtype, rank: int, precision: torch.dtype | None, recompute: bool, rows: int, row: int,
    reply: int,
) -> PassSizes:  # fmt: skip
    """Run a pass over `rows` of `row` tokens, the last `reply` of them scored, forward and backward, and count it."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True), torch.random.fork_rng(devices=[]):
        model = on_cpu(empty_model(config, dtype, rank))
        weights = list(model.parameters())
        trained = [weight for weight in weights if weight.requires_grad]
        for weight in trained:
            weight.grad = torch.zeros_like(weight)  # of the previous pass
        peaks = list[int]()

        def mark(_: object = None) -> None:
            peaks.append(found.peak)
            found.peak = found.now

        def embedded(module: Any, given: Any, states: torch.Tensor) -> None:
            if states.requires_grad:
                states.register_hook(mark)

        model.get_input_embeddings().register_forward_hook(embedded)
        with recomputed_activations(model) if recompute else contextlib.nullcontext(), Allocations() as found:
            ids, lines = torch.zeros(rows, row, dtype=torch.int64), torch.arange(rows).repeat_interleave(reply)
            places = torch.arange(row - reply, row).repeat(rows)
            with autocast(torch.device("cpu"), precision):
                # A mask of four dimensions is used unchanged; otherwise a mask of T squared entries would be made here.
                mask = torch.ones(1, 1, 1, 1, dtype=torch.bool)
                hidden = hidden_at(model, ids, lines, places, use_cache=False, attention_mask=mask)[0]
                hidden.register_hook(mark)
                targets = torch.zeros_like(places)
                figures = token_logprobs(model.get_output_embeddings(), hidden, targets, entropy=False)
            mark()
            figures.logprobs.sum().backward()
            mark()
    bases = [module.get_base_layer().weight for module in model.modules() if hasattr(module, "get_delta_weight")]
    every, moving, adapted = (sum(weight.numel() for weight in each) for each in (weights, trained, bases))
    return PassSizes(every, moving, adapted, sum(weight.nbytes for weight in weights), tuple(peaks))


def pass_sizes(config: Any, *how: Any) -> PassSizes:
    """Return what `count_pass` returns for these arguments, computed from two small numbers of layers."""
    depth = config.get_text_config().num_hidden_layers
    few, many = _DEPTHS if depth > max(_DEPTHS) else (depth, depth)
    some = []
    for layers in {few: None, many: None}:
        shallow = type(config).from_dict(config.to_dict())
        inner = shallow.get_text_config()
        inner.num_hidden_layers = layers
        if getattr(inner, "layer_types", None):
            inner.layer_types = inner.layer_types[:layers]
        some.append(count_pass(shallow, *how))
    steps = (depth - few) / max(many - few, 1)

    def deep(one: int, other: int) -> int:
        return round(one + steps * (other - one))

    one, other = some[0], some[-1]
    parameters, trained, adapted, weights = map(deep, one[:4], other[:4])
    return PassSizes(parameters, trained, adapted, weights, tuple(map(deep, one.peaks, other.peaks)))
