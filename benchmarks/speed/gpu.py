"""`speed gpu`: generation and training at known shapes with random weights, one shape after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from agentgym.checks import suggest
from agentgym.outside.files import OtherConfigurationError, locked
from baselines.utilisation import forward_flops, peak_bandwidth, peak_flops, training_flops
from benchmarks.console import explained, say, stop, telling
from benchmarks.json_files import created
from benchmarks.machine import describe_machine
from benchmarks.report.page import print_page, write_page
from benchmarks.speed.gpu_measures import (
    SHAPES,
    TRAINING_FORMULA,
    Measured,
    WatchedPolicy,
    absence,
    expected_memory,
    make_envs,
    make_policy,
    measure_agreement,
    measure_decode,
    measure_pass,
    run_training,
    trainer_config,
)
from benchmarks.speed.gpu_results import (
    NO_GPU,
    RESULTS,
    VERSION,
    Agreement,
    Figure,
    GpuResults,
    Hardware,
    Memory,
    Model,
    Rates,
    ShapeResult,
    Sizes,
    Stage,
    Stages,
    Tokens,
    load,
    page,
    save,
)
from benchmarks.study import Tell

_ON_HOST = "works on the host"


class DoesNotFitError(RuntimeError):
    """The device's memory is too small for a part; says which option to lower."""


@contextlib.contextmanager
def fits(shape: str, what: str, advice: str) -> Iterator[None]:
    """Say which option to lower where the block runs out of the device's memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise DoesNotFitError(
            f"{shape}: {what} does not fit the device's memory: {advice}. Shapes measured before are kept; other "
            f"sizes need another folder. Cause: {error}"
        ) from error


def run_shapes(asked: Mapping[str, Sizes], folder: Path, device: torch.device, tell: Tell) -> GpuResults:
    """Measure the shapes that are not measured yet, and write `gpu.json` after each.

    Args:
        asked: names of `benchmarks.speed.gpu_measures.SHAPES`, with what is to be measured.
        folder: where; created when missing.
        device: of the models.
        tell: called with what is being done.

    Raises:
        agentgym.outside.files.LockedError: another process works in the folder.
        OtherConfigurationError: the folder holds a shape that was measured with other sizes.
        DoesNotFitError: a shape is too large for the device; those before it are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock", wait=False):
        found = GpuResults(VERSION, dict(asked), [])
        if (folder / RESULTS).is_file():
            found = _continued(load(folder), asked, folder)
        save(found, folder)
        for name, sizes in asked.items():
            if found.of(name) is not None:
                tell(f"{name}: measured before")
                continue
            one = measure_shape(name, sizes, device, tell)
            found = dataclasses.replace(found, shapes=[*found.shapes, one])
            save(found, folder)
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
    return found


def _continued(found: GpuResults, asked: Mapping[str, Sizes], folder: Path) -> GpuResults:
    for name, sizes in asked.items():
        there = found.asked.get(name)
        if there is not None and there != sizes:
            differing = [
                f"  {key}: there {value}, asked for {getattr(sizes, key)}"
                for key, value in vars(there).items()
                if value != getattr(sizes, key)
            ]
            if found.of(name) is not None:
                raise OtherConfigurationError(
                    f"{folder} holds {name} with other sizes:\n" + "\n".join(differing) + "\n"
                    "Give another folder with --out, or repeat the old options."
                )
    return dataclasses.replace(found, asked={**found.asked, **asked})


def measure_shape(name: str, sizes: Sizes, device: torch.device, tell: Tell) -> ShapeResult:
    """Measure one shape.

    Raises:
        DoesNotFitError: it is too large for the device.
    """
    shape = SHAPES[name]
    tell(f"{name}: making random weights")
    with fits(name, "the model", "it needs a larger card, or a smaller shape"):
        policy = WatchedPolicy.over(make_policy(shape, sizes, device))
    places = sizes.groups * sizes.group_size
    tell(f"{name}: log-probabilities side by side")
    with fits(name, f"a pass of {places} replies", "lower --groups or --tokens"):
        sampler, precision = measure_agreement(policy, make_envs(shape, sizes, places), sizes)
    tell(f"{name}: decode loop")
    with fits(name, "the decode loop", f"lower --decode-batch (now {sizes.decode_batch})"):
        decode = measure_decode(policy, sizes)
    passes = []
    for recomputation in (False, True):
        tell(f"{name}: training pass, {'with' if recomputation else 'without'} recomputation")
        with fits(name, f"a training pass of {sizes.tokens} tokens", f"lower --tokens (now {sizes.tokens})"):
            passes.append(measure_pass(policy, sizes.tokens, recomputation=recomputation))
    with fits(name, "an iteration of the trainer", f"lower --tokens (now {sizes.tokens}) or --groups"):
        measured, success = run_training(
            policy, shape, sizes, lambda done, total: tell(f"{name}: iteration {done} of {total}")
        )
    config = trainer_config(shape, sizes)
    stages = stages_of(measured, device)
    weights = list(policy.model.parameters())
    trained = [weight for weight in weights if weight.requires_grad]
    clipped = sum(one.row.get("tis_clipped", 0.0) for one in measured) / len(measured)
    parts = expected_memory(policy, sizes.tokens, reference=config.loss.kl > 0)
    expected = sum(parts.values())
    peak = stages.update.allocated
    ratio = peak.value / expected if isinstance(peak.value, float) else None
    return ShapeResult(
        shape=name,
        created=created(),
        hardware=describe_hardware(device),
        model=Model(
            f"{type(_base(policy.model)).__name__}: {shape.layers} layers of width {shape.width}, vocabulary "
            f"{shape.vocabulary}, random weights",
            sum(weight.numel() for weight in weights), sum(weight.numel() for weight in trained), shape.rank,
            _type(weights[0].dtype), _type(trained[0].dtype), f"AdamW, {_type(trained[0].dtype)}",
            _type(policy.precision or weights[0].dtype), "the loop of policies.decode.sampler",
            str(policy.model.config._attn_implementation), config.memory.activation_checkpointing,
        ),
        stages=stages,
        tokens=tokens_of(measured),
        rates=rates_of(measured, policy),
        decode=decode,
        passes=passes,
        agreement=Agreement(sampler, precision, 100 * clipped),
        memory=Memory(peak, expected, Figure.of(ratio, peak.absent), parts),
        success=success,
    )  # fmt: skip


def _base(model: torch.nn.Module) -> torch.nn.Module:
    get = getattr(model, "get_base_model", None)
    return get() if get is not None else model


def _type(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def stages_of(measured: Sequence[Measured], device: torch.device) -> Stages:
    """Return where the time and the memory of some iterations went."""
    count = len(measured)
    scoring = sum(one.watch.scoring for one in measured) / count
    seconds = {
        name: sum(one.row[f"seconds_{name}"] for one in measured) / count
        for name in ("environment", "generation", "credit", "update")
    }
    seconds["update"] -= scoring  # the trainer counts old and reference log-probabilities to it
    seconds["scoring"] = scoring
    whole = sum(seconds.values())

    def peak(name: str) -> Figure:
        values = [one.row.get(name, one.watch.memory.get(name)) for one in measured]
        there = [value for value in values if value is not None]
        return Figure.of(max(there) if there else None, absence(device))

    def stage(name: str, memory: bool) -> Stage:
        allocated, reserved = Figure.of(None, _ON_HOST), Figure.of(None, _ON_HOST)
        if memory:
            allocated, reserved = peak(f"memory_{name}"), peak(f"memory_{name}_reserved")
        return Stage(Figure.of(seconds[name]), Figure.of(100 * seconds[name] / whole), allocated, reserved)

    nothing = Figure.of(None, "the loop samples with the trainer's own weights")
    return Stages(
        stage("environment", False), stage("generation", True), Stage(nothing, nothing, nothing, nothing),
        stage("scoring", True), stage("credit", False), stage("update", True),
    )  # fmt: skip


def tokens_of(measured: Sequence[Measured]) -> Tokens:
    """Return means of an iteration."""
    count = len(measured)
    passes = sum(one.watch.passes for one in measured)
    through = sum(one.watch.tokens for one in measured)
    real = sum(sum(one.lengths) for one in measured)
    rows, chains = sum(one.rows for one in measured), sum(len(one.lengths) for one in measured)
    return Tokens(
        sum(one.prompt_tokens for one in measured) / count, sum(one.reply_tokens for one in measured) / count,
        through / max(passes, 1), 100 * (1 - real / max(through, 1)), rows / count, chains / count,
        chains / max(rows, 1),
    )  # fmt: skip


def rates_of(measured: Sequence[Measured], policy: WatchedPolicy) -> Rates:
    """Return tokens per second of generation and update, and the update's share of the peak."""
    generation = sum(one.row["seconds_generation"] for one in measured)
    update = max(sum(one.row["seconds_update"] - one.watch.scoring for one in measured), 1e-9)
    lengths = [length for one in measured for length in one.lengths]
    peak = peak_flops(policy.device)
    model = training_flops(policy.model, lengths)
    done = model + forward_flops(policy.model, lengths)
    return Rates(
        sum(one.reply_tokens for one in measured) / max(generation, 1e-9), sum(lengths) / update,
        Figure.of(None if peak is None else 100 * model / update / peak, absence(policy.device)),
        Figure.of(None if peak is None else 100 * done / update / peak, absence(policy.device)), TRAINING_FORMULA,
    )  # fmt: skip


def describe_hardware(device: torch.device) -> Hardware:
    """Name the machine, the device with what its maker prints of it, and the commit."""
    cuda = device.type == "cuda"
    memory = torch.cuda.get_device_properties(device).total_memory / 2**30 if cuda else None
    driver = _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") if cuda else None
    root = str(Path(__file__).parents[2])
    commit = _said("git", "-C", root, "describe", "--always", "--dirty", "--abbrev=40", "--match=")
    return Hardware(
        describe_machine(),
        Figure.of(torch.cuda.get_device_name(device) if cuda else None),
        Figure.of(driver and driver.splitlines()[0], "nvidia-smi was not found" if cuda else NO_GPU),
        Figure.of(torch.version.cuda if cuda else None),
        Figure.of(memory), Figure.of(peak_flops(device), absence(device)),
        Figure.of(peak_bandwidth(device), absence(device)), Figure.of(commit, "not a git checkout"),
    )  # fmt: skip


def _said(*command: str) -> str | None:
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return said or None


_WHERE, _SIZES = "Where and how", "Sizes; defaults belong to the shape"


def gpu(
    shapes: Annotated[
        str,
        typer.Option(help="[bold]1.5B[/] (all weights), [bold]7B-lora[/] and [bold]tiny[/], separated by commas."),
    ] = "1.5B,7B-lora",
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the results; the same command goes on with the next shape.", rich_help_panel=_WHERE
        ),
    ] = Path("runs/gpu"),
    attention: Annotated[
        str | None, typer.Option(help="Attention, as transformers names it. Default: sdpa.", rich_help_panel=_WHERE)
    ] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Measured iterations.", rich_help_panel=_SIZES)] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Iterations left out before them.", rich_help_panel=_SIZES)
    ] = None,
    groups: Annotated[int | None, typer.Option(min=1, help="Tasks per iteration.", rich_help_panel=_SIZES)] = None,
    group_size: Annotated[int | None, typer.Option(min=2, help="Episodes per task.", rich_help_panel=_SIZES)] = None,
    turns: Annotated[int | None, typer.Option(min=1, help="Turns of an episode.", rich_help_panel=_SIZES)] = None,
    reply_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of a reply.", rich_help_panel=_SIZES)] = None,
    tokens: Annotated[
        int | None, typer.Option(min=8, help="Tokens of a training pass.", rich_help_panel=_SIZES)
    ] = None,
    decode_batch: Annotated[
        int | None, typer.Option(min=1, help="Replies side by side in the decode loop.", rich_help_panel=_SIZES)
    ] = None,
    decode_context: Annotated[
        int | None, typer.Option(min=1, help="Tokens before them.", rich_help_panel=_SIZES)
    ] = None,
) -> None:
    """Measure generation, training, memory and agreement of models with random weights.

    Writes [bold]gpu.json[/], [bold]report.md[/] and [bold]report.html[/]; [bold]check[/] says whether every figure is
    there. Without a GPU only [bold]tiny[/] runs, and what only a GPU can tell is marked absent.
    """
    names = [name.strip() for name in shapes.split(",") if name.strip()]
    for name in names:
        if name not in SHAPES:
            raise typer.BadParameter(f"unknown name {name!r}; {suggest(name, list(SHAPES))}", param_hint="--shapes")
    if not names or len(set(names)) < len(names):
        raise typer.BadParameter(f"expected distinct names such as 1.5B,7B-lora, got {shapes!r}", param_hint="--shapes")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    large = [name for name in names if name != "tiny"]
    if device.type == "cpu" and large:
        raise typer.BadParameter(
            f"{', '.join(large)}: no GPU is found here; tiny runs on a CPU (--shapes tiny)", param_hint="--shapes"
        )
    given: dict[str, Any] = {
        "attention": attention, "iterations": iterations, "warmup": warmup, "groups": groups,
        "group_size": group_size, "turns": turns, "reply_tokens": reply_tokens, "tokens": tokens,
        "decode_batch": decode_batch, "decode_context": decode_context,
    }  # fmt: skip
    chosen = {name: value for name, value in given.items() if value is not None}
    asked = {name: dataclasses.replace(SHAPES[name].sizes, **chosen) for name in names}
    console, kept = Console(), "Shapes measured before are kept: the same command continues."
    with explained("stopped; the same command continues with the next shape", kept), telling(console, "gpu") as tell:
        try:
            found = run_shapes(asked, out, device, tell)
        except (DoesNotFitError, ValueError) as error:
            # A ValueError is an attention that is not installed, or a folder with other sizes.
            raise stop(str(error), 1 if isinstance(error, DoesNotFitError) else 2) from None
    shown = page(found)
    print_page(shown, console)
    say(console, "\n".join(f"written: {path}" for path in (out / RESULTS, *write_page(shown, out))))
