"""What one training run is: environment, prompt, method and trainer, from options and, if asked for, from a paper."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from baselines.config import TrainerConfig
from baselines.papers import Paper
from baselines.recipes import Recipe, recipe
from benchmarks.config import Config, EnvSettings, make_config
from benchmarks.learning.stack import trainer_config
from policies.pretrained import Truncate

#: Fields of `TrainerConfig` that are fields of `benchmarks.config.Sizes` as well.
_SIZES = {"iterations": "steps", "groups": "groups", "group_size": "group_size", "validate_every": "validation_every"}
#: What no paper can know: sizes as they were asked for, and what only says how much memory and which files are used.
_OURS = (
    *_SIZES, "microbatch_rows", "microbatch_tokens", "share_prefixes", "activation_checkpointing", "checkpoint_every",
    "seed",
)  # fmt: skip


@dataclass(frozen=True)
class RunSettings:
    """One run.

    Attributes:
        config: environment, prompt and tasks, as the learning benchmark has them.
        training: the trainer's numbers.
        paper: whose settings were asked for; None: the benchmark's own.
        reply_tokens: length limit of a reply; None: the model's own.
        truncate: what becomes of prompts that do not fit, see `policies.pretrained.Settings`; None: as the model's own
            settings say.
    """

    config: Config
    training: TrainerConfig
    paper: Paper | None = None
    reply_tokens: int | None = None
    truncate: Truncate | None = None

    @property
    def method(self) -> Recipe:
        """The credit method with its options.

        Raises:
            NotImplementedError: the paper's method is not in this package.
        """
        return recipe(self.config.methods[0]) if self.paper is None else self.paper.recipe()

    def told(self) -> list[str]:
        """Return what is printed before a run starts: what differs from the paper, and what it cannot set."""
        if self.paper is None:
            return []
        differing = self.paper.differences(self.training)
        if self.paper.lora_rank is not None and self.config.lora != self.paper.lora_rank:
            differing.append(f"lora_rank: {self.paper.source} {self.paper.lora_rank}, here {self.config.lora}")
        handled = ("reply_tokens", "lora_rank")
        if self.config.transcript:
            differing.append("prompt: the papers show a window of steps, here the whole conversation")
        rate = self.training.learning_rate
        if self.config.lora and self.paper.lora_rank is None and rate == self.paper.training.get("learning_rate"):
            differing.append(
                f"the paper's learning rate {rate:g} is one of all weights; an adapter learns best at about ten times "
                f"that: --set learning_rate={10 * rate:g}"
            )
        elsewhere = [line for line in self.paper.unset() if line.partition(":")[0] not in handled]
        return [
            f"settings of {self.paper.title}",
            *(f"  differs   {line}" for line in differing or ["nothing of what is printed for the trainer"]),
            *(f"  not set   {line}" for line in elsewhere),
            *([f"  note      {self.paper.notes}"] if self.paper.notes else []),
        ]


def run_settings(
    row: EnvSettings,
    *,
    method: str,
    model: str,
    seed: int,
    quick: bool = False,
    lora: int | None = None,
    history: int | None = None,
    paper: Paper | None = None,
    sizes: Mapping[str, int] | None = None,
    changes: Mapping[str, Any] | None = None,
    transcript: bool = False,
    truncate: Any = None,
) -> RunSettings:
    """Put a run together.

    Args:
        row: the environment.
        method: name of a recipe, or of a paper's method.
        model: "tiny", "smollm2" or a model folder.
        seed: of the run.
        quick: sizes of a smoke test.
        lora: rank of an adapter, 0 for all weights; None: the paper's, else 0.
        history: pairs in the prompt; None: as the environment's settings say.
        paper: settings that win over the benchmark's.
        sizes: fields of `benchmarks.config.Sizes` that win over those.
        changes: fields of `TrainerConfig` that win over everything.
        transcript: whole conversations as prompts.
        truncate: what becomes of prompts that do not fit; None: as the model's own settings say.

    Raises:
        TypeError: a change names no setting; the message suggests one.
        ValueError: a change has a value that cannot be, or there is no such `truncate`.
    """
    if truncate is not None and truncate not in get_args(Truncate):
        raise ValueError(f"--truncate is one of {get_args(Truncate)}, got {truncate!r}")
    printed = {} if paper is None else dict(paper.training)
    changes = dict(changes or {})
    if lora is None:
        lora = 0 if paper is None else paper.lora_rank or 0
    played = row.played_by(model)
    chosen = {"clone_tasks": 0}
    if not quick:
        chosen |= {_SIZES[name]: value for name, value in printed.items() if name in _SIZES}
    chosen |= dict(sizes or {}) | {_SIZES[name]: value for name, value in changes.items() if name in _SIZES}
    config = make_config(
        row, methods=[method], seeds=[seed], model=model, history=history, lora=lora, transcript=transcript,
        sizes=dataclasses.replace(played.quick if quick else played.full, **chosen),
    )  # fmt: skip
    # A paper's settings hold the method's own.
    base = trainer_config(config, seed, recipe(method) if paper is None else Recipe(method, lambda table: table))
    if paper is not None:
        own = {name: getattr(base, name) for name in _OURS}
        base = paper.config(
            **{**own, **{name: printed[name] for name in _OURS if name in printed and name not in _SIZES}}
        )
    training = dataclasses.replace(base, **changes)
    config = dataclasses.replace(config, temperature=training.temperature)
    return RunSettings(config, training, paper, None if paper is None else paper.reply_tokens, truncate)


def read_changes(texts: Sequence[str]) -> dict[str, Any]:
    """Read settings as they are typed.

    Raises:
        ValueError: one is not of the form name=value.

    >>> read_changes(["kl=0", "ratio=step", "tis=null", "keep_zero=false"])
    {'kl': 0, 'ratio': 'step', 'tis': None, 'keep_zero': False}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"expected name=value, such as kl=0.02, got {text!r}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
