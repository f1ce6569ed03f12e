"""`gpu.json`: every figure of the GPU report, or the reason why it could not be measured; its check and its page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import json_files
from benchmarks.console import NONE
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine
from benchmarks.report.page import Page, Table

RESULTS = "gpu.json"
VERSION = 1
NO_GPU = "no GPU"
#: What a figure needs to be published.
WARMUP, MEASURED = 3, 10


@dataclass(frozen=True)
class Figure:
    """A number or name, or None and in `absent` why there is none."""

    value: float | str | None
    absent: str = ""

    @classmethod
    def of(cls, value: float | str | None, absent: str = NO_GPU) -> Figure:
        """Return a figure; `absent` counts where the value is None."""
        return cls(value, absent if value is None else "")


@dataclass(frozen=True)
class Sizes:
    """What is measured; a folder holds the results of one choice.

    Attributes:
        warmup: iterations that are left out.
        iterations: iterations that are measured.
        groups, group_size: tasks, and episodes of each.
        turns: of an episode.
        reply_tokens: longest reply; a random model's are all that long.
        tokens: of a training pass (`memory.microbatch_tokens`).
        decode_batch, decode_context, decode_tokens: replies side by side, tokens before them, tokens of each.
        attention: kernel, as transformers names it.
        held_out: tasks of the success rate.
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
class Hardware:
    """Where it ran. `memory` in GiB, `peak` in FLOP/s (dense, bf16) and `bandwidth` in bytes per second as printed."""

    machine: Machine
    device: Figure
    driver: Figure
    cuda: Figure
    memory: Figure
    peak: Figure
    bandwidth: Figure
    commit: Figure


@dataclass(frozen=True)
class Model:
    """What was trained: counts of parameters, types of weights, optimiser and arithmetic."""

    architecture: str
    parameters: int
    trained: int
    adapter_rank: int
    weights: str
    trained_weights: str
    optimiser: str
    compute: str
    engine: str
    attention: str
    recomputation: bool


@dataclass(frozen=True)
class Stage:
    """Mean seconds of an iteration, their share in percent, and the peak memory in GiB."""

    seconds: Figure
    share: Figure
    allocated: Figure
    reserved: Figure


@dataclass(frozen=True)
class Stages:
    """Where an iteration's time and memory go; `scoring` is of old and reference log-probabilities."""

    environment: Stage
    generation: Stage
    transfer: Stage
    scoring: Stage
    credit: Stage
    update: Stage


@dataclass(frozen=True)
class Tokens:
    """Means of an iteration: tokens of prompts and replies, and what the update's passes make of them.

    `padding` is in percent of the tokens of all passes.
    """

    prompts: float
    replies: float
    per_pass: float
    padding: float
    rows: float
    chains: float
    chains_per_row: float


@dataclass(frozen=True)
class Rates:
    """Tokens per second, and the update's share of the peak arithmetic in percent.

    `utilisation` counts the model's arithmetic, `with_recomputation` what the device computes.
    """

    generated: float
    trained: float
    utilisation: Figure
    with_recomputation: Figure
    formula: str


@dataclass(frozen=True)
class Decode:
    """The decode loop alone: tokens per second, their limit by the device's memory and arithmetic, share in percent."""

    tokens_per_second: float
    limit: Figure
    share: Figure
    formula: str


@dataclass(frozen=True)
class Pass:
    """One forward and backward pass over a packed row: seconds, rates as in `Rates`, memory.

    `kept` is MB per token from forward to backward pass, `peak` GiB.
    """

    recomputation: bool
    tokens: int
    seconds: float
    tokens_per_second: float
    utilisation: Figure
    with_recomputation: Figure
    kept: Figure
    peak: Figure


@dataclass(frozen=True)
class Difference:
    """Differences of log-probabilities in nats."""

    mean: Figure
    percentile_99: Figure
    largest: Figure


@dataclass(frozen=True)
class Agreement:
    """What was sampled against what the trainer scores, bf16 against fp32 scores, and clipped weights in percent."""

    sampler: Difference
    precision: Difference
    tis_clipped: float


@dataclass(frozen=True)
class Memory:
    """Peak of the update in GiB beside what arithmetic expects, part by part, and the ratio of the two."""

    measured: Figure
    expected: float
    ratio: Figure
    parts: dict[str, float]


@dataclass(frozen=True)
class Success:
    """Share of held-out tasks solved, with its 95 % interval; random weights solve what chance solves."""

    share: float
    low: float
    high: float
    tasks: int


@dataclass(frozen=True)
class ShapeResult:
    """All figures of one shape."""

    shape: str
    created: str
    hardware: Hardware
    model: Model
    stages: Stages
    tokens: Tokens
    rates: Rates
    decode: Decode
    passes: list[Pass]
    agreement: Agreement
    memory: Memory
    success: Success


@dataclass(frozen=True)
class GpuResults:
    """The whole file: what was asked for, with the sizes of every shape, and what is measured so far."""

    version: int
    asked: dict[str, Sizes]
    shapes: list[ShapeResult]

    def of(self, shape: str) -> ShapeResult | None:
        """The result of a shape, or None."""
        return next((one for one in self.shapes if one.shape == shape), None)


def load(folder: Path) -> GpuResults:
    """Read the results of a folder; a ResultsError names the field that is missing, unknown or of a wrong type."""
    return json_files.load(GpuResults, folder / RESULTS)


def save(results: GpuResults, folder: Path) -> None:
    """Write the results of a folder; an interrupted write leaves the old file."""
    json_files.write_json(results, folder / RESULTS)


def figures(value: Any, name: str = "") -> Iterator[tuple[str, Figure]]:
    """Yield every figure of a dataclass with its path, such as "rates.utilisation"."""
    if isinstance(value, Figure):
        yield name, value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from figures(getattr(value, field.name), f"{name}.{field.name}".removeprefix("."))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from figures(item, f"{name}[{place}]")


def check_results(folder: Path) -> Iterator[str]:
    """Check that every figure of every shape is there, and yield one line per shape.

    Raises:
        ResultsError: a shape is not measured, a figure neither has a value nor says why, or one that a GPU gives is
            absent beside a GPU.
    """
    found = load(folder)
    if not found.asked:
        raise ResultsError(f"{folder / RESULTS}: no shape was asked for")
    for shape in found.asked:
        result = found.of(shape)
        if result is None:
            raise ResultsError(f"{folder / RESULTS}: shape {shape} is not measured; run the same command again")
        absent = 0
        for name, figure in figures(result):
            if (figure.value is None) != bool(figure.absent):
                raise ResultsError(
                    f"{folder / RESULTS}: {shape}: {name} must have a value or say why it is absent, got {figure}"
                )
            if figure.absent == NO_GPU and result.hardware.device.value is not None:
                raise ResultsError(
                    f"{folder / RESULTS}: {shape}: {name} is absent although there is a GPU: {figure.absent}"
                )
            absent += figure.value is None
        total = len(list(figures(result)))
        yield f"{shape}: {total - absent} figures measured, {absent} marked absent" + (
            f" ({NO_GPU})" if result.hardware.device.value is None else ""
        )


def words(figure: Figure | float, unit: str = "", digits: int = 1) -> str:
    """Return a figure as it is shown.

    >>> words(Figure.of(1234.56), " s"), words(Figure.of(None)), words(0.25, " %")
    ('1,234.6 s', 'absent: no GPU', '0.2 %')
    """
    value = figure.value if isinstance(figure, Figure) else figure
    if value is None:
        return f"absent: {figure.absent}" if isinstance(figure, Figure) else NONE
    return value if isinstance(value, str) else f"{value:,.{digits}f}{unit}"


def _difference(found: Difference) -> str:
    if found.mean.value is None:
        return words(found.mean)
    return " / ".join(f"{figure.value:.2g}" for figure in (found.mean, found.percentile_99, found.largest))


def _column(one: ShapeResult, results: GpuResults) -> Iterable[tuple[str, str]]:
    sizes, hardware, model = results.asked[one.shape], one.hardware, one.model
    yield "device", words(hardware.device)
    yield "driver, CUDA", f"{words(hardware.driver)}, {words(hardware.cuda)}"
    yield "device memory", words(hardware.memory, " GiB")
    yield (
        "peak of the device",
        words(
            hardware.peak if hardware.peak.value is None else Figure(float(hardware.peak.value) / 1e12), " TFLOP/s", 0
        ),
    )
    yield "commit", words(hardware.commit)
    yield "model", model.architecture
    yield "parameters, trained", f"{model.parameters:,}, {model.trained:,}"
    yield "weights, trained weights, arithmetic", f"{model.weights}, {model.trained_weights}, {model.compute}"
    yield "engine, attention", f"{model.engine}, {model.attention}"
    yield "iterations, warm-up left out", f"{sizes.iterations}, {sizes.warmup}"
    for field in dataclasses.fields(one.stages):
        stage = getattr(one.stages, field.name)
        shown = f"{words(stage.seconds, ' s', 3)}, {words(stage.share, ' %')}"
        yield f"{field.name}: seconds, share", words(stage.seconds) if stage.seconds.value is None else shown
        shown = f"{words(stage.allocated)}, {words(stage.reserved)}"
        missing = stage.allocated.value is None
        yield f"{field.name}: peak GiB allocated, reserved", words(stage.allocated) if missing else shown
    tokens, rates = one.tokens, one.rates
    yield "tokens of prompts, of replies", f"{words(tokens.prompts, '', 0)}, {words(tokens.replies, '', 0)}"
    yield "tokens per training pass, padding", f"{words(tokens.per_pass, '', 0)}, {words(tokens.padding, ' %')}"
    yield (
        "rows, chains, chains per row",
        (f"{words(tokens.rows, '', 0)}, {words(tokens.chains, '', 0)}, {words(tokens.chains_per_row, '', 2)}"),
    )
    yield "generated tokens/s", words(rates.generated, "", 0)
    yield "trained tokens/s", words(rates.trained, "", 0)
    yield "update: share of peak, model's arithmetic", words(rates.utilisation, " %")
    yield "update: share of peak, recomputation counted", words(rates.with_recomputation, " %")
    decode = one.decode
    yield (
        f"decode loop, {sizes.decode_batch} replies at {sizes.decode_context} tokens: tokens/s",
        words(decode.tokens_per_second, "", 0),
    )
    yield "decode limit: tokens/s", words(decode.limit, "", 0)
    yield "decode loop: share of the limit", words(decode.share, " %")
    for each in one.passes:
        name = f"training pass {'with' if each.recomputation else 'without'} recomputation"
        yield f"{name}: tokens, tokens/s", f"{each.tokens:,}, {words(each.tokens_per_second, '', 0)}"
        yield f"{name}: share of peak, model's arithmetic", words(each.utilisation, " %")
        yield f"{name}: share of peak, recomputation counted", words(each.with_recomputation, " %")
        yield f"{name}: kept per token", words(each.kept, " MB", 3)
        yield f"{name}: peak memory", words(each.peak, " GiB")
    yield "sampler and trainer apart, nats: mean / 99 % / max", _difference(one.agreement.sampler)
    yield "bf16 and fp32 scores apart, nats: mean / 99 % / max", _difference(one.agreement.precision)
    yield "weights of the correction at their limit", words(one.agreement.tis_clipped, " %")
    yield "update's peak memory, measured", words(one.memory.measured, " GiB")
    yield "update's peak memory, by arithmetic", words(one.memory.expected, " GiB", 2)
    yield "measured / arithmetic", words(one.memory.ratio, "", 2)
    yield (
        "held-out success (random weights)",
        (
            f"{100 * one.success.share:.1f} % [{100 * one.success.low:.1f}, {100 * one.success.high:.1f}] of "
            f"{one.success.tasks}"
        ),
    )


def page(results: GpuResults) -> Page:
    """Return the figures, a column for each measured shape, and the notes beside them."""
    rows: dict[str, dict[str, str]] = {}
    about, notes = [], ["Weights are random: speed, memory and agreement are measured, success means nothing."]
    for one in results.shapes:
        sizes, machine = results.asked[one.shape], one.hardware.machine
        for name, text in _column(one, results):
            rows.setdefault(name, {})[one.shape] = text
        if sizes.warmup < WARMUP or sizes.iterations < MEASURED:
            notes.append(
                f"{one.shape}: {sizes.iterations} iterations after {sizes.warmup} of warm-up, fewer than the "
                f"{MEASURED} after {WARMUP} that a published figure needs."
            )
        if one.hardware.device.value is None:
            notes.append(f"{one.shape}: measured on a CPU ({machine.hardware}); no figure is a GPU's.")
        parts = ", ".join(f"{name} {value:.3g} GiB" for name, value in one.memory.parts.items())
        about += [
            (f"{one.shape}: measured", one.created),
            (f"{one.shape}: machine", machine.hardware),
            (f"{one.shape}: software", machine.software),
            (f"{one.shape}: sizes", ", ".join(f"{key} {value}" for key, value in vars(sizes).items())),
            (f"{one.shape}: memory by arithmetic", parts),
        ]
    if results.shapes:
        one = results.shapes[-1]
        formulas = f"share of peak = {one.rates.formula}; {one.decode.formula}"
        notes.append(f"{formulas}. Symbols: baselines/utilisation.py.")
    heads = [one.shape for one in results.shapes]
    cells = [[name, *(texts.get(head, NONE) for head in heads)] for name, texts in rows.items()]
    return Page(
        "Generation and training at known shapes",
        "Seconds, memory, tokens per second and agreement of the trainer, with random weights.",
        [Table("Figures", ["", *heads], cells, " ".join(notes))],
        chips=[("shapes", ", ".join(heads)), ("weights", "random")],
        about=[*about, ("data", f"{RESULTS} beside this page holds every number")],
    )
