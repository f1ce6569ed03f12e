"""What a method declares besides its function, as plain data, and where it is found.

Every file of this folder may hold `METHODS`, a tuple of `Method`. Recipes, search spaces, colours and the measured
credits are made of them: a new method is a new file, and no list elsewhere names it.

    METHODS = (Method("rloo", rloo, "An episode's return against the others' mean.", PENALTY, colour="#CC79A7"),)

`wrappers` imports no learner: a function of `baselines` is named "module:function", a scorer by its module's name.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agentgym.trajectory import Bools, Floats, StepTable

#: Parts of a credit that are measured, in the order of tables.
EPISODE, STEP, FITTED, TOTAL, ENTROPY = PARTS = ("episode", "step", "fitted", "total", "entropy")
#: The papers' runs all take 0.1 off for an invalid action. Taken off the advantage it is also felt where the whole
#: group fails, which is where a policy that runs into walls needs it; taken off the return it would cancel there.
PENALTY: Mapping[str, Any] = {"invalid_penalty": 0.1, "penalty": "advantage"}
#: Reasons why nothing is measured of a method, after its name.
ASKS_POLICY = "ask the policy again, with the answer or the end of the episode shown to it"
NEEDS_MODEL = "with a network: need a model that is trained beside the policy"


@dataclass(frozen=True)
class Credit:
    """A way to give numbers to steps that needs a table alone: its ranking of actions is measured.

    Attributes:
        method: name of the credit method.
        part: "episode" (a method without states), "step" (the step level alone), "fitted" (to the outcomes of the
            group), "total", "entropy" (needs the replies' log-probabilities), or a word of the study's own.
        variant: preset and options; "" for the paper's.
        give: float64 (N,) of a table.
        recent: whether it is of 2026.
        colour: of a method that has no `Method`.
    """

    method: str
    part: str
    variant: str
    give: Callable[[StepTable], Floats]
    recent: bool = False
    colour: str = ""

    @property
    def name(self) -> str:
        """Unique among the credits of a study.

        >>> Credit("gigpo", "step", "authors", len).name
        'gigpo step, authors'
        """
        words = f"{self.method} {self.part}" if self.part in (STEP, TOTAL) else self.method
        return f"{words}, {self.variant}" if self.variant else words


def steps_of(method: str, give: Callable[..., Floats]) -> tuple[Credit, ...]:
    """Return the step level of a method as it is measured: the paper's, the authors', and this unpenalised.

    Published code takes 0.1 off a refused action whatever the states say; without it the rest of the code shows.

    Args:
        method: name.
        give: its step level, with presets "paper" and "authors".
    """
    return (
        Credit(method, STEP, "", give),
        Credit(method, STEP, "authors", functools.partial(give, preset="authors")),
        Credit(method, STEP, "authors unpenalised", functools.partial(give, preset="authors", invalid_penalty=0.0)),
    )


@dataclass(frozen=True)
class Method:
    """A method to train by, with all that belongs to it.

    Attributes:
        name: of its recipe, `baselines.recipes.RECIPES[name]`.
        function: `credit(table, **options) -> float64 (N,)`, or "module:function".
        notes: one sentence for tables and reports.
        options: of the function; the preset is "paper" where they name none.
        training: settings of `baselines.config.TrainerConfig` by name, such as "loss.kl", that belong to the method.
        scored: what it wants scores of, "turn" (N,) or "token" (N, K); None: it needs the table alone.
        argument: keyword of the function that takes the scores; "": `credit(table, scores, **options) ->
            baselines.scorers.scorer.Estimate`, scores None where there are none.
        silent: score where there are none.
        figures: what the scores are worth, for the log, from the table, the scores and all options.
        scorer: module of `baselines.scorers`, "critic"; "": the trainer must be given one.
        settings: of the scorer's configuration.
        scorers: modules of `baselines.scorers` by values of the option `scores`, "": the trainer must be given one.
        keeps: bool (n_groups,), the groups that dynamic sampling keeps, from the table and all options; None: those
            won sometimes.
        space: values that a search tries, by option or field of `TrainerConfig`.
        contender: as what it takes part in the head to head unless others are asked for, "vine" or "vine:k=2"; "":
            it does not.
        colour: in pictures, "#E69F00"; "": one of the spare colours.
        credits: what is measured of it.
        unmeasured: why nothing is measured of it, as the end of a sentence.
    """

    name: str
    function: Callable[..., Any] | str
    notes: str
    options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    scored: Literal["turn", "token"] | None = None
    argument: str = ""
    silent: float = 0.0
    figures: Callable[[StepTable, Floats, Mapping[str, Any]], Mapping[str, float]] | None = None
    scorer: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    scorers: Mapping[str, str] = field(default_factory=dict)
    keeps: Callable[[StepTable, Mapping[str, Any]], Bools] | None = None
    space: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    contender: str = ""
    colour: str = ""
    credits: tuple[Credit, ...] = ()
    unmeasured: str = ""


def methods() -> dict[str, Method]:
    """Return every method by its name, from `METHODS` of all files of this folder, in the order of their names.

    Raises:
        ValueError: two files declare the same name.
    """
    package = importlib.import_module("wrappers.credit")
    found: dict[str, Method] = {}
    for module in sorted(each.name for each in pkgutil.iter_modules(package.__path__) if not each.ispkg):
        for method in vars(importlib.import_module(f"wrappers.credit.{module}")).get("METHODS", ()):
            if method.name in found:
                raise ValueError(f"the method {method.name!r} is declared twice, the second time in {module}.py")
            found[method.name] = method
    return found


def credits() -> tuple[Credit, ...]:
    """Return all credits that are measured, part by part, in the order of the methods' files.

    Raises:
        ValueError: as `methods`, or two credits have the same name.
    """
    found = [credit for method in methods().values() for credit in method.credits]
    names = [credit.name for credit in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"credits need distinct names; more than one is called {', '.join(sorted(twice))}")
    return tuple(sorted(found, key=lambda credit: PARTS.index(credit.part)))


def colours() -> dict[str, str]:
    """Return the colours of methods, by name."""
    known = methods()
    beside = {credit.method: credit.colour for method in known.values() for credit in method.credits if credit.colour}
    return beside | {name: method.colour for name, method in known.items() if method.colour}
