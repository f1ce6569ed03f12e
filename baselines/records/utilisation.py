"""How well an update uses its device: tokens per second, memory, and the share of the device's arithmetic.

With W weights in matrix products, L layers of width d (heads x head size) and a sequence of S tokens, one forward pass
is 2 W S for the weights and a S^2 / 2 for causal attention, a = 4 L d. A backward pass is twice that, without the part
for the gradients of frozen weights:

    training = (4 W + 2 W_trained) S + 3 a S^2 / 2

Of a vision-language model only the language model is counted, with the pictures' placeholders. Recomputation is not
counted.

A decode step of B replies at a context of C tokens reads all weights and the whole cache once, and takes at least

    max((2 W + B C kv) / bandwidth, (2 W B + a B C) / peak)

seconds in 16 bits, kv = 4 L (key-value heads x head size) bytes per token.
"""

import contextlib
import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from policies.pretrained import text_config

#: Dense bf16 FLOP/s by a part of the device's name, as the maker prints them.
PEAKS = {
    "H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "A10G": 70e12, "A10": 125e12,
    "RTX 4090": 165e12,
}  # fmt: skip
#: Bytes per second of its memory, likewise.
BANDWIDTHS = {
    "H200": 4.8e12, "H100 PCIe": 2.0e12, "H100": 3.35e12, "A100-SXM4-80GB": 2.039e12, "A100 80GB": 1.935e12,
    "A100": 1.555e12, "L40S": 0.864e12, "A10G": 0.6e12, "A10": 0.6e12, "RTX 4090": 1.008e12,
}  # fmt: skip


# What transformers calls the vision tower of the models that `policies.vision.policy` plays with.
_TOWER = "visual"


def peak_flops(device: torch.device) -> float | None:
    """Return the device's dense bf16 FLOP/s; None if they are not known, as for any CPU."""
    return _by_name(PEAKS, device)


def peak_bandwidth(device: torch.device) -> float | None:
    """Return the bytes per second of the device's memory; None if they are not known, as for any CPU."""
    return _by_name(BANDWIDTHS, device)


def _by_name(known: Mapping[str, float], device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((value for part, value in known.items() if part in name), None)


def product_weights(model: Any) -> tuple[int, int]:
    """Return the weights of a model's matrix products, and how many of them are trained."""
    weights = trained = 0
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and _TOWER not in name.split("."):
            weights += module.weight.numel()
            trained += module.weight.numel() * module.weight.requires_grad
    return weights, trained


def _attention(model: Any) -> int:
    config = text_config(model)
    return 4 * config.num_hidden_layers * config.num_attention_heads * _head_size(config)


def _head_size(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def forward_flops(model: Any, lengths: Sequence[int]) -> float:
    """Return the FLOPs of one forward pass over sequences, which full recomputation adds to `training_flops`."""
    weights, _ = product_weights(model)
    return sum(2 * weights * n + _attention(model) * n * n / 2 for n in lengths)


def decode_seconds(model: Any, batch: int, context: int, bandwidth: float, peak: float) -> float:
    """Return the minimum seconds of a decode step in 16 bits, see above.

    Args:
        model: a Hugging Face causal language model.
        context: tokens in the cache of each reply.
        bandwidth: bytes per second.
    """
    config = text_config(model)
    weights, _ = product_weights(model)
    cache = 4 * config.num_hidden_layers * config.num_key_value_heads * _head_size(config)
    read = (2 * weights + batch * context * cache) / bandwidth
    computed = (2 * weights * batch + _attention(model) * batch * context) / peak
    return max(read, computed)


def training_flops(model: Any, lengths: Sequence[int]) -> float:
    """Return the FLOPs of one forward and backward pass over sequences, see above."""
    weights, trained = product_weights(model)
    attention = _attention(model)
    return sum((4 * weights + 2 * trained) * n + 1.5 * attention * n * n for n in lengths)


def update_figures(model: Any, lengths: Sequence[int], epochs: int, seconds: float) -> dict[str, float]:
    """Return the entries of a log's row about the speed of an update.

    Returns:
        "update_tokens_per_second"; on a device whose peak is known also "share_peak_flops", in percent: the model-FLOP
        utilisation.
    """
    seconds = max(seconds, 1e-9)
    found = {"update_tokens_per_second": epochs * sum(lengths) / seconds}
    peak = peak_flops(next(model.parameters()).device)
    if peak is not None:
        found["share_peak_flops"] = 100 * epochs * training_flops(model, lengths) / seconds / peak
    return found


class PeakMemory:
    """Peak memory of each stage: of a CUDA device, or the process's resident memory on a CPU (Linux)."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.figures: dict[str, float] = {}
        self._begin()

    def _begin(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        elif self._device.type == "cpu":
            # Return freed memory to the system, and reset the kernel's peak of the process's memory.
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)
                Path("/proc/self/clear_refs").write_text("5")

    def end(self, stage: str) -> None:
        """Record the peak since the previous stage in GiB: "memory_<stage>" and "..._reserved", or "..._resident"."""
        if self._device.type == "cuda":
            self.figures[f"memory_{stage}"] = torch.cuda.max_memory_allocated(self._device) / 2**30
            self.figures[f"memory_{stage}_reserved"] = torch.cuda.max_memory_reserved(self._device) / 2**30
        elif self._device.type == "cpu":
            with contextlib.suppress(OSError, IndexError):
                status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
                self.figures[f"memory_{stage}_resident"] = int(status.partition("VmHWM:")[2].split()[0]) / 2**20
        self._begin()
