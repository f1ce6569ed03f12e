"""`gpu.json`: every figure of the GPU report, or the reason why it could not be measured; its check and its page."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import json_files
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine
from benchmarks.report.page import Page, Table
from benchmarks.speed.record import Measurement, tables

RESULTS, VERSION = "gpu.json", 2
NO_GPU = "no GPU"
#: Iterations that a published figure needs: left out, and measured.
WARMUP, MEASURED = 3, 10
STAGES = ("environment", "generation", "scoring", "credit", "update")
ON_DEVICE = ("generation", "scoring", "update")
#: Figures by key; None: only a known GPU has them. A text says why there is none.
Figures = dict[str, float | str | None]

#: Words and unit of every figure, by its key.
FIGURES: dict[str, tuple[str, str]] = {
    "hardware.memory": ("device memory", "GiB"),
    "hardware.peak": ("peak of the device, dense bf16", "FLOP/s"),
    "hardware.bandwidth": ("bandwidth of the device's memory", "B/s"),
    "model.parameters": ("parameters", ""),
    "model.trained": ("trained parameters", ""),
    **{f"stages.{name}.seconds": (f"{name}: an iteration", "s") for name in STAGES},
    **{f"stages.{name}.share": (f"{name}: share of an iteration", "%") for name in STAGES},
    **{f"stages.{name}.{kind}": (f"{name}: peak memory {kind}", "GiB") for name in ON_DEVICE
       for kind in ("allocated", "reserved")},
    "tokens.prompts": ("tokens of prompts, an iteration", ""),
    "tokens.replies": ("tokens of replies, an iteration", ""),
    "tokens.per_pass": ("tokens of a training pass", ""),
    "tokens.padding": ("padding of training passes", "%"),
    "tokens.rows": ("rows of a batch", ""),
    "tokens.chains": ("chains of a batch", ""),
    "tokens.chains_per_row": ("chains per row", ""),
    "rates.generated": ("generated", "tokens/s"),
    "rates.trained": ("trained", "tokens/s"),
    "rates.utilisation": ("update: share of peak, model's arithmetic", "%"),
    "rates.with_recomputation": ("update: share of peak, recomputation counted", "%"),
    "decode.tokens_per_second": ("decode loop", "tokens/s"),
    "decode.limit": ("decode loop: limit of the device", "tokens/s"),
    "decode.share": ("decode loop: share of the limit", "%"),
    **{
        f"passes.{i}.{key}": (f"training pass {kind} recomputation: {words}", unit)
        for i, kind in enumerate(("without", "with"))
        for key, words, unit in (
            ("tokens", "tokens", ""), ("seconds", "time", "s"), ("tokens_per_second", "rate", "tokens/s"),
            ("utilisation", "share of peak, model's arithmetic", "%"),
            ("with_recomputation", "share of peak, recomputation counted", "%"),
            ("kept", "kept per token", "MB"), ("peak", "peak memory", "GiB"),
        )
    },
    **{
        f"agreement.{of}.{key}": (f"{words} apart: {kind}", "nats")
        for of, words in (("sampler", "sampler and trainer"), ("precision", "bf16 and fp32 scores"))
        for key, kind in (("mean", "mean"), ("percentile_99", "99 %"), ("largest", "largest"))
    },
    "agreement.tis_clipped": ("weights of the correction at their limit", "%"),
    "memory.measured": ("update's peak memory, measured", "GiB"),
    "memory.expected": ("update's peak memory, by arithmetic", "GiB"),
    "memory.ratio": ("measured / arithmetic", ""),
    **{
        f"memory.parts.{part}": (f"of it, by arithmetic: {part}", "GiB")
        for part in (
            "weights", "gradients", "optimiser", "16-bit copies", "reference", "layer inputs", "one layer",
            "output head",
        )
    },
    "success.share": ("share of held-out tasks won (random weights)", ""),
    "success.low": ("its 95 % interval from", ""),
    "success.high": ("to", ""),
    "success.tasks": ("held-out tasks", ""),
}  # fmt: skip
#: Texts of version 1, by their names since.
_TEXTS = {
    **{f"hardware.{name}": name for name in ("device", "driver", "cuda", "commit")},
    "model.architecture": "model", "model.weights": "weights", "model.trained_weights": "trained weights",
    "model.optimiser": "optimiser", "model.compute": "arithmetic", "model.engine": "engine",
    "model.attention": "attention", "model.adapter_rank": "adapter rank",
    "model.recomputation": "activations recomputed",
}  # fmt: skip
_FORMULAS = (
    "Share of peak: ((4 W + 2 W_trained) S + 3 a S^2 / 2) / seconds / peak; recomputed: + 2 W S + a S^2 / 2. Decode "
    "limit: tokens/s = B / max((2 W + B C kv) / bandwidth, (2 W B + a B C) / peak). Symbols: "
    "baselines/records/utilisation.py."
)


@dataclass(frozen=True)
class Sizes:
    """What is measured; a folder holds the results of one choice. Iterations of the warm-up are left out.

    `tokens` are those of a training pass; a random model's replies are all as long as `reply_tokens`; the decode loop
    writes `decode_tokens` each behind a context; `held_out` are tasks of the success rate.
    """

    warmup: int
    iterations: int
    groups: int
    group_size: int
    turns: int
    reply_tokens: int
    tokens: int
    decode_batch: int
    decode_context: int
    decode_tokens: int
    attention: str
    held_out: int


@dataclass(frozen=True)
class GpuFigure(Measurement):
    """A figure, or why there is none."""

    absent: str = ""


@dataclass(frozen=True)
class ShapeResult:
    """One shape: all of `FIGURES`, and `about`, texts on hardware and model by name."""

    shape: str
    created: str
    machine: Machine
    about: dict[str, str]
    figures: list[GpuFigure]

    @classmethod
    def of(cls, shape: str, created: str, machine: Machine, about: Mapping[str, str], found: Figures) -> ShapeResult:
        """Put a result together; figures that are None are absent for want of a GPU, or of its peak."""
        why = NO_GPU if about["device"] == NO_GPU else "the device's peak is not known to baselines.records.utilisation"
        rows = []
        for key, (words, unit) in FIGURES.items():
            value = found[key]
            number, absent = (None, value or why) if value is None or isinstance(value, str) else (float(value), "")
            rows.append(GpuFigure(key, "Figures", words, True, number, unit, column=shape, absent=absent))
        return cls(shape, created, machine, dict(about), rows)


@dataclass(frozen=True)
class GpuResults:
    """The whole file: what was asked for, with the sizes of every shape, and what is measured so far."""

    version: int
    asked: dict[str, Sizes]
    shapes: list[ShapeResult]

    def of(self, shape: str) -> ShapeResult | None:
        return next((one for one in self.shapes if one.shape == shape), None)


def load(folder: Path) -> GpuResults:
    """Read the results of a folder; a ResultsError names the field that is missing, unknown or of a wrong type."""
    path = folder / RESULTS
    found = json_files.read_json(path)
    if isinstance(found, dict) and found.get("version") == 1:
        try:
            found = found | {"version": VERSION, "shapes": [_from_version_1(one) for one in found["shapes"]]}
        except (LookupError, TypeError) as error:
            raise ResultsError(f"{path}: a file of version 1 without {error}; measure again") from None
    remedy = "delete it and run the same command again"
    return json_files.parse(GpuResults, json.dumps(found).encode(), str(path), remedy)


def _from_version_1(shape: Any) -> Any:
    """A shape of version 1, which had a dataclass for every part, in the form of this one."""

    def value(path: str) -> Any:
        found = shape
        for step in path.split("."):
            found = found[int(step) if isinstance(found, list) else step]
        absent = isinstance(found, dict) and found["absent"]
        return absent or (found["value"] if isinstance(found, dict) else found)

    about = {name: str(value(path)) for path, name in _TEXTS.items()}
    figures = {key: value(key) for key in FIGURES}
    return json_files.encode(
        ShapeResult.of(shape["shape"], shape["created"], shape["hardware"]["machine"], about, figures)
    )


def save(results: GpuResults, folder: Path) -> None:
    """Write the results of a folder; an interrupted write leaves the old file."""
    json_files.write_json(results, folder / RESULTS)


def check_results(folder: Path) -> Iterator[str]:
    """Check that every figure of every shape is there, and yield one line per shape."""
    found, path = load(folder), folder / RESULTS
    if not found.asked:
        raise ResultsError(f"{path}: no shape was asked for")
    for shape in found.asked:
        one = found.of(shape)
        if one is None:
            raise ResultsError(f"{path}: shape {shape} is not measured; run the same command again")
        if missing := FIGURES.keys() - {each.key for each in one.figures}:
            raise ResultsError(f"{path}: {shape} lacks {', '.join(sorted(missing))}")
        without = one.about.get("device") == NO_GPU
        for each in one.figures:
            if (each.value is None) != bool(each.absent):
                raise ResultsError(f"{path}: {shape}: {each.key} must have a value or say why it is absent, got {each}")
            if each.absent == NO_GPU and not without:
                raise ResultsError(f"{path}: {shape}: {each.key} is absent although there is a GPU: {each.absent}")
        absent = sum(each.value is None for each in one.figures)
        yield f"{shape}: {len(one.figures) - absent} figures measured, {absent} marked absent" + (
            f" ({NO_GPU})" if without else ""
        )


def page(results: GpuResults) -> Page:
    """Return the figures, a column for each measured shape, and the notes beside them."""
    about, notes = [], ["Weights are random: speed, memory and agreement are measured, success means nothing."]
    for one in results.shapes:
        sizes = results.asked[one.shape]
        if sizes.warmup < WARMUP or sizes.iterations < MEASURED:
            notes.append(
                f"{one.shape}: {sizes.iterations} iterations after {sizes.warmup} of warm-up, fewer than the "
                f"{MEASURED} after {WARMUP} that a published figure needs."
            )
        if one.about["device"] == NO_GPU:
            notes.append(f"{one.shape}: measured on a CPU ({one.machine.hardware}); no figure is a GPU's.")
        about += [
            (f"{one.shape}: measured", one.created),
            (f"{one.shape}: machine", one.machine.hardware),
            (f"{one.shape}: software", one.machine.software),
            *((f"{one.shape}: {name}", text) for name, text in one.about.items()),
            (f"{one.shape}: sizes", ", ".join(f"{key} {value}" for key, value in vars(sizes).items())),
        ]
    shown: list[Table] = tables([each for one in results.shapes for each in one.figures])
    caption = " ".join([*notes, _FORMULAS])
    return Page(
        "Generation and training at known shapes",
        "Seconds, memory, tokens per second and agreement of the trainer, with random weights.",
        [dataclasses.replace(each, caption=caption) for each in shown],
        chips=[("shapes", ", ".join(one.shape for one in results.shapes)), ("weights", "random")],
        about=[*about, ("data", f"{RESULTS} beside this page holds every number")],
    )
