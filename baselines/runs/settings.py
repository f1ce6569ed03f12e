"""Settings of one training run: environment, prompt, method and trainer, from options and, optionally, a paper."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from baselines.config import TrainerConfig, by_name
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY, EnvSettings
from baselines.recipes import recipe
from baselines.recipes.definition import Recipe
from baselines.recipes.papers import Paper
from baselines.runs.config import Config, make_config
from baselines.runs.data_source import GENERATED, DataSource
from baselines.runs.stack import trainer_config
from policies.pretrained import Truncate

#: Settings of `TrainerConfig` that are fields of `baselines.runs.config.Sizes` as well.
_SIZES = {"iterations": "steps", "groups": "groups", "group_size": "group_size", "validation.every": "validation_every"}
#: Settings that a paper does not determine: the requested sizes, memory and files.
_OURS = (
    *_SIZES, "memory.microbatch_rows", "memory.microbatch_tokens", "memory.share_prefixes",
    "memory.activation_checkpointing", "checkpoint.every", "seed",
)  # fmt: skip

#: Iterations between probes of a run, see `baselines.config.Rollout`.
_PROBE_EVERY = 10
#: Options of environments that restrict a run to some kinds of tasks, as runs of tiny models do.
_NARROWING = ("task_types", "families", "sources", "kinds")


@dataclass(frozen=True)
class RunSettings:
    """One run.

    Attributes:
        config: environment, prompt and tasks, as the learning benchmark has them.
        paper: the paper whose settings are used; None: the benchmark's own settings.
        reply_tokens: length limit of a reply; None: the model's own.
        truncate: treatment of prompts that do not fit, see `policies.pretrained.Settings`; None: that of
            the model's own settings.
        source: the data that are played; None: not determined yet.
        credit: the method, if it has no registered name.
        variable: argument for the folder of external data, and the environment variable that is used without it.
        precision: "bf16" or "fp32", the type of the computation; None: see `policies.pretrained.mixed_precision`.
        start: folder of the policy that the run begins with, see `baselines.runs.card.earlier`; None: the model.
        episodes: file of demonstrations that are imitated first, see `baselines.imitation.episodes.read_episodes`.
    """

    config: Config
    training: TrainerConfig
    paper: Paper | None = None
    reply_tokens: int | None = None
    truncate: Truncate | None = None
    prompt_tokens: int | None = None
    source: DataSource | None = None
    variable: tuple[str, str] | None = None
    credit: Recipe | None = None
    precision: Literal["bf16", "fp32"] | None = None
    start: Path | None = None
    episodes: Path | None = None

    @property
    def method(self) -> Recipe:
        """The credit method with its options.

        Raises:
            NotImplementedError: the paper's method is not in this package.
        """
        if self.credit is not None:
            return self.credit
        return recipe(self.config.methods[0]) if self.paper is None else self.paper.recipe()

    def paper_report(self) -> list[str]:
        """Return the text before a run: differences from the paper, other settings, and settings without effect."""
        if self.paper is None:
            return []
        differing = self.paper.differences(self.training)
        if self.paper.lora_rank is not None and self.config.lora != self.paper.lora_rank:
            differing.append(f"lora_rank: {self.paper.source} {self.paper.lora_rank}, here {self.config.lora}")
        handled = _handled(self.paper, self.training.temperature)
        for name, options in _environment(self.paper).items():
            here = {option: self.config.setup.options.get(option) for option in options}
            if here != options:
                shown = ", ".join(f"{option}={value!r}" for option, value in here.items())
                differing.append(f"{name}: {self.paper.source} {self.paper.environment[name]!r}, here {shown}")
                handled[name] = ""
        if self.config.transcript:
            differing.append("prompt: the papers show a window of steps, here the whole conversation")
        rate = self.training.learning_rate
        if self.config.lora and self.paper.lora_rank is None and rate == self.paper.training.get("learning_rate"):
            differing.append(
                f"the paper's learning rate {rate:g} is for all weights; an adapter learns best at about ten times "
                f"that: --set learning_rate={10 * rate:g}"
            )
        facts = [(line, line.partition(":")[0]) for line in self.paper.unset()]
        narrowed = {name: self.config.setup.options.get(name) for name in _NARROWING}
        differing += [
            f"{name}: {self.paper.source} all, here {value}" for name, value in narrowed.items() if value is not None
        ]
        of_others = self._of_others()
        return [
            f"settings of {self.paper.title}",
            *(f"  differs   {line}" for line in differing or ["none of the printed trainer settings"]),
            *([f"  differs   {of_others}"] if of_others else []),
            *(f"  set       {line} ({handled[name]})" for line, name in facts if handled.get(name)),
            *(f"  not set   {line}" for line, name in facts if name not in handled),
            *([f"  note      {self.paper.notes}"] if self.paper.notes else []),
        ]

    def _of_others(self) -> str:
        if self.paper is None or self.source is None or self.source.source != GENERATED:
            return ""
        words = f"data: {self.paper.source} {settings_of(self.paper.env).papers_play}, here generated tasks"
        if self.variable is None:
            return words
        argument, variable = self.variable
        return f"{words} (--option {argument}=PATH{f', or the variable {variable}' if variable else ''})"


def run_settings(
    row: EnvSettings, *, method: str, model: str, seed: int, quick: bool = False, lora: int | None = None,
    history: int | None = None, paper: Paper | None = None, sizes: Mapping[str, int] | None = None,
    changes: Mapping[str, Any] | None = None, transcript: bool = False, truncate: Any = None,
    clone: int | str | Path | None = 0, credit: Recipe | None = None, precision: Any = None, start: Path | None = None,
) -> RunSettings:  # fmt: skip
    """Combine the settings of a run.

    `paper` overrides the benchmark's settings, `sizes` (fields of `baselines.runs.config.Sizes`) override those, and
    `changes` (settings of `TrainerConfig`) override everything. `lora` of None is the paper's rank, else 0. `clone` is
    a number of expert episodes, or a file of episodes; None: for the tiny model the number in the environment's
    settings; none for other models, with a paper's settings, or after a `start`. None for `history`, `truncate`,
    `precision` and `start`: the environment's and the model's own settings. `credit` is the method if `method` is not
    a registered name.

    Raises:
        TypeError: a change names no setting; the message suggests one.
        ValueError: a change has an impossible value, or there is no such `truncate`, `precision` or file.
    """
    if truncate is not None and truncate not in get_args(Truncate):
        raise ValueError(f"--truncate is one of {get_args(Truncate)}, got {truncate!r}")
    if precision not in (None, "bf16", "fp32"):
        raise ValueError(f"--precision is bf16 or fp32, got {precision!r}")
    episodes = Path(clone) if isinstance(clone, str | Path) else None
    if episodes is not None and not episodes.is_file():
        raise ValueError(f"--clone takes a number of expert episodes or a file of episodes; there is no {episodes}")
    printed = {} if paper is None else dict(paper.training)
    changes = dict(changes or {})
    sized = by_name(changes)
    if lora is None:
        lora = 0 if paper is None else paper.lora_rank or 0
    played = row.played_by(model)
    full = played.quick if quick else played.full
    if clone is None:
        clone = full.clone_tasks if model == TINY and paper is None and start is None else 0
    chosen = {"clone_tasks": clone if isinstance(clone, int) else 0}
    if not quick:
        chosen |= {_SIZES[name]: value for name, value in printed.items() if name in _SIZES}
    chosen |= dict(sizes or {}) | {_SIZES[name]: value for name, value in sized.items() if name in _SIZES}
    config = make_config(
        row, methods=[method], seeds=[seed], model=model, history=history, lora=lora, transcript=transcript,
        sizes=dataclasses.replace(full, **chosen),
    )  # fmt: skip
    # A paper's settings hold the method's own.
    own_method = credit or recipe(method) if paper is None else Recipe(method, lambda table: table)
    base = trainer_config(config, seed, own_method)
    if paper is not None:
        here = base.settings()
        own = {name: here[name] for name in _OURS}
        base = paper.config(
            **{**own, **{name: printed[name] for name in _OURS if name in printed and name not in _SIZES}}
        )
    training = base.changed(**{"rollout.probe_every": _PROBE_EVERY, **changes})
    config = dataclasses.replace(config, temperature=training.temperature)
    given: dict[str, Any] = {"truncate": truncate, "precision": precision, "start": start, "episodes": episodes}
    if paper is None:
        return RunSettings(config, training, credit=credit, **given)
    for options in _environment(paper).values():
        config.setup.options.update(options)
    limits: dict[str, Any] = {"reply_tokens": paper.reply_tokens, "prompt_tokens": paper.prompt_tokens}
    return RunSettings(config, training, paper, **limits, **given)


def _environment(paper: Paper) -> dict[str, dict[str, Any]]:
    """Return, by the paper's name, the environment's keyword arguments for a printed value."""
    known = settings_of(paper.env).papers_options
    return {name: known[name](value) for name, value in paper.environment.items() if name in known}


def _handled(paper: Paper, temperature: float) -> dict[str, str]:
    words = {"reply_tokens": "max_new_tokens", "prompt_tokens": "max_prompt_tokens", "lora_rank": ""}
    for name, options in _environment(paper).items():
        words[name] = ", ".join(f"{option}={value!r}" for option, value in options.items())
    # Validation plays twice: greedily and with the rollouts' sampling.
    if paper.validation_temperature == 0:
        words["validation_temperature"] = "validation_greedy"
    elif paper.validation_temperature == temperature:
        words["validation_temperature"] = "validation_sampled"
    return words
