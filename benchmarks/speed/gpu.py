"""`speed gpu`: generation and training at known shapes with random weights, one shape after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from agentgym.checks import suggest
from agentgym.outside.files import OtherConfigurationError, locked
from baselines.records.utilisation import peak_bandwidth, peak_flops
from benchmarks.console import explained, named, say, stop, telling
from benchmarks.json_files import created
from benchmarks.machine import describe_machine
from benchmarks.report.page import print_page, write_page
from benchmarks.speed import gpu_measures as gpus
from benchmarks.speed.gpu_results import NO_GPU, RESULTS, VERSION, GpuResults, ShapeResult, Sizes, load, page, save
from benchmarks.study import Tell
from benchmarks.training.options import of


class DoesNotFitError(RuntimeError):
    """The device's memory is too small for a part; says which option to lower."""


def run_shapes(asked: Mapping[str, Sizes], folder: Path, device: torch.device, tell: Tell) -> GpuResults:
    """Measure the shapes that are not measured yet, and write `gpu.json` after each."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock", wait=False):
        found = load(folder) if (folder / RESULTS).is_file() else GpuResults(VERSION, {}, [])
        for name, sizes in asked.items():
            there = found.asked.get(name)
            if there not in (None, sizes) and found.of(name) is not None:
                differing = [
                    f"  {key}: there {value}, asked for {getattr(sizes, key)}"
                    for key, value in vars(there).items()
                    if value != getattr(sizes, key)
                ]
                raise OtherConfigurationError(
                    f"{folder} holds {name} with other sizes:\n" + "\n".join(differing) + "\n"
                    "Give another folder with --out, or repeat the old options."
                )
        found = dataclasses.replace(found, asked={**found.asked, **asked})
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


def measure_shape(name: str, sizes: Sizes, device: torch.device, tell: Tell) -> ShapeResult:
    """Measure one shape."""

    @contextlib.contextmanager
    def step(what: str, advice: str) -> Iterator[None]:
        tell(f"{name}: {what}")
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise DoesNotFitError(
                f"{name}: {what} does not fit the device's memory: {advice}. Shapes measured before are kept; other "
                f"sizes need another folder. Cause: {error}"
            ) from error

    shape, places, found = gpus.SHAPES[name], sizes.groups * sizes.group_size, dict[str, Any]()
    with step("the model", "it needs a larger card, or a smaller shape"):
        policy = gpus.WatchedPolicy.over(gpus.make_policy(shape, sizes, device))
    with step(f"a pass of {places} replies", "lower --groups or --tokens"):
        found |= gpus.measure_agreement(policy, gpus.make_envs(shape, sizes, places), sizes)
    with step("the decode loop", f"lower --decode-batch (now {sizes.decode_batch})"):
        found |= gpus.measure_decode(policy, sizes)
    for recomputation in (False, True):
        what = f"a {'recomputed ' * recomputation}training pass of {sizes.tokens} tokens"
        with step(what, f"lower --tokens (now {sizes.tokens})"):
            found |= gpus.measure_pass(policy, sizes.tokens, recomputation=recomputation)
    with step("an iteration of the trainer", f"lower --tokens (now {sizes.tokens}) or --groups"):
        found |= gpus.run_training(
            policy, shape, sizes, lambda done, total: tell(f"{name}: iteration {done} of {total}")
        )  # fmt: skip
    config, weights = gpus.trainer_config(shape, sizes), list(policy.model.parameters())
    parts = gpus.expected_memory(policy, sizes.tokens, reference=config.loss.kl > 0)
    measured, expected = found["stages.update.allocated"], sum(parts.values())
    cuda, trained = device.type == "cuda", [weight for weight in weights if weight.requires_grad]
    found |= {
        "hardware.memory": torch.cuda.get_device_properties(device).total_memory / 2**30 if cuda else None,
        "hardware.peak": peak_flops(device), "hardware.bandwidth": peak_bandwidth(device),
        "model.parameters": sum(weight.numel() for weight in weights),
        "model.trained": sum(weight.numel() for weight in trained),
        "memory.measured": measured, "memory.expected": expected, "memory.ratio": measured and measured / expected,
        **{f"memory.parts.{part}": value for part, value in parts.items()},
    }  # fmt: skip
    get = getattr(policy.model, "get_base_model", lambda: policy.model)
    driver = _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") if cuda else None
    root, dtype = str(Path(__file__).parents[2]), str(trained[0].dtype).removeprefix("torch.")
    commit = _said("git", "-C", root, "describe", "--always", "--dirty", "--abbrev=40", "--match=")
    about = {
        "device": torch.cuda.get_device_name(device) if cuda else NO_GPU,
        "driver": driver.splitlines()[0] if driver else "nvidia-smi was not found" if cuda else NO_GPU,
        "cuda": str(torch.version.cuda) if cuda else NO_GPU,
        "commit": commit or "not a git checkout",
        "model": f"{type(get()).__name__}: {shape.layers} layers of width {shape.width}, vocabulary "
        f"{shape.vocabulary}, random weights",
        "weights": str(weights[0].dtype).removeprefix("torch."),
        "trained weights": dtype,
        "optimiser": f"AdamW, {dtype}",
        "arithmetic": str(policy.precision or weights[0].dtype).removeprefix("torch."),
        "engine": "the loop of policies.decode.sampler",
        "attention": str(policy.model.config._attn_implementation),
        "adapter rank": str(shape.rank),
        "activations recomputed": str(config.memory.activation_checkpointing),
    }
    return ShapeResult.of(name, created(), describe_machine(), about, found)


def _said(*command: str) -> str | None:
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return said or None


_WHERE, _SIZES = "Where and how", "Sizes; defaults belong to the shape"


def gpu(
    first_hour: Annotated[
        bool,
        typer.Option(
            "--first-hour",
            help="For a new card, 50 minutes: probes, memory against plan, speed, and ten iterations of LoRA on "
            "generated ALFWorld; one page, one JSON, and what failed.",
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="With --first-hour: who learns. Default: Qwen/Qwen2.5-1.5B-Instruct; on a CPU tiny."),
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch that model from the hub.")] = False,
    minutes: Annotated[float, typer.Option(min=0.1, help="With --first-hour: for everything.")] = 50.0,
    shapes: Annotated[
        str, typer.Option(help="1.5B (all weights), 7B-lora and tiny, separated by commas.")
    ] = "1.5B,7B-lora",
    out: Annotated[
        Path | None,
        of(_WHERE, "Folder of the results; the same command goes on with the next shape. Default: below runs/."),
    ] = None,
    attention: Annotated[str | None, of(_WHERE, "Attention, as transformers names it. Default: sdpa.")] = None,
    iterations: Annotated[int | None, of(_SIZES, "Measured iterations.", min=1)] = None,
    warmup: Annotated[int | None, of(_SIZES, "Iterations left out before them.", min=0)] = None,
    groups: Annotated[int | None, of(_SIZES, "Tasks per iteration.", min=1)] = None,
    group_size: Annotated[int | None, of(_SIZES, "Episodes per task.", min=2)] = None,
    turns: Annotated[int | None, of(_SIZES, "Turns of an episode.", min=1)] = None,
    reply_tokens: Annotated[int | None, of(_SIZES, "Tokens of a reply.", min=1)] = None,
    tokens: Annotated[int | None, of(_SIZES, "Tokens of a training pass.", min=8)] = None,
    decode_batch: Annotated[int | None, of(_SIZES, "Replies side by side in the decode loop.", min=1)] = None,
    decode_context: Annotated[int | None, of(_SIZES, "Tokens before them.", min=1)] = None,
) -> None:
    """Measure generation, training, memory and agreement of models with random weights.

    Writes gpu.json, report.md and report.html; check says whether every figure is
    there. Without a GPU only tiny runs, and what only a GPU can tell is marked absent.
    """
    if first_hour:
        _first_hour(out or Path("runs/first-hour"), model, minutes, download)
        return
    out = out or Path("runs/gpu")
    names = [name.strip() for name in shapes.split(",") if name.strip()]
    for name in names:
        if name not in gpus.SHAPES:
            raise typer.BadParameter(
                f"unknown name {name!r}; {suggest(name, list(gpus.SHAPES))}", param_hint="--shapes"
            )
    if not names or len(set(names)) < len(names):
        raise typer.BadParameter(f"expected distinct names such as 1.5B,7B-lora, got {shapes!r}", param_hint="--shapes")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    large = [name for name in names if name != "tiny"]
    if device.type == "cpu" and large:
        raise typer.BadParameter(
            f"{', '.join(large)}: no GPU is found here; tiny runs on a CPU (--shapes tiny)", param_hint="--shapes"
        )
    chosen = named(
        attention=attention, iterations=iterations, warmup=warmup, groups=groups, group_size=group_size, turns=turns,
        reply_tokens=reply_tokens, tokens=tokens, decode_batch=decode_batch, decode_context=decode_context,
    )  # fmt: skip
    asked = {name: dataclasses.replace(gpus.SHAPES[name].sizes, **chosen) for name in names}
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


def _first_hour(folder: Path, model: str | None, minutes: float, download: bool) -> None:
    from benchmarks.speed import first_hour as hour

    console = Console()
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "run").exists():
        raise stop(f"{folder} holds a first hour: give another folder with --out, or remove it", 2)
    with explained("stopped"), locked(folder / ".lock", wait=False), telling(console, "first hour") as tell:
        found = hour.first_hour(folder, model, minutes, tell, download=download)
    print_page(hour.page(found), console)
    say(console, f"written: {folder / hour.FILE}, {folder / 'report.html'}")
    if found.failed:
        raise stop(f"failed: {', '.join(part.name for part in found.failed)}", 1)
