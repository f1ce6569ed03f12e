"""One shape after the other: make the model, measure it, keep what was measured."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch

from agentgym.outside.files import locked
from baselines.utilisation import forward_flops, peak_bandwidth, peak_flops, training_flops
from benchmarks.gpu import results
from benchmarks.gpu.arithmetic import expected_memory
from benchmarks.gpu.passes import (
    TRAINING_FORMULA,
    absence,
    measure_agreement,
    measure_decode,
    measure_pass,
)
from benchmarks.gpu.results import (
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
)
from benchmarks.gpu.shapes import SHAPES, make_policy
from benchmarks.gpu.training import Measured, WatchedPolicy, make_envs, run_training, trainer_config
from benchmarks.json_files import OtherConfigurationError, created
from benchmarks.machine import describe_machine

_ON_HOST = "works on the host"
Tell = Callable[[str], None]


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
        asked: names of `benchmarks.gpu.shapes.SHAPES`, with what is to be measured.
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
        found = GpuResults(results.VERSION, dict(asked), [])
        if (folder / results.RESULTS).is_file():
            found = _continued(results.load(folder), asked, folder)
        results.save(found, folder)
        for name, sizes in asked.items():
            if found.of(name) is not None:
                tell(f"{name}: measured before")
                continue
            one = measure_shape(name, sizes, device, tell)
            found = dataclasses.replace(found, shapes=[*found.shapes, one])
            results.save(found, folder)
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
        Figure.of(driver and driver.splitlines()[0], "nvidia-smi was not found" if cuda else results.NO_GPU),
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
