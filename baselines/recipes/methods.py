"""Every way to train a clone on, by its name: credit recipes for the trainer, and methods of imitation in rounds."""

import dataclasses
from typing import Any, get_type_hints

from baselines.imitation.ipr import IPR
from baselines.imitation.method import Imitation
from baselines.imitation.preferring import DPO, ETO
from baselines.imitation.spear import SPEAR
from baselines.imitation.step_agent import StepAgent
from baselines.imitation.supervised import RFT, SFT
from baselines.recipes.definition import Recipe
from baselines.recipes.rows import recipe
from wrappers.credit.options import read_word

_ALL: tuple[Imitation, ...] = (
    SFT(), RFT(), RFT(name="hindsight", hindsight=True), DPO(), ETO(), IPR(), StepAgent(), SPEAR()
)  # fmt: skip

IMITATION: dict[str, Imitation] = {method.name: method for method in _ALL}


def method(name: str) -> Recipe | Imitation:
    """Return a credit recipe or a method of imitation by its name, with options where some follow.

    Args:
        name: "rft", "rft:samples=4:temperature=1", one of `IMITATION` with fields of its class; or what
            `baselines.recipes.recipe` takes.

    Raises:
        ValueError: there is none of this name, or an option is no option of it or cannot have this value.

    >>> method("hindsight").hindsight, method("eto:rounds=2").rounds, method("gagpo").name
    (True, 2, 'gagpo')
    """
    first, *words = name.split(":")
    if first not in IMITATION:
        return recipe(name)
    found = IMITATION[first]
    kinds = get_type_hints(type(found))
    options: dict[str, Any] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if not equals or option in options or option == "name":
            raise ValueError(f"{name!r}: expected {first}:option=value, each option once, got {word!r}")
        options[option] = read_word(value, kinds.get(option, str))
    full = ":".join([first, *(f"{key}={value}" for key, value in options.items())])
    try:
        return dataclasses.replace(found, **options, name=full)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name!r}: {error}") from None
