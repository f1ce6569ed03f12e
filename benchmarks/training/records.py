"""Settings of methods that a head to head tries, and its records: one per run, in one JSON file per environment.

Table, pictures and pages are made of the records alone.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.checks import suggest
from baselines.config import NAMES, TrainerConfig, by_name
from baselines.environments.registry import ADVISERS, settings_of
from baselines.environments.settings import TINY, Search, Sizes
from baselines.recipes import recipe
from baselines.recipes.definition import Recipe
from baselines.runs.config import Config
from baselines.runs.stack import CLONE, GREEDY, SAMPLED
from benchmarks import json_files
from benchmarks.console import arguments
from benchmarks.json_files import ResultsError
from benchmarks.options import REFERENCE
from benchmarks.study import Found
from wrappers.credit.method import methods

VERSION = 1
SEARCH, FINAL = "search", "final"
#: The learning rate of every method is searched, in multiples of the environment's own.
RATES = (0.5, 1.0, 2.0)
#: The KL penalties that "rates-kl" tries.
PENALTIES = (0.0, 0.01)
#: Options of credit and settings of `TrainerConfig` that are searched besides it, by recipe; none for any other.
SPACE: Mapping[str, Mapping[str, Sequence[Any]]] = {
    name: method.space for name, method in methods().items() if method.space
}
_DEFAULTS = TrainerConfig().settings()
#: Draws until settings are distinct; where the space is hardly larger than their number, few draws are.
_DRAWS = 1000


@dataclass(frozen=True)
class Setting:
    """One point of a search space: a recipe's name with its options, and settings of `TrainerConfig`."""

    recipe: str
    training: dict[str, float | int | str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "training", by_name(self.training))  # results of version 0.2 have flat names

    @property
    def label(self) -> str:
        texts = {name: value if isinstance(value, str) else f"{value:g}" for name, value in self.training.items()}
        return " ".join([self.recipe, *(f"{name}={text}" for name, text in texts.items())])

    def made(self) -> Recipe:
        return recipe(self.recipe).anywhere()

    @classmethod
    def stated(cls, label: str) -> Setting:
        """Return the setting of a label.

        >>> Setting.stated("aem:std=none group_size=4 loss.clip_high=0.28")
        Setting(recipe='aem:std=none', training={'group_size': 4, 'loss.clip_high': 0.28})
        >>> Setting.stated("aem loss.old_logprobs=recompute memory.microbatch_tokens=700").training
        {'loss.old_logprobs': 'recompute', 'memory.microbatch_tokens': 700}
        """
        method, *words = label.split(" ")
        training = arguments(words, "--methods")
        for name, value in training.items():
            (full,) = by_name({name: 0})
            if full not in NAMES:
                raise ValueError(f"{label!r}: {name!r} is no number of TrainerConfig; {suggest(name, NAMES)}")
            if not isinstance(value, int | float) and not isinstance(_DEFAULTS[full], str):
                raise ValueError(f"{label!r}: expected name=number behind the recipe, got {name}={value}")
        return cls(recipe(method).name, training)


def space_of(method: str, rate: float = 1.0, search: Search = "space") -> dict[str, Sequence[Any]]:
    """Return what is searched for a method, without what its name says already, and the multiples of a learning rate.

    >>> from benchmarks.options import REFERENCE
    >>> space_of(f"{REFERENCE}:std=none", 0.5)
    {'learning_rate': [0.25, 0.5, 1.0], 'loss.clip_high': (0.2, 0.28), 'rollout.resample_rounds': (0, 10)}
    >>> size_of(REFERENCE), size_of(REFERENCE, "rates"), size_of(f"{REFERENCE}:resample_rounds=0", "rates")
    (24, 6, 3)
    >>> space_of("aem", search="rates-kl")
    {'learning_rate': [0.5, 1.0, 2.0], 'loss.kl': (0.0, 0.01)}
    >>> space_of(f"{REFERENCE}:learning_rate=0.1:kl=0", search="rates-kl")
    {'rollout.resample_rounds': (0, 10)}
    """
    name, *given = method.split(":")
    taken = by_name(dict.fromkeys(word.partition("=")[0] for word in given))
    space = SPACE.get(name, {})
    own = {option: space[option] for option in space if search == "space" or option == "rollout.resample_rounds"}
    own |= {"loss.kl": PENALTIES} if search == "rates-kl" else {}
    every = {"learning_rate": [rate * factor for factor in RATES], **own}
    return {option: values for option, values in every.items() if option not in taken}


def size_of(method: str, search: Search = "space") -> int:
    """Return how many settings a method has."""
    return math.prod(map(len, space_of(method, search=search).values()))


def draw(method: str, count: int, rate: float, seed: int, search: Search = "space") -> list[Setting]:
    """Draw distinct settings of a method so that every value of an option occurs as often as any other, or once more.

    This is Latin hypercube sampling (McKay, Beckman, Conover 1979) of a finite space: values of an option come in
    random order, all of them before one of them again. As many settings as there are: each of them.

    >>> [setting.training["learning_rate"] for setting in draw("aem", 3, 0.5, 0)]
    [0.25, 0.5, 1.0]
    """
    space, size = space_of(method, rate, search), size_of(method, search)
    if count > size:
        raise ValueError(f"{method}: {count} settings were asked for, and there are only {size}")
    if count == size:
        every = [
            _setting(method, dict(zip(space, values, strict=True))) for values in itertools.product(*space.values())
        ]
        return sorted(every, key=_order)
    generator = np.random.default_rng([seed, *method.encode()])
    for _ in range(_DRAWS):
        columns = {name: _column(values, count, generator) for name, values in space.items()}
        found = [_setting(method, {name: column[i] for name, column in columns.items()}) for i in range(count)]
        if len({setting.label for setting in found}) == count:
            return sorted(found, key=_order)
    raise ValueError(f"{method}: {count} distinct settings were not found among {size}; ask for fewer")


def _order(setting: Setting) -> tuple[float, str]:
    return float(setting.training.get("learning_rate", 0.0)), setting.label


def _column(values: Sequence[Any], count: int, generator: np.random.Generator) -> list[Any]:
    rounds = -(-count // len(values))
    return [values[i] for _ in range(rounds) for i in generator.permutation(len(values))][:count]


def _setting(method: str, values: Mapping[str, Any]) -> Setting:
    options = "".join(f":{name}={value}" for name, value in values.items() if name not in NAMES)
    return Setting(recipe(method + options).name, {name: values[name] for name in values if name in NAMES})


@dataclass(frozen=True)
class StudyConfig:
    """What every run of a study has in common; `learning` is without methods and seeds.

    Validations (`points`) come after equal shares of the budget of reply tokens. Where no `settings` are tried per
    method, a method is the label of its setting. Settings are tried with `search_runs` seeds from `search_seed` on,
    none of them a final one. Records of different `rules` (`baselines.config.TRAINING_RULES`) are not put together.
    With `factors` everything is done once more for each change of one factor.
    """

    learning: Config
    token_budget: int
    points: int
    settings: int
    search_seed: int = 100
    draw_seed: int = 0
    search_runs: int = 1
    search: Search = "space"
    rules: int = 1
    factors: bool = False

    @property
    def name(self) -> str:
        """Environment, "factors" or model where that is not the tiny one, and whether the data are those of others."""
        if self.factors:
            return f"{settings_of(self.learning.env).name}-factors"
        row = settings_of(self.learning.env, self.learning.setup.options)
        model, setup = Path(self.learning.model).name, self.learning.setup
        kinds = (model, model != TINY), ("privileged", setup.clone_contexts), ("official", self.learning.data)
        return "-".join([row.name, *(kind for kind, there in kinds if there)])

    @property
    def search_seeds(self) -> list[int]:
        """Training seeds of the search; none where nothing is searched."""
        return list(range(self.search_seed, self.search_seed + self.search_runs)) if self.settings else []

    @property
    def judged_points(self) -> int:
        """Last validations that a setting is chosen by: a third of them, and where it was tried once the last one."""
        return 1 if self.search_runs == 1 else max(1, (self.points + 1) // 3)


@dataclass(frozen=True)
class Point:
    """A validation: reply tokens and processor seconds of training before it, success of sampled and greedy play."""

    tokens: int
    seconds: float
    sampled: float
    greedy: float


@dataclass(frozen=True)
class Record:
    """One run of the stage "search", "final" or "clone" (without a setting, its seconds those of the wall).

    Attributes:
        seconds: wall seconds of training, without validation.
        shares: of the wall seconds, per part: environment, generation, credit, update; "scorer" is what a critic or
            reward model took of the last two.
        curve: validations, the first before any training.
        test: per mode one character per test task, "1" solved; empty in the search, which never sees a test task.
        beside: the same on further splits, by name, where the configuration's setup has some.
        course: means over the iterations before each validation but the first, of "entropy" (nats per token) and
            "episode_length" (steps).
        teacher_replies: replies that an informed teacher read, once per context.
        dose: of credit, see `baselines.runs.dose`; empty: not recorded.
        factor: what differs from the study's configuration, such as "wrong=back"; see `with_factor`.
    """

    stage: str
    method: str
    seed: int
    setting: Setting | None
    iterations: int
    tokens: int
    seconds: float
    processor_seconds: float
    shares: dict[str, float]
    curve: list[Point]
    test: dict[str, str]
    beside: dict[str, dict[str, str]] = field(default_factory=dict)
    course: dict[str, list[float]] = field(default_factory=dict)
    teacher_replies: int = 0
    dose: dict[str, float] = field(default_factory=dict)
    factor: str = ""

    def validated(self, points: int = 1) -> float:
        """Mean success of the last validations, or of all for 0, of greedy and sampled play."""
        last = self.curve[-points:]
        return sum(point.greedy + point.sampled for point in last) / (2 * len(last))


@dataclass(frozen=True)
class Trainings(Found):
    """The whole file."""

    config: StudyConfig
    records: list[Record]

    @functools.cached_property
    def finals(self) -> dict[str, list[Record]]:
        """The final runs that count by method, the reference first, others in the order of their first record."""
        names = dict.fromkeys(record.method for record in self.records if record.stage == FINAL)
        ordered = sorted(names, key=lambda method: method != REFERENCE)
        return {method: runs for method in ordered if (runs := self.of(method, FINAL))}

    @property
    def methods(self) -> list[str]:
        return list(self.finals)

    @property
    def clones(self) -> list[Record]:
        return self.of(CLONE, CLONE)

    def by_factor(self) -> dict[str, Trainings]:
        """Return a study for each factor, "" nothing was changed, in the order of the records."""
        factors = dict.fromkeys(record.factor for record in self.records)
        return {
            each: dataclasses.replace(self, records=[record for record in self.records if record.factor == each])
            for each in factors
        }

    def of(self, method: str, stage: str) -> list[Record]:
        """Return a method's records of a stage, by seed; final runs with the setting that was chosen alone."""
        found = [record for record in self.records if (record.method, record.stage) == (method, stage)]
        if stage == FINAL:
            chosen = {factor: self.chosen(method, factor) for factor in {record.factor for record in found}}
            found = [record for record in found if record.setting == chosen[record.factor]]
        return sorted(found, key=lambda record: record.seed)

    def chosen(self, method: str, factor: str = "") -> Setting | None:
        """Return the setting that a method's final runs are to have; None where the search has not tried any."""
        if not self.config.settings:
            return Setting.stated(method)
        searched = [record for record in self.of(method, SEARCH) if record.factor == factor]
        return choose(searched, self.config.judged_points) if searched else None

    def left_out(self) -> list[str]:
        """Return a sentence for each final run that counts for nothing, as it has another setting than was chosen."""
        said = []
        for run in (record for record in self.records if record.stage == FINAL):
            if run.setting != (chosen := self.chosen(run.method, run.factor)):
                why = "nothing was searched" if chosen is None else f"{chosen.label!r} was chosen"
                label = run.setting.label if run.setting else "no setting"
                said.append(f"left out: {run.method} with seed {run.seed}, trained with {label!r}, while {why}")
        return said


def with_factor(learning: Config, factor: str, *, cloning: bool = False) -> Config:
    """Return a configuration with one change: a size, the adviser, or an option of the environment but while cloning.

    Raises:
        ValueError: the factor is not name=value, or there is no such adviser.
    """
    if not factor:
        return learning
    ((name, value),) = arguments([factor], "--factor").items()
    if name in {each.name for each in dataclasses.fields(Sizes)}:
        return dataclasses.replace(learning, **{name: value})
    changed: dict[str, Any] = {} if cloning else {"options": {**learning.setup.options, name: value}}
    if name == "adviser":
        if value not in ADVISERS:
            raise ValueError(f"unknown adviser {value!r}; {suggest(str(value), ADVISERS)}")
        changed = {name: value}
    return dataclasses.replace(learning, setup=dataclasses.replace(learning.setup, **changed))


def by_setting(records: Iterable[Record]) -> list[tuple[Setting, list[Record]]]:
    """Return the runs of each setting, in the order of the records; clones have none."""
    found: dict[str, tuple[Setting, list[Record]]] = {}
    for record in records:
        if record.setting is not None:
            found.setdefault(record.setting.label, (record.setting, []))[1].append(record)
    return list(found.values())


def choose(records: Iterable[Record], points: int = 1) -> Setting:
    """Return the setting whose search runs validated best in the mean, whatever the order of the records.

    Of equal ones, such as those that solve every task in the end, the one with the best mean over all validations is
    taken, then the lowest learning rate, then the first label of the alphabet.
    """
    tried = by_setting(records)
    if not tried:
        raise ResultsError("no run of the search to choose from")
    found = [
        (setting, [math.fsum(run.validated(last) for run in runs) / len(runs) for last in (points, 0)])
        for setting, runs in tried
    ]
    best = max(values for _, values in found)
    tied = [setting for setting, values in found if values == best]
    return min(tied, key=_order)


def check(study: Trainings) -> None:
    """Check what types cannot say."""
    if twice := [key for key, count in Counter(map(_key, study.records)).items() if count > 1]:
        raise ResultsError(f"records: a run stands there twice: {twice[0]}")
    tasks = study.config.learning.eval_tasks
    clones = {(record.factor, record.seed) for record in study.records if record.stage == CLONE}
    for record in study.records:
        where = f"the {record.stage} run of {record.method!r} with seed {record.seed}"
        modes = () if record.stage == SEARCH else (GREEDY, SAMPLED)
        if tuple(sorted(record.test)) != modes:
            raise ResultsError(f"{where}: expected test outcomes of {modes}, got {tuple(record.test)}")
        played = (record.test, *record.beside.values())
        if any(len(won) != tasks or set(won) - {"0", "1"} for split in played for won in split.values()):
            raise ResultsError(f"{where}: expected {tasks} characters 0 or 1 per mode")
        if record.stage == CLONE:
            continue
        if not record.curve:
            raise ResultsError(f"{where}: no validation")
        if record.stage == FINAL and (record.factor, record.seed) not in clones:
            raise ResultsError(f"{where}: no record of the clone that it began with")
        if not study.config.settings and record.setting != (stated := Setting.stated(record.method)):
            raise ResultsError(f"{where}: trained with {record.setting}, but its name says {stated}")


def merge(first: Trainings, other: Trainings) -> Trainings:
    """Return one study with the records of two; where a run is in both, the other's stands."""
    if other.config != first.config:
        raise ResultsError(f"{first.config.name}: two studies with different configurations cannot be put together")
    records = {_key(record): record for study in (first, other) for record in study.records}
    found = dataclasses.replace(first, records=list(records.values()))
    check(found)
    return found


def _key(record: Record) -> tuple[str, str, str, int, str]:
    # A search has several runs of a method and a seed; so have two studies whose searches came to other settings.
    label = record.setting.label if record.setting else ""
    return record.factor, record.stage, record.method, record.seed, label


def load(path: Path) -> Trainings:
    """Read and check."""
    return json_files.load(Trainings, path, version=VERSION, check=check)


def save(study: Trainings, path: Path) -> None:
    """Check and write; the file appears whole or not at all."""
    check(study)
    json_files.write_json(study, path)


def load_folders(*folders: Path) -> list[Trainings]:
    """Read every study of some folders, `<folder>/*.json`, by name; those of one name are put together."""
    found: dict[str, Trainings] = {}
    for folder in folders:
        if not (paths := sorted(folder.glob("*.json"))):
            raise ResultsError(f"{folder}: expected files of studies, such as sokoban.json; found none")
        for study in map(load, paths):
            name = study.config.name
            found[name] = merge(found[name], study) if name in found else study
    return list(found.values())
