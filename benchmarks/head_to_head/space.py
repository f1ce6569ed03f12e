"""What is searched for each method, and which settings of it are tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.checks import suggest
from baselines.config import NAMES, by_name
from baselines.recipes import recipe
from baselines.recipes.definition import Recipe
from wrappers.credit.method import methods

#: The learning rate of every method is searched, in multiples of the environment's own.
RATES = (0.5, 1.0, 2.0)
#: Options of credit and settings of `TrainerConfig` that are searched besides it, by recipe; none for any other.
SPACE: Mapping[str, Mapping[str, Sequence[Any]]] = {
    name: method.space for name, method in methods().items() if method.space
}
#: Draws until settings are distinct; where the space is hardly larger than their number, few draws are.
_DRAWS = 1000


@dataclass(frozen=True)
class Setting:
    """One point of a search space: a recipe's name with its options, and fields of `TrainerConfig`."""

    recipe: str
    training: dict[str, float | int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "training", by_name(self.training))  # results of version 0.2 have flat names

    @property
    def label(self) -> str:
        """Both in one line."""
        return " ".join([self.recipe, *(f"{name}={value:g}" for name, value in self.training.items())])

    def made(self) -> Recipe:
        """Return the recipe."""
        return recipe(self.recipe).anywhere()

    @classmethod
    def stated(cls, label: str) -> Setting:
        """Return the setting of a label.

        Raises:
            ValueError: there is no such recipe, option or field of `TrainerConfig`, or a value that is no number.

        >>> Setting.stated("grpo:std=none group_size=4 loss.clip_high=0.28")
        Setting(recipe='grpo:std=none', training={'group_size': 4, 'loss.clip_high': 0.28})
        """
        name, *words = label.split(" ")
        training: dict[str, float | int] = {}
        for word in words:
            field, _, value = word.partition("=")
            try:
                training[field] = int(value) if value.isdigit() else float(value)
            except ValueError:
                raise ValueError(f"{label!r}: expected name=number behind the recipe, got {word!r}") from None
            if not by_name({field: 0}).keys() <= set(NAMES):
                raise ValueError(f"{label!r}: {field!r} is no number of TrainerConfig; {suggest(field, NAMES)}")
        return cls(recipe(name).name, training)


def space_of(method: str) -> dict[str, Sequence[Any]]:
    """Return what is searched for a method besides the learning rate, without what its name says already.

    >>> space_of("gigpo:gamma=0.9")
    {}
    >>> space_of("grpo:std=none")
    {'loss.clip_high': (0.2, 0.28), 'rollout.resample_rounds': (0, 10)}
    """
    name, *given = method.split(":")
    taken = {word.partition("=")[0] for word in given}
    return {option: values for option, values in SPACE.get(name, {}).items() if option not in taken}


def draw(method: str, count: int, rate: float, seed: int) -> list[Setting]:
    """Draw distinct settings of a method so that every value of an option occurs as often as any other, or once more.

    This is Latin hypercube sampling (McKay, Beckman, Conover 1979) of a finite space: values of an option come in
    random order, all of them before one of them again.

    Args:
        method: a recipe's name, options that are not to be searched with it.
        count: how many.
        rate: learning rate that `RATES` are multiples of.
        seed: of the draw; methods with the same name and options draw alike.

    Raises:
        ValueError: the space has fewer settings; the message says how many.

    >>> [setting.training["learning_rate"] for setting in draw("rloo", 3, 0.5, 0)]
    [0.25, 0.5, 1.0]
    """
    dimensions = {"learning_rate": [rate * factor for factor in RATES], **space_of(method)}
    size = math.prod(map(len, dimensions.values()))
    if count > size:
        raise ValueError(f"{method}: {count} settings were asked for, and there are only {size}")
    generator = np.random.default_rng([seed, *method.encode()])
    for _ in range(_DRAWS):
        columns = {name: _column(values, count, generator) for name, values in dimensions.items()}
        found = [_setting(method, {name: column[i] for name, column in columns.items()}) for i in range(count)]
        if len({setting.label for setting in found}) == count:
            return sorted(found, key=lambda setting: (setting.training["learning_rate"], setting.label))
    raise ValueError(f"{method}: {count} distinct settings were not found among {size}; ask for fewer")


def _column(values: Sequence[Any], count: int, generator: np.random.Generator) -> list[Any]:
    rounds = -(-count // len(values))
    return [values[i] for _ in range(rounds) for i in generator.permutation(len(values))][:count]


def _setting(method: str, values: Mapping[str, Any]) -> Setting:
    options = "".join(f":{name}={value}" for name, value in values.items() if name not in NAMES)
    return Setting(recipe(method + options).name, {name: values[name] for name in values if name in NAMES})
