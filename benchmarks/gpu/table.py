"""The report as rows of words, for terminal, Markdown and page alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from benchmarks.console import NONE
from benchmarks.gpu.results import MEASURED, WARMUP, Difference, Figure, GpuResults, ShapeResult

Line = tuple[str, list[str]]


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


def lines(results: GpuResults) -> tuple[list[str], list[Line]]:
    """Return the shapes that are measured, and for every figure its name and a text per shape."""
    rows: dict[str, dict[str, str]] = {}
    for one in results.shapes:
        for name, text in _column(one, results):
            rows.setdefault(name, {})[one.shape] = text
    heads = [one.shape for one in results.shapes]
    return heads, [(name, [texts.get(head, NONE) for head in heads]) for name, texts in rows.items()]


def notes(results: GpuResults) -> list[str]:
    """Return what has to be said beside the figures."""
    found = ["Weights are random: speed, memory and agreement are measured, success means nothing."]
    for one in results.shapes:
        sizes = results.asked[one.shape]
        if sizes.warmup < WARMUP or sizes.iterations < MEASURED:
            found.append(
                f"{one.shape}: {sizes.iterations} iterations after {sizes.warmup} of warm-up, fewer than the "
                f"{MEASURED} after {WARMUP} that a published figure needs."
            )
        if one.hardware.device.value is None:
            found.append(f"{one.shape}: measured on a CPU ({one.hardware.machine.hardware}); no figure is a GPU's.")
        formulas = f"share of peak = {one.rates.formula}; {one.decode.formula}"
    if results.shapes:
        found.append(f"{formulas}. Symbols: baselines/utilisation.py.")
    return found


def markdown(results: GpuResults) -> str:
    """Return the report as a Markdown table with its notes."""
    heads, rows = lines(results)

    def row(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    table = [row(["", *heads]), row(["---"] * (1 + len(heads))), *(row([name, *texts]) for name, texts in rows)]
    return "\n".join([*table, "", *(f"* {note}" for note in notes(results)), ""])
