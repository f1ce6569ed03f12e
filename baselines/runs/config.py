"""Configuration of a learning benchmark: settings of an environment, sizes, and the whole configuration.

EnvSettings  settings of one environment, a row of `baselines.environments.registry`: sizes, setup, training
Config       configuration of one benchmark, made by `make_config` from a row and from options; its `config.json`
"""

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from baselines.config import TrainerConfig, by_name
from baselines.environments.settings import LORA_RATE, SMOLLM2, TINY, EnvSettings, Setup, Sizes


class _Change(NamedTuple):
    """A changed setting: in old records that lack the setting `since` ("": in all), `then` is read as `now`."""

    since: str
    name: str
    then: Any
    now: Any


#: Values of settings that earlier records lack; they come first in a record.
_ADDED = by_name(
    {"distillation": TrainerConfig().loss.distillation, "rollout": {"probe_every": 0, "on_mismatch": "stop"}}
)
#: Changes of earlier records; `baselines.config.by_name` reads the flat names of version 0.2.
_CHANGES = (
    _Change("rollout.probe_every", "memory.microbatch_tokens", None, "auto"),  # both were defaults at the time
    _Change("", "memory.activation_checkpointing", False, None),  # equal on a CPU
)
#: Settings of `TrainerConfig` that a benchmark chooses itself, or that do not change the learning.
_OWN = ("iterations", "groups", "group_size", "temperature", "validation.every", "checkpoint.every", "seed")


@dataclass(frozen=True)
class Config:
    """Configuration of a benchmark; a folder holds the results of one configuration.

    Attributes:
        env: Gymnasium id.
        methods: credit methods, names for `baselines.recipes.recipe`.
        seeds: training seeds; every method is trained once per seed, from the same clone.
        steps, groups, group_size: iterations, tasks of an iteration, episodes of a task.
        model: "tiny", "smollm2", or the folder or hub name of a Hugging Face causal language model.
        history: (observation, action) pairs shown in the prompt besides the current observation.
        instructions: whether the prompt begins with the task's rules.
        temperature: of sampling, in training and in the "sampled" evaluation.
        clone_tasks, clone_epochs: expert episodes of the warm start, and passes over them.
        training_tasks, eval_tasks: numbers of training tasks, and of held-out tasks of the final table.
        validation_tasks, validation_every: tasks of the learning curve, separate from both; iterations between its
        points.
        training: settings of `TrainerConfig` by name, the same for all methods except a recipe's own settings.
        setup: settings of the environment.
        lora: rank of the adapter that is trained instead of all weights; 0: all weights.
        transcript: whether prompts are whole conversations (`wrappers.transcript`); `history` is then ignored.
        data: fingerprint of external data, see `baselines.runs.data_source`; None: the tasks are generated.
    """

    env: str
    methods: list[str]
    seeds: list[int]
    steps: int
    groups: int
    group_size: int
    model: str
    history: int
    instructions: bool
    temperature: float
    clone_tasks: int
    clone_epochs: int
    training_tasks: int
    eval_tasks: int
    validation_tasks: int
    validation_every: int
    training: dict[str, Any]
    setup: Setup = field(default_factory=Setup)
    lora: int = 0
    transcript: bool = False
    data: str | None = None

    def __post_init__(self) -> None:
        given = by_name(self.training)
        changed = {
            change.name: change.now
            for change in _CHANGES
            if change.since not in given and change.name in given and given[change.name] is change.then
        }
        object.__setattr__(self, "training", _ADDED | given | changed)


def make_config(
    row: EnvSettings, *, methods: Sequence[str], seeds: Sequence[int], model: str, history: int | None, sizes: Sizes,
    lora: int = 0, transcript: bool = False,
) -> Config:  # fmt: skip
    """Return a configuration.

    Args:
        model: "tiny", "smollm2", or a model's folder or hub name.
        history: pairs in the prompt; None: the value in the environment's settings for the model, such as 0 for the
            tiny one in Sokoban, where it sees nothing but the board, 2 for a model from a folder.
        sizes: numbers that determine its length.
        lora: rank of an adapter; its learning rate is ten times that of all weights, which is about the best for
            adapters (Schulman et al. 2025, "LoRA Without Regret").
    """
    played = row.played_by(model)
    settings = played.training.settings()
    training: dict[str, Any] = {name: value for name, value in settings.items() if name not in _OWN}
    if lora:
        training["learning_rate"] *= LORA_RATE
    return Config(
        env=row.id, methods=list(methods), seeds=list(seeds),
        model=model if model in (TINY, SMOLLM2) else str(Path(model)),
        history=played.history if history is None else history, instructions=played.instructions,
        temperature=played.training.temperature, training=training, setup=copy.deepcopy(played.setup), lora=lora,
        transcript=transcript, **dataclasses.asdict(sizes),
    )  # fmt: skip
