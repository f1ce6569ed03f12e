"""`speed gpu`: checks of a new GPU; every part reports whether it passed.

probes      the device, its bandwidth, and its arithmetic in 16 bits
attention   each attention that runs here: packed rows against rows one by one
agreement   log-probabilities of replies as they were sampled and as the trainer scores them
speed       decode loop, and training passes with their share of the peak arithmetic
memory      a pass of the model that will learn, at the plan's size, against the plan
learning    ten iterations of LoRA on generated ALFWorld: memory and time against the plan, success
resume      the finished run is lengthened by an iteration
"""

import dataclasses
import gc
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import torch
from rich.console import Console

from agentgym.outside.files import locked
from agentgym.trajectory import StepTable
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY
from baselines.records.metrics import Row
from baselines.runs.data_source import open_data
from baselines.runs.plan import GIB, Device, Planner, filled
from baselines.runs.run import carry_out
from baselines.runs.settings import RunSettings, run_settings
from baselines.runs.stack import check_model, new_policy
from baselines.trainer import Trainer
from baselines.update import Limits
from benchmarks import json_files
from benchmarks.console import explained, option, say, stop, telling
from benchmarks.json_files import created
from benchmarks.machine import describe_machine
from benchmarks.options import REFERENCE
from benchmarks.report.page import Cell, Page, Table, print_page, write_page
from benchmarks.speed import gpu_measures as gpus
from benchmarks.study import Tell
from benchmarks.training.run import STAGES
from policies.lora import LoraSettings, add_lora
from policies.scoring import score_replies
from policies.scoring.packed import score_packed
from policies.training import is_exact

FILE = "first-hour.json"
MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
#: Largest differences of log-probabilities, in nats: packed rows and rows one by one, in 32 and in 16 bits.
_EXACT, _IN_16_BITS = 1e-5, 0.1
#: Memory may differ from the plan by this part.
_MEMORY = 0.1
_ITERATIONS, _VALIDATED = 10, 8


@dataclass
class Part:
    """One part: whether it passed, its seconds, figures and findings."""

    name: str
    passed: bool = False
    seconds: float = 0.0
    figures: dict[str, float | None] = field(default_factory=dict)
    words: str = ""


@dataclass(frozen=True)
class FirstHour:
    """The whole file."""

    created: str
    machine: str
    software: str
    device: str
    model: str
    parts: list[Part]

    @property
    def failed(self) -> list[Part]:
        return [part for part in self.parts if not part.passed]


def first_hour(folder: Path, model: str | None, minutes: float, tell: Tell, *, download: bool = False) -> FirstHour:
    """Run all parts, one after the other; a part that fails does not end the others."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = model or (MODEL if device.type == "cuda" else TINY)
    end = time.monotonic() + 60 * minutes
    run = _Learning(folder / "run", model, download, end)
    work: dict[str, Callable[[Part], None]] = {
        "probes": lambda part: _probes(part, device), "attention": lambda part: _attention(part, device),
        "agreement": lambda part: _agreement(part, device, model), "speed": lambda part: _speed(part, device, model),
        "memory": run.weigh, "learning": run.learn, "resume": run.resume,
    }  # fmt: skip
    machine = describe_machine()
    found = FirstHour(created(), machine.hardware, machine.software, Device.here().name, model, [])
    for name, do in work.items():
        tell(name)
        part, begin = Part(name), time.monotonic()
        try:
            do(part)
            part.passed = not part.words.startswith("failed")
        except Exception as error:  # whatever goes wrong is what this command is for
            part.words = f"failed: {type(error).__name__}: {error}"
            (folder / f"{name}.txt").write_text(traceback.format_exc(), encoding="utf-8")
        part.seconds = time.monotonic() - begin
        found.parts.append(part)
        json_files.write_json(found, folder / FILE)
        write_page(page(found), folder)
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return found


def _probes(part: Part, device: torch.device) -> None:
    here = Device.here()
    size = 8192 if here.gpu else 256
    matrix = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    seconds = gpus.seconds_of(device, lambda: matrix @ matrix)
    rate = 2 * matrix.shape[0] ** 3 / seconds
    part.figures = {"memory [GiB]": here.memory / GIB, "bf16 [TFLOP/s]": rate / 1e12}
    if here.gpu:
        part.figures |= {"peak [TFLOP/s]": here.peak / 1e12, "bandwidth [TB/s]": here.bandwidth / 1e12}
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            part.words = "failed: the card emulates bfloat16: train with --precision fp32"
    part.words = part.words or here.name


def _attention(part: Part, device: torch.device) -> None:
    shape = gpus.SHAPES["tiny"]
    prompts, replies = gpus.random_rows(shape.vocabulary, 600, chain=40)[:2]
    said = []
    # On a CPU flex attention is compiled for minutes, and there is no flash attention.
    for name in ("eager", "sdpa", *(("flex_attention", "flash_attention_2") if device.type == "cuda" else ())):
        half = name.startswith("flash")
        try:
            policy = gpus.make_policy(shape, device, name)
            model = policy.model.to(torch.bfloat16 if half else torch.float32)
            with torch.no_grad():
                plain = score_replies(model, prompts, replies)
                packed = score_packed(model, prompts, replies, tokens_per_pass=300)
        except (ImportError, ValueError, RuntimeError, NotImplementedError) as error:
            part.figures[name] = None
            said.append(f"{name} does not run here ({str(error).splitlines()[0][:120]})")
            continue
        apart = float((plain.logprobs - packed.logprobs).abs().max())
        part.figures[name] = apart
        if not apart <= (_IN_16_BITS if half else _EXACT):
            said.insert(
                0, f"failed: packed rows under {name} differ by {apart:.1e} nats: train with another --attention"
            )
    part.words = "; ".join(said) or "all are equal"


def _agreement(part: Part, device: torch.device, model: str) -> None:
    shape = gpus.SHAPES["tiny" if model == TINY else "1.5B"]
    policy = gpus.make_policy(shape, device)
    part.figures = gpus.measure_agreement(policy, shape)
    mean = part.figures["agreement.sampler.mean"] or 0.0
    limit = 1e-3 if is_exact(policy) else 0.25
    words = f"sampled and scored differ by {mean:.1e} nats in the mean, {limit:g} is the limit"
    part.words = words if mean <= limit else f"failed: {words}: train with --precision fp32, and report it"


def _speed(part: Part, device: torch.device, model: str) -> None:
    shape = gpus.SHAPES["tiny" if model == TINY else "1.5B"]
    policy = gpus.make_policy(shape, device)
    part.figures = gpus.measure_decode(policy, shape)
    for recomputation in (False, True):
        part.figures |= gpus.measure_pass(policy, shape.tokens, recomputation=recomputation)
    part.words = "random weights; passes.0 keep activations, passes.1 compute them again"


class _Learning:
    """The run, and its lengthening."""

    def __init__(self, folder: Path, model: str, download: bool, end: float) -> None:
        self._folder, self._model, self._download, self._end = folder, model, download, end
        self._done = 0

    def _settings(self, iterations: int) -> RunSettings:
        row, small = settings_of("alfworld"), self._model == TINY
        sizes = {"steps": iterations, "groups": 2 if small else 8, "group_size": 2 if small else 8}
        changes = {"validation.every": 0, "schedule.shape": "constant", "checkpoint.every": 5}
        changes |= {"memory.microbatch_rows": 4} if small else {}
        model = check_model(self._model, download=self._download)
        settings = run_settings(
            row, method=REFERENCE, model=model, seed=0, quick=small, lora=0 if small else 32, sizes=sizes,
            changes=changes, transcript=not small, truncate="end-episode", clone=0,
        )  # fmt: skip
        options = {"max_episode_steps": 4} if small else {}
        config, source = open_data(settings.config, row, options)
        config = dataclasses.replace(config, validation_tasks=_VALIDATED)  # twice at either end of the run
        return dataclasses.replace(settings, config=config, source=source)

    def weigh(self, part: Part) -> None:
        settings = self._settings(_ITERATIONS)
        planner = Planner(settings)
        plan = planner.plan(settings)
        (planned,) = (size for name, size in plan.stages["update"].items() if name.startswith("activations"))
        policy = new_policy(settings.config, 0, frozen=bool(settings.config.lora))
        if settings.config.lora:
            policy = add_lora(policy, LoraSettings(settings.config.lora, 2.0 * settings.config.lora), seed=0)
        reply, recompute = planner.played.reply, plan.device.gpu
        rows, row = filled(int(plan.tokens["pass"]), planner.played.longest + reply)
        packed = Limits.of(policy, settings.training.memory).packed
        measured = gpus.pass_memory(policy, rows, row, reply, packed=packed, recompute=recompute)
        part.figures = {"rows": float(rows), "tokens of a row": float(row), "planned [MB]": planned / 1e6,
                        "measured [MB]": measured / 1e6, "measured / planned": measured / planned}  # fmt: skip
        right = abs(measured / planned - 1) <= _MEMORY
        words = f"a pass takes {measured / planned:.1%} of what is planned beside weights and gradients"
        part.words = words if right else f"failed: {words}"

    def learn(self, part: Part) -> None:
        settings = self._settings(_ITERATIONS)
        planner = Planner(settings)
        plan = planner.check(settings)

        def timed(trainer: Trainer, table: StepTable | None, row: Row) -> bool:
            return time.monotonic() < self._end

        rows = carry_out(settings, self._folder, timed, attention=plan.attention, tensorboard=False).log.rows
        self._done = len(rows) - 1
        done = [row for row in rows if row["iteration"]]
        measured = done[2:] or done
        part.figures = {
            "iterations": float(len(done)), "success, first": done[0]["success"], "success, last": done[-1]["success"],
            "s per iteration, planned": plan.seconds["total"],
            "s per iteration": sum(row[f"seconds_{stage}"] for row in measured for stage in STAGES) / len(measured),
        }  # fmt: skip
        for key in ("tokens_per_second", "update_tokens_per_second", "share_peak_flops", "probe_mean"):
            found = [row[key] for row in measured if row.get(key) is not None]
            part.figures |= {key: sum(found) / len(found)} if found else {}
        wrong = []
        for stage, parts in plan.stages.items():
            planned = sum(parts.values()) / GIB
            keys = (f"memory_{stage}", f"memory_{stage}_resident")
            most = max((row[key] for row in done for key in keys if row.get(key) is not None), default=None)
            part.figures |= {f"GiB, {stage}, planned": planned, f"GiB, {stage}": most}
            if most is not None and most > (1 + _MEMORY) * planned:
                wrong.append(f"{stage} takes {most:.2f} GiB, planned {planned:.2f}")
        if len(done) < _ITERATIONS:
            wrong.append(f"{len(done)} of {_ITERATIONS} iterations in the time: give more --minutes")
        part.words = f"failed: {'; '.join(wrong)}" if wrong else "memory is within the plan and a tenth"

    def resume(self, part: Part) -> None:
        played: list[Row] = []
        settings = self._settings(self._done + 1)
        carry_out(settings, self._folder, lambda trainer, table, row: played.append(row), tensorboard=False)
        numbers = [row["iteration"] for row in played]
        part.figures = {"iterations before": float(self._done), "iterations played": float(len(played))}
        right = self._done and numbers == [self._done + 1]
        part.words = "the run went on" if right else f"failed: iterations {numbers} were played after {self._done}"


def page(found: FirstHour) -> Page:
    """Return the parts, and their figures."""

    def shown(value: float | None) -> str:
        return "absent" if value is None else f"{value:.4g}"

    def line(each: Part) -> list[Cell]:
        mark = ("passed", "up") if each.passed else ("failed", "down")
        return [each.name, mark, f"{each.seconds:.0f}", each.words]

    parts = [line(each) for each in found.parts]
    figures = [[each.name, name, shown(value)] for each in found.parts for name, value in each.figures.items()]
    return Page(
        "The first hour on a GPU",
        "Working parts of this device, their cost, and remedies for failures.",
        [Table("Parts", ["part", "", "s", "findings"], parts),
         Table("Figures", ["part", "figure", "value"], figures)],
        chips=[("device", found.device), ("model", found.model), ("failed", str(len(found.failed)))],
        about=[("written", found.created), ("machine", found.machine), ("software", found.software),
               ("data", f"{FILE} beside this page; a traceback of each part that failed, PART.txt")],
    )  # fmt: skip


def gpu(
    whole: Annotated[bool, option("The only check; it may be left out.", "--first-hour", hidden=True)] = True,
    model: Annotated[str | None, option("Model to train. Default: Qwen/Qwen2.5-1.5B-Instruct; on a CPU tiny.")] = None,
    download: Annotated[bool, option("Download that model from the hub.", "--download")] = False,
    minutes: Annotated[float, option("Time limit of all parts together.", min=0.1)] = 50.0,
    out: Annotated[Path, option("Folder of the results.")] = Path("runs/first-hour"),
) -> None:
    """Check a new GPU for an hour: probes, agreement, speed, memory against plan, ten iterations of LoRA.

    Writes one page, one JSON file, and a traceback of each failed part; the status is 1 if a part failed.
    """
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    if (out / "run").exists():
        raise stop(f"{out} holds a first hour: give another folder with --out, or remove it", 2)
    with explained("stopped"), locked(out / ".lock", wait=False), telling(console, "first hour") as tell:
        found = first_hour(out, model, minutes, tell, download=download)
    print_page(page(found), console)
    say(console, f"written: {out / FILE}, {out / 'report.html'}")
    if found.failed:
        raise stop(f"failed: {', '.join(part.name for part in found.failed)}", 1)
