"""The recipes there are, by name."""

import dataclasses
import importlib
from typing import Any, get_type_hints

from agentgym.checks import suggest
from baselines.config import NAMES, by_name
from baselines.environments.registry import SETTINGS
from baselines.environments.settings import OwnRow
from baselines.recipes.definition import Recipe
from baselines.scorers.scorer import ScorerConfig
from wrappers.credit.method import Method, methods
from wrappers.credit.options import all_options, read_options, read_word


def _made(method: Method) -> Recipe:
    scorer = scorer_config(method.scorer, **method.settings) if method.scorer else None
    options = {"preset": "paper", **method.options}
    return Recipe(
        method.name, method.credit, options, method.notes, method.training, method.scored, scorer,
        argument=method.argument, silent=method.silent, figures=method.figures, targets=method.targets,
        keeps=method.keeps,
        scorers={word: scorer_config(name, **given) for word, (name, given) in method.scorers.items()},
    )  # fmt: skip


def scorer_config(name: str, **settings: Any) -> ScorerConfig:
    """Return the settings of the scorer that a file of `baselines.scorers` is named for."""
    config = "".join(word.capitalize() for word in name.split("_")) + "Config"
    return vars(importlib.import_module(f"baselines.scorers.{name}"))[config](**settings)


#: Methods for any environment.
RECIPES: dict[str, Recipe] = {name: _made(method) for name, method in methods().items()}


def _own(row: OwnRow) -> Recipe:
    # Search-R1 and its successors have no penalty for an invalid action.
    plain = {"preset": "paper", "invalid_penalty": 0.0, **row.options}
    found = RECIPES[row.of]
    return dataclasses.replace(found, name=row.name, notes=row.notes, options=plain, training={}, own_env=row.own_env)


#: Recipes that belong to one environment, such as those of learning to search.
SEARCH_ROWS: dict[str, Recipe] = {row.name: _own(row) for env in SETTINGS for row in env.rows}


def recipe(name: str) -> Recipe:
    """Return a recipe by its name, with options where some follow, or one of a function of one's own.

    Args:
        name: of `RECIPES` or `SEARCH_ROWS`, options of the method behind it, "milegpo:gamma=.9:std=none", as in
            `wrappers.credit.options.read_options`, numbers of `TrainerConfig`, ":resample_rounds=10", or settings of
            the method's scorer, ":context=sibling";
            "my_module:credit" or "my_module:credit:k=2", a function `credit(table, **options) -> float64 (N,)` or a
            `Recipe` of a module that can be imported. The recipe's name then is this text, values written out.

    Raises:
        ValueError: there is none of this name, or an option is no option of it or cannot have this value.

    >>> recipe("milegpo").options["gamma"], recipe("milegpo:gamma=.9").options["gamma"]
    (0.8, 0.9)
    >>> recipe("milegpo:gamma=.9:std=none").name
    'milegpo:gamma=0.9:std=none'
    """
    first, *words = name.split(":")
    named = RECIPES | SEARCH_ROWS
    if first in named:
        found = named[first]
    elif words and "=" not in words[0]:
        found = _imported(first, words.pop(0))
    else:
        raise ValueError(f"unknown method {first!r}; {suggest(first, named)}, or a function of your own: module:name")
    given: dict[str, str] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if not equals or option in given:
            raise ValueError(f"{name!r}: expected {found.name}:option=value, each option once, got {word!r}")
        given[option] = value
    training: dict[str, Any] = {}
    for option in [option for option in given if by_name({option: 0}).keys() <= set(NAMES)]:
        training |= _number(name, option, given.pop(option))
    own = all_options(found.credit, found.options)
    kinds = get_type_hints(type(found.scorer)) if found.scorer else {}
    scoring = {key: read_word(given.pop(key), kinds[key]) for key in list(given) if key in kinds and key not in own}
    try:
        options = read_options(found.credit, given)
        scorer = found.scorers.get(options["scores"]) if found.scorers and "scores" in options else found.scorer
        scorer = dataclasses.replace(scorer, **scoring) if scorer and scoring else scorer
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name!r}: {error}") from None
    written = {key: "+".join(value) if isinstance(value, tuple) else value for key, value in options.items()}
    words = [f"{key}={value}" for key, value in written.items()]
    short = {key: key.rpartition(".")[2] for key in training if not key.startswith("distillation.")}
    words += [f"{short.get(key, key)}={value}" for key, value in training.items()]
    words += [f"{key}={value}" for key, value in scoring.items()]
    if not words:
        return found
    full, settings = ":".join([found.name, *words]), {**found.training, **training}
    return dataclasses.replace(found.with_options(**options), name=full, training=settings, scorer=scorer)


def _number(name: str, setting: str, value: str) -> dict[str, float | int]:
    if value.lower() in ("true", "false"):
        return by_name({setting: value.lower() == "true"})
    try:
        return by_name({setting: int(value) if value.isdigit() else float(value)})
    except ValueError:
        raise ValueError(f"{name!r}: {setting} must be a number, got {value!r}") from None


def _imported(module: str, name: str) -> Recipe:
    try:
        there = vars(importlib.import_module(module))
    except ImportError as error:
        known = suggest(module, RECIPES | SEARCH_ROWS)
        raise ValueError(
            f"unknown method {module!r}; {known}, and no module of this name can be imported "
            f"({error}): is it in the current folder or installed?"
        ) from error
    if not callable(there.get(name)):
        functions = [key for key, value in there.items() if callable(value) and not key.startswith("_")]
        raise ValueError(f"module {module!r} has no function {name!r}; {suggest(name, functions)}")
    found = there[name]
    full = f"{module}:{name}"
    return dataclasses.replace(found, name=full) if isinstance(found, Recipe) else Recipe(full, found)
