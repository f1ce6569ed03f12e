"""The source of a run's tasks: found as by `gym.make`, recorded, and compared when the run is resumed.

open_data    a configuration on the data that variables and options name, with their splits and numbers of tasks
DataSource   the source and its fingerprint; `data_source.json` in the folder of a run and beside its models
"""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium as gym

import agentgym  # noqa: F401  # registers the environments
from agentgym.outside.files import OtherConfigurationError, fingerprint_of_content, write_file
from agentgym.outside.text import DataError, clean_json, read_json
from agentgym.panels import BESIDE_TASKS, digest
from baselines.environments.settings import EnvSettings
from baselines.runs.config import Config

SOURCE_FILE = "data_source.json"
GENERATED = "generated"
#: Names of splits to validate and to test on in external data, the best first.
_VALIDATION, _TEST = ("validation", "valid_seen", "dev"), ("test", "valid_unseen", "dev")
#: Arguments that a run sets itself.
_OURS = ("split", "expert", "render_mode")
#: Most tasks of a split in a fingerprint: of external data, and of generated data, which must be generated for it.
_MOST, _MADE = 20_000, 8
#: Fewest tasks of a test or a learning curve.
_FEWEST = 2


@dataclass(frozen=True)
class DataSource:
    """The tasks of one run.

    Attributes:
        source: "generated", or the arguments or variables that name external data: "ALFWORLD_DATA=/home/me/alfworld".
        fingerprint: 16 hexadecimal digits over the contents of the splits' tasks (the first 20,000 of each; of
            generated tasks the first eight) and their number; paths of files are not included.
        tasks: number of tasks of each split that is trained, validated or tested on.
        where: those of the arguments that are paths of data.
    """

    env: str
    source: str
    fingerprint: str
    tasks: dict[str, int]
    options: dict[str, Any]
    where: list[str]

    @property
    def words(self) -> str:
        """Source, tasks and fingerprint in one line.

        >>> DataSource("AgentRL/ALFWorld-v0", "data=/games", "0123456789abcdef", {"train": 3553}, {}, []).words
        'data=/games; tasks: train 3,553; fingerprint 0123456789abcdef'
        """
        counts = ", ".join(f"{split} {count:,}" for split, count in self.tasks.items()) or "drawn by their seeds"
        return f"{self.source}; tasks: {counts}; fingerprint {self.fingerprint}"

    @property
    def about(self) -> dict[str, str]:
        """Entries of the first row of a log, see `baselines.records.metrics.MetricsLog`."""
        return {"data": self.source, "data_fingerprint": self.fingerprint}

    def note(self, folder: Path) -> None:
        """Record the source in the folder of a new run, or compare it with the record of a resumed run.

        Raises:
            OtherConfigurationError: the run started with other tasks, or other arguments of the environment.
        """
        path = folder / SOURCE_FILE
        if path.is_file():
            there = _read(path)
            if there._compared() == self._compared():
                return
            if not any(each.name not in (SOURCE_FILE, "config.json", ".lock") for each in folder.iterdir()):
                self._write(path)  # the run has not started
                return
            difference = f"  there {there.words}\n  here {self.words}"
            if there.fingerprint == self.fingerprint:
                difference = f"  there {there.options}\n  here {self.options}"
        elif self.source == GENERATED or not _is_begun(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._write(path)
            return
        else:
            difference = f"  there generated tasks (it has no {SOURCE_FILE})\n  here {self.words}"
        raise OtherConfigurationError(
            f"{folder} holds a run on other data:\n{difference}\n"
            "Give another folder with --out, name the old data to continue it, or delete the folder."
        )

    def _compared(self) -> Any:
        options = {name: value for name, value in self.options.items() if name not in self.where}
        return _plain([self.env, self.fingerprint, self.source == GENERATED, options])

    def _write(self, path: Path) -> None:
        write_file(path, json.dumps(_plain(dataclasses.asdict(self)), ensure_ascii=False).encode())


def _plain(value: Any) -> Any:
    return clean_json(json.loads(json.dumps(value)))


def _read(path: Path) -> DataSource:
    try:
        return DataSource(**read_json(path.read_bytes()))
    except (DataError, TypeError) as error:
        raise DataError(f"{path}: {error}; delete it and run the same command again") from None


def _is_begun(folder: Path) -> bool:
    return (folder / "log.jsonl").exists() or any(folder.glob("checkpoint-*"))


def noted(folder: Path) -> DataSource | None:
    """Return the data source recorded in a run's folder, or None."""
    path = folder / SOURCE_FILE
    return _read(path) if path.is_file() else None


def hand_on(folder: Path, model: Path) -> None:
    """Copy the data source that a run's folder records, if any, into the folder of a model of the run."""
    if (folder / SOURCE_FILE).is_file() and model.is_dir():
        shutil.copyfile(folder / SOURCE_FILE, model / SOURCE_FILE)


def open_data(
    config: Config, row: EnvSettings, given: Mapping[str, Any], *, stated: Collection[str] = (), whole: bool = False
) -> tuple[Config, DataSource]:
    """Return a configuration on the data that options or variables name, with splits and numbers of tasks that fit.

    Without either the configuration does not change. With external data it validates and tests on their splits for this
    purpose ("valid_seen" and "valid_unseen" in ALFWorld). Numbers of tasks that are too large for a split are lowered;
    parts of a run that share a split divide it in proportion.

    Args:
        config: the requested configuration, on generated tasks.
        given: arguments of the environment, which take precedence.
        stated: fields of `baselines.runs.config.Sizes` that the user has set; they are not lowered.
        whole: whether all training tasks of external data are used.

    Raises:
        ValueError: missing or damaged data, with the message of `gym.make`; splits or tasks that the data lack.
        TypeError: the environment has no such argument.
        OSError: a file cannot be read.
    """
    if ours := [name for name in _OURS if name in given]:
        raise ValueError(f"--option {ours[0]}={given[ours[0]]!r}: a run sets {ours[0]!r} itself: leave it out")
    found = {name: value for name, value in given.items() if not (name in row.data and value is None)}
    origin = {name: name for name in row.data}
    for name, variable in row.data.items():
        if name not in found and variable and os.environ.get(variable):
            found[name], origin[name] = os.environ[variable], variable
    for name in row.data:
        if isinstance(found.get(name), str) and found[name] not in ("", GENERATED):
            found[name] = str(Path(found[name]).expanduser().absolute())
    setup = config.setup
    named = [f"{origin[name]}={found[name]}" for name in row.data if found.get(name, GENERATED) != GENERATED]
    options, plenty = dict(setup.options), dict(setup.plenty)
    if named:
        options = {name: value for name, value in options.items() if name not in row.made}
        plenty = {}
    options |= found
    plenty = {name: value for name, value in plenty.items() if name not in found}
    with contextlib.closing(gym.make(config.env, **options, **plenty)) as env:
        bare: Any = env.unwrapped
        setup = dataclasses.replace(setup, options=options, plenty=plenty)
        if getattr(bare, "tasks", None) is None:
            setup = dataclasses.replace(setup, train="", validation="", test="", beside=[])
            source = DataSource(config.env, GENERATED, digest([config.env])[:16], {}, options, [])
            return dataclasses.replace(config, setup=setup), source
        if named or not set(bare.tasks.splits) >= {setup.train, setup.validation, setup.test}:
            setup = _splits(setup, bare.tasks)
        config = _sizes(dataclasses.replace(config, setup=setup), bare.tasks, stated, whole=whole and bool(named))
        splits = tuple(dict.fromkeys([setup.train, setup.validation, setup.test, *setup.beside]))
        counts = {split: int(bare.tasks.count(split)) for split in splits}
        most = _MOST if named else _MADE
        content = {
            split: [digest(bare.content(each)) for each in islice(bare.tasks.ids(split), most)] for split in splits
        }
    beside = {name: _file(options[name]) for name in BESIDE_TASKS if isinstance(options.get(name), str)}
    mark = digest([config.env, counts, content, beside])[:16]
    source = DataSource(config.env, ", ".join(named) or GENERATED, mark, counts, options, list(row.data))
    return dataclasses.replace(config, data=mark if named else None), source


def _file(path: str) -> str:
    return fingerprint_of_content(Path(path)) if Path(path).exists() else ""


def _splits(setup: Any, tasks: Any) -> Any:
    there = [split for split in tasks.splits if tasks.count(split)]
    if setup.train not in there:
        raise ValueError(
            f"{tasks.name}: no tasks to train on: expected a split {setup.train!r}, got {list(tasks.splits)}; a panel "
            "(`panel`) plays them; train on other tasks"
        )
    validation = next((split for split in _VALIDATION if split in there), None)
    test = next((split for split in _TEST if split in there), validation)
    if test is None:
        raise ValueError(
            f"{tasks.name}: no tasks to validate and test on beside {setup.train!r}: expected a split such as "
            f"{', '.join(map(repr, dict.fromkeys(_VALIDATION + _TEST)))}, got {there}"
        )
    return dataclasses.replace(setup, validation=validation or test, test=test, beside=[])


def _sizes(config: Config, tasks: Any, stated: Collection[str], *, whole: bool) -> Config:
    setup, wanted = config.setup, dataclasses.asdict(config)
    parts: dict[str, list[str]] = {setup.train: ["clone_tasks", "training_tasks"]}
    for split, name in ((setup.test, "eval_tasks"), (setup.validation, "validation_tasks")):
        parts.setdefault(split, []).append(name)
    found: dict[str, Any] = {}
    for split, names in parts.items():
        count = int(tasks.count(split))
        fixed = {name: int(wanted[name]) for name in names if name in stated}
        free = {name: int(wanted[name]) for name in names if name not in stated}
        left = count - sum(fixed.values())
        fewest = sum(_fewest(name, number) for name, number in free.items())
        if left < fewest:
            words = ", ".join(f"{number} {_SAID[name]}" for name, number in fixed.items())
            needed = f"{words} and " * bool(words) + f"{fewest} more" * bool(free) or words
            raise ValueError(
                f"{tasks.name}: split {split!r} has {count} tasks, too few for {needed.removesuffix(' and ')}"
            )
        total = sum(free.values())
        if total > left:
            # All but the last are rounded down; the last gets the rest.
            for name in list(free)[:-1]:
                free[name] = max(_fewest(name, free[name]), left * free[name] // total)
            free[list(free)[-1]] = left - sum(list(free.values())[:-1])
        found |= fixed | free
    if whole and "training_tasks" not in stated:
        found["training_tasks"] = int(tasks.count(setup.train)) - found["clone_tasks"]
    return dataclasses.replace(config, **found)


_SAID = {
    "clone_tasks": "tasks to clone on", "training_tasks": "tasks to train on", "eval_tasks": "tasks to test on",
    "validation_tasks": "tasks to validate on",
}  # fmt: skip


def _fewest(name: str, number: int) -> int:
    return min(number, 1 if name in ("clone_tasks", "training_tasks") else _FEWEST)
