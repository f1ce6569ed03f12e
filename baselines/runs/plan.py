"""Estimate of a run's cost before its model is loaded: memory by part, tokens and hours of an iteration.

A pass of the update is counted by `baselines.runs.pass_memory`. The rest is computed from `config.json`. Prompts are
those of two episodes of random commands or of the expert, whichever are longer. Seconds follow this model, with the
formulas of `baselines.records.utilisation`:

    generation   FLOPs of the tokens read / (SHARE x peak) + decode steps x (limit / DECODE_SHARE + HOST)
    update       FLOPs of all passes / (SHARE x peak)
    environment  as measured while the episodes were played
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from agentgym.checks import suggest
from agentgym.outside.text import DataError
from agentgym.rollout import collect
from agentgym.trajectory import Reply
from baselines.config import Memory
from baselines.environments.settings import SIDE_BY_SIDE, SMOLLM2, TINY
from baselines.imitation.updates import Updates
from baselines.records.utilisation import BANDWIDTHS, PEAKS, decode_seconds, forward_flops, training_flops
from baselines.runs.engine import SHARE as ENGINE_SHARE
from baselines.runs.engine import Engine
from baselines.runs.pass_memory import PassSizes, empty_model, on_cpu, pass_sizes
from baselines.runs.settings import RunSettings
from baselines.runs.stack import clones_adapter, cloning, make_envs, new_policy, training_tasks
from baselines.update import LARGE, auto_tokens
from policies.decode.batch import READ_TOKENS
from policies.decode.graph import COLUMNS, rounded
from policies.decode.kept import KEPT_SHARE
from policies.pretrained import mixed_precision, text_config
from policies.scoring.attention import may_take_runs
from policies.scoring.prefix_tree import merge_trees
from policies.scripted import SILENT, ExpertPolicy, RandomPolicy
from policies.training import can_recompute

GIB = 2**30
#: Assumed shares of the device's peak and of its bandwidth, and seconds of the host per decode step.
SHARE, DECODE_SHARE, HOST = 0.4, 0.5, 0.005
#: Usable share of the memory: the rest is for the device's context and for fragmentation.
USABLE = 0.94


class DoesNotFitError(ValueError):
    """A run needs more memory than the device has; the message names settings with which it fits."""


@dataclass(frozen=True)
class Device:
    """Device of a run: bytes of memory, FLOP/s, bytes per second; `gpu` decides defaults of the trainer."""

    name: str
    memory: float
    peak: float
    bandwidth: float
    gpu: bool = True

    @classmethod
    def here(cls) -> Device:
        """Return this machine's device: its GPU, or the processor, whose speed is measured in a tenth of a second."""
        if torch.cuda.is_available():
            name, total = torch.cuda.get_device_name(0), torch.cuda.get_device_properties(0).total_memory
            known = [next((rate for part, rate in each.items() if part in name), None) for each in (PEAKS, BANDWIDTHS)]
            return cls(name, total, known[0] or 100e12, known[1] or 1e12)
        matrix, block = torch.ones(512, 512), torch.ones(2**23)
        products, copies = (min(_timed(do) for _ in range(5)) for do in (lambda: matrix @ matrix, block.clone))
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        with contextlib.suppress(OSError, ValueError):  # a container may have less
            memory = min(memory, float(Path("/sys/fs/cgroup/memory.max").read_text()))
        return cls("processor", memory, 2 * 512**3 / products, 2 * block.nbytes / copies, gpu=False)


#: Cards by the names of `--card`.
CARDS = {
    name: Device(part, gib * GIB, PEAKS[part], BANDWIDTHS[rate])
    for name, part, rate, gib in (
        ("h100", "H100", "H100", 79.1), ("a100", "A100", "A100-SXM4-80GB", 79.1), ("l40s", "L40S", "L40S", 44.4),
        ("rtx4090", "RTX 4090", "RTX 4090", 23.5),
    )
}  # fmt: skip


def card(name: str) -> Device:
    """Return a card by name; for an unknown name a ValueError suggests one."""
    if name not in CARDS:
        raise ValueError(f"unknown card {name!r}; {suggest(name, list(CARDS))}")
    return CARDS[name]


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return max(time.perf_counter() - begin, 1e-9)


def choose_attention(model: Any, gpu: bool, name: str | None = None) -> str:
    """Set the run's attention in `model.config`; return it, and a description of how it reads packed rows.

    If all layers attend to all earlier tokens, it is PyTorch's own, which reads packed rows sequence by sequence, and
    rollouts keep the keys of earlier turns. For sliding windows a GPU uses flash-attention, else flex attention.
    """
    model.config._attn_implementation = found = name or "sdpa"
    windows = not set(getattr(text_config(model), "layer_types", None) or ()) & {"linear_attention", "conv"}
    if gpu and name is None and windows and not may_take_runs(model):
        found = "flash_attention_2" if importlib.util.find_spec("flash_attn") else "flex_attention"
        model.config._attn_implementation = found
    if may_take_runs(model):
        return f"{found}, packed rows one by one, keys kept between turns"
    kernel = "varlen kernels" if "flash" in found else "a mask of blocks" if "flex" in found else "a mask over the pass"
    return f"{found}, {kernel} for packed rows, whole prompts at every turn"


class Played(NamedTuple):
    """Means of some episodes.

    `steps`; tokens of all `prompts`, and those not in an earlier prompt's prefix (`fresh`); tokens of the `longest`
    prompt and `reply`; `seconds` of a step.
    """

    steps: float
    prompts: float
    fresh: float
    longest: int
    reply: int
    seconds: float


class _Silent:
    def act(self, observations: Any, infos: Any, rng: Any) -> list[Reply]:
        return [Reply(SILENT)] * len(observations)


class _Counting:
    def __init__(self, player: Any, encode: Callable[[Any], Sequence[int]]) -> None:
        self._player, self._encode, self.prompts, self.spent = player, encode, list[Sequence[int]](), 0.0

    def act(self, observations: Any, infos: Any, rng: Any) -> Any:
        begin = time.perf_counter()
        self.prompts += [self._encode(each) for each in observations]
        found = self._player.act(observations, infos, rng)
        self.spent += time.perf_counter() - begin
        return found


def _played(settings: RunSettings, policy: Any, episodes: int = 2) -> Played:
    def encode(observation: Any) -> Sequence[int]:
        if policy is None:
            texts = [observation] if isinstance(observation, str) else [str(each["content"]) for each in observation]
            return tuple(map(ord, " " * 32 + "".join(texts)))
        found: Sequence[int] | None = policy.encode_or_end(observation)
        return range(settings.prompt_tokens or 1) if found is None else found

    reply = settings.reply_tokens or (16 if policy is None else policy.settings.max_new_tokens)
    found: list[Played] = []
    for player in (RandomPolicy(), ExpertPolicy(), _Silent()):
        # Not every environment has commands to draw from, or an expert.
        if found and isinstance(player, _Silent):
            break
        with contextlib.suppress(KeyError, TypeError, ValueError):
            expert, own = isinstance(player, ExpertPolicy), settings.method.own_env
            with contextlib.closing(
                make_envs(settings.config, episodes, own=own, training=True, expert=expert)
            ) as envs:
                for _ in range(2):  # a task may be generated when it is first played, so only the second time counts
                    counting, begin = _Counting(player, encode), time.perf_counter()
                    table = collect(envs, counting, tasks=training_tasks(settings.config)[:episodes], seed=0)
                    spent = time.perf_counter() - begin - counting.spent
            count, prompts, size = max(len(table), 1), counting.prompts, 1 if policy else 4
            every, fresh = (
                sum(map(len, each)) / size / episodes
                for each in (prompts, merge_trees(prompts, [(0,)] * len(prompts), sum(map(len, prompts))))
            )
            found.append(Played(count / episodes, every, fresh, max(map(len, prompts)) // size, reply, spent / count))
    return max(found, key=lambda one: one.prompts, default=Played(1, 1024, 1024, 1024, reply, 0.0))


@dataclass(frozen=True)
class Plan:
    """Estimated cost of a run on a device.

    Attributes:
        attention: of the model, as transformers names it.
        stages: bytes by part, of "generation" and "update", of "validation" where it has more episodes than an
            iteration, and of "cloning" where the run begins with a clone.
        seconds: of an iteration, by stage, and "total"; validation and the warm start are not counted.
        tokens: of an iteration: of "prompts" and "replies", through the "update", and of a "pass".
        facts: texts on model, attention and assumptions.
    """

    device: Device
    attention: str
    stages: dict[str, dict[str, float]]
    seconds: dict[str, float]
    tokens: dict[str, float]
    facts: dict[str, str]

    @property
    def needed(self) -> float:
        return max(sum(parts.values()) for parts in self.stages.values())

    @property
    def room(self) -> float:
        return USABLE * self.device.memory

    def lines(self, iterations: int) -> list[str]:
        found = [f"plan for {self.device.name} ({_gib(self.device.memory)})"]
        found += [f"  {name}: {words}" for name, words in self.facts.items()]
        for stage, parts in self.stages.items():
            shown = ", ".join(f"{name} {_gib(size)}" for name, size in parts.items() if size >= 0.005 * GIB)
            found.append(f"  memory, {stage}: {_gib(sum(parts.values()))} = {shown or 'less than 0.01 GiB'}")
        tokens = ", ".join(f"{name} {count:,.0f}" for name, count in self.tokens.items())
        *stages, total = (f"{name} {seconds:,.1f} s" for name, seconds in self.seconds.items())
        time_of_all = duration(iterations * self.seconds["total"])
        return [
            *found, f"  tokens of an iteration: {tokens}", f"  time of an iteration: {total} = {', '.join(stages)}",
            f"  {iterations} iterations: {time_of_all} without validation (assumes {SHARE:.0%} of the peak; "
            "measured after two iterations)",
        ]  # fmt: skip


def _gib(size: float) -> str:
    return f"{size / GIB:.2f} GiB"


def duration(seconds: float) -> str:
    """Format a time.

    >>> duration(42), duration(4000), duration(200_000)
    ('42 s', '1 h 7 min', '2 d 7 h')
    """
    minutes = round(seconds / 60)
    if seconds < 60 or minutes < 60:
        return f"{seconds:.0f} s" if seconds < 60 else f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


class Planner:
    """Makes plans of one run: reads its model's config, tokenizer and episodes once, for different settings.

    Args:
        device: where it will run; None: here.
        attention: transformers' name; None: the choice of `choose_attention`.
        engine: who writes the replies; None: the loop.

    Raises:
        DataError: the model's folder has no config that can be read.
    """

    def __init__(
        self,
        settings: RunSettings,
        device: Device | None = None,
        attention: str | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.device, self._engine = device or Device.here(), engine or Engine()
        self._config, policy = _read_model(settings)
        self._stored = getattr(self._config, "dtype", None) or torch.float32  # building a model overwrites it
        self._has_tokenizer, self._tiny = policy is not None, settings.config.model == TINY
        self.played = _played(settings, policy)
        self._side = SIDE_BY_SIDE if policy is None else min(SIDE_BY_SIDE, policy.settings.batch_size)
        self._model = empty_model(self._config, torch.float32, settings.config.lora)
        self._known: dict[Any, PassSizes] = {}
        self._gpu = self.device.gpu and not self._tiny  # the tiny model always runs on the CPU
        self._words = choose_attention(self._model, self._gpu, attention)
        large = sum(each.numel() for each in self._model.parameters()) >= LARGE
        self._keeps = self._engine.kind == "loop" and large and may_take_runs(self._model)

    def plan(self, settings: RunSettings) -> Plan:
        training, rank, gpu, one = settings.training, settings.config.lora, self.device.gpu, self.played
        recompute = training.memory.activation_checkpointing
        recompute = (self._gpu and can_recompute(self._model)) if recompute is None else recompute
        dtype, precision = self._stored if rank else torch.float32, self._precision(settings)
        episodes, row = training.groups * training.group_size, one.longest + one.reply
        tokens = self._pass(training.memory, self._rows(settings), row)
        found = self._sized(dtype, rank, precision, recompute, *filled(tokens, row), one.reply)
        text, size = self._config.get_text_config(), 2 if precision or dtype.itemsize == 2 else 4
        kept = {
            "weights": found.weights, "optimiser": 8 * found.trained,
            "reference": (training.loss.kl > 0 and not rank)
            * (4 if training.loss.reference == "exact" else 2) * found.parameters,
            "scorer": 12 * found.trained * (getattr(settings.method.scorer, "rate", None) is not None),
            "Python": 0 if gpu else resident(),
        }  # fmt: skip
        head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        cache = size * 2 * text.num_hidden_layers * (text.num_key_value_heads or text.num_attention_heads) * head
        # In 16 bits the loop plays with a copy; with an adapter, the copy holds the sums of base and adapter.
        casts = precision is not None and dtype.itemsize == 4

        def playing(places: int, players: int = 1) -> dict[str, float]:
            side = min(places, self._side)
            return {
                "a copy to play": 2 * found.parameters if casts else dtype.itemsize * found.adapted,
                "keys and values": cache
                * (rounded(side) * rounded(row, least=COLUMNS) if self._gpu and self._keeps else side * row),
                "kept between turns": self._keeps * min(
                    KEPT_SHARE * self.device.memory, players * places * (one.fresh + one.steps * one.reply) * cache
                ),
                "prompts that are read": min(READ_TOKENS, side * one.longest) * size
                * (3 * text.intermediate_size + 4 * text.hidden_size),
                "logits": 24 * side * text.vocab_size,
            } if self._engine.kind == "loop" else {}  # fmt: skip

        beside = {"engine": ENGINE_SHARE * self.device.memory * (self._engine.kind == "vllm")}
        ahead = playing(episodes) if training.rollout.staleness else {}
        while_learning = ({} if self._engine.sleeps else beside) | ahead
        stages = {
            "generation": kept | playing(episodes) | beside,
            "update": kept | while_learning | {
                "gradients": 4 * found.trained, f"activations of {tokens:,} tokens": found.activations
            },
        }  # fmt: skip
        if settings.config.validation_tasks > episodes:  # by the greedy player, then by the sampled one
            stages["validation"] = kept | playing(settings.config.validation_tasks, players=2) | beside
        if settings.config.clone_tasks or settings.episodes is not None:
            given = cloning(settings.config)
            memory = Memory(given.get("microbatch_rows"))
            read = self._pass(memory, given.get("batch_size", Updates.batch_size), row)
            alike = (dtype, rank) if clones_adapter(settings.config) else (torch.float32, 0)
            again = self._gpu and can_recompute(self._model)
            cloned = self._sized(*alike, precision, again, *filled(read, row), one.reply)
            stages["cloning"] = {
                "weights": cloned.weights, "gradients": 4 * cloned.trained, "optimiser": 8 * cloned.trained,
                f"activations of {read:,} tokens": cloned.activations, "Python": kept["Python"],
            }  # fmt: skip
        through = row if settings.config.transcript else one.prompts + one.steps * one.reply
        counts = {
            "prompts": episodes * one.prompts, "replies": episodes * one.steps * one.reply,
            "update": episodes * through, "pass": tokens,
        }  # fmt: skip
        adapter = f" (adapter of rank {rank})" if rank else ""
        computed = str(precision or dtype).removeprefix("torch.")
        letters = "" if self._has_tokenizer else ", 4 letters a token: there is no tokenizer"
        facts = {
            "model": f"{found.parameters:,} parameters, {found.trained:,} trained{adapter}; computes in {computed}",
            "attention": self._words,
            "episodes": f"{episodes} an iteration, {one.steps:.0f} steps, prompts up to {one.longest:,} tokens, "
            f"replies up to {one.reply} (of two episodes of random commands or of the expert{letters})",
        }
        seconds = self._seconds(settings, precision, recompute)
        return Plan(self.device, self._model.config._attn_implementation, stages, seconds, counts, facts)

    def check(self, settings: RunSettings) -> Plan:
        """Return the plan of a run that fits.

        Raises:
            DoesNotFitError: the run does not fit; the message lists settings with which it fits.
        """
        found = best = self.plan(settings)
        words, tried = list[str](), settings
        for option, smaller in self._remedies(settings):
            if best.needed <= best.room:
                break
            changed = smaller(tried)
            needed = self.plan(changed)
            if needed.needed < best.needed:
                tried, best = changed, needed
                words.append(option)
        if not words and found.needed <= found.room:
            return found
        fits = f"{' '.join(words)} makes it {_gib(best.needed)}"
        raise DoesNotFitError(
            f"the run needs {_gib(found.needed)}, and {self.device.name} has {_gib(found.room)} available: "
            + (fits if best.needed <= best.room else
               f"no setting makes it fit{f' ({fits})' * bool(words)}; take a smaller model, a larger card, or an "
               "engine over several cards (docs/engines.md)")
        )  # fmt: skip

    def _remedies(self, settings: RunSettings) -> Iterator[tuple[str, Callable[[RunSettings], RunSettings]]]:
        def having(**changes: Any) -> Callable[[RunSettings], RunSettings]:
            return lambda some: dataclasses.replace(some, training=some.training.changed(**changes))

        def run_with(**changes: Any) -> Callable[[RunSettings], RunSettings]:
            return lambda some: dataclasses.replace(some, config=dataclasses.replace(some.config, **changes))

        row = self.played.longest + self.played.reply
        yield "--recompute", having(**{"memory.activation_checkpointing": True})
        if self._pass(settings.training.memory, self._rows(settings), row) > row:
            yield f"--pass-tokens {row}", having(**{"memory.microbatch_tokens": row})
        if settings.training.loss.kl > 0 and not settings.config.lora:
            yield "--set loss.reference=bfloat16", having(**{"loss.reference": "bfloat16"})
        if not (settings.config.lora or self._tiny):
            yield "--lora 32", run_with(lora=32)
        episodes = settings.training.groups * settings.training.group_size
        if settings.config.validation_tasks > episodes:
            yield f"--validation-tasks {episodes}", run_with(validation_tasks=episodes)
        if settings.training.groups > 1:
            fewer = max(settings.training.groups // 4, 1)
            yield f"--groups {fewer}", having(groups=fewer)

    def _sized(self, *key: Any) -> PassSizes:
        found = self._known[key] = self._known.get(key) or pass_sizes(self._config, *key)
        return found

    def _rows(self, settings: RunSettings) -> int:
        training = settings.training
        rows = math.ceil(training.groups * training.group_size * self.played.steps)
        return min(rows, training.optimiser.minibatch_rows)

    def _pass(self, memory: Memory, rows: int, row: int) -> int:
        most: Any = memory.microbatch_tokens
        if most == "auto":
            most = auto_tokens(self._model, self._gpu)
        rows = min(rows, memory.microbatch_rows or rows)
        return max(min(rows * row, most or rows * row), row)

    def _precision(self, settings: RunSettings) -> torch.dtype | None:
        if settings.precision or self.device.gpu:
            return torch.bfloat16 if settings.precision != "fp32" and not self._tiny else None
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode(allow_non_fake_inputs=True):
            return mixed_precision(on_cpu(empty_model(self._config, torch.float32, 0)))

    def _seconds(self, settings: RunSettings, precision: torch.dtype | None, recompute: bool) -> dict[str, float]:
        training, one, device = settings.training, self.played, self.device
        episodes, model = (
            training.groups * training.group_size,
            empty_model(self._config, torch.float32, settings.config.lora),
        )
        prompt, steps = round(one.prompts / one.steps), round(one.steps)
        read = [round(one.fresh)] if self._keeps else [prompt] * steps
        rows = [one.longest + one.reply] if settings.config.transcript else [prompt + one.reply] * steps
        forward = forward_flops(model, rows)
        scorings = (precision is not None) + training.loss.needs_start
        update = training.optimiser.epochs * (training_flops(model, rows) + forward * recompute) + scorings * forward
        peak = SHARE * device.peak * (1.0 if precision or not device.gpu else 0.5)
        side = min(episodes, self._side)
        step = decode_seconds(model, side, one.longest, device.bandwidth, device.peak) / DECODE_SHARE + HOST
        found = {
            "environment": episodes * one.steps * one.seconds,
            "generation": episodes * forward_flops(model, read) / peak
            + math.ceil(episodes / side) * one.steps * one.reply * step,
            "update": episodes * update / peak,
        }
        return found | {"total": sum(found.values())}


def filled(tokens: int, row: int) -> tuple[int, int]:
    """Return rows and tokens of each in a pass of so many tokens: a packed pass is filled up by shorter rows.

    >>> filled(768, 176), filled(100, 176)
    ((4, 192), (1, 176))
    """
    rows = max(tokens // row, 1)
    return rows, max(tokens // rows, row)


def resident() -> int:
    """Return this process's resident bytes; 0 if the system does not report them (not Linux)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _read_model(settings: RunSettings) -> tuple[Any, Any]:
    """The config of a run's model, and a policy without weights that counts tokens; None: there is no tokenizer."""
    from transformers import AutoConfig

    config = settings.config
    how: dict[str, Any] = {} if config.model == TINY else {"device": "meta"}
    try:
        if config.model in (TINY, SMOLLM2):
            policy = new_policy(config, config.seeds[0], **how)
            return policy.model.config, policy
        found = AutoConfig.from_pretrained(config.model, local_files_only=True)
    except (OSError, ValueError) as error:
        raise DataError(f"no plan without a config: {config.model!r} has no config.json to read ({error})") from error
    try:
        return found, new_policy(config, config.seeds[0], **how)
    except DataError:
        return found, None
