"""Declarations of credit methods as plain data, and their discovery.

A file of this folder may define `METHOD`, a `Method`, or `METHODS`, several; recipes, search spaces, colours and
measured credits are derived from it:

    METHOD = Method(NAME, "An episode's return against the mean of the group's other episodes.", colour="#CC79A7")

`wrappers` does not import `baselines`: its functions are named "module:function", its scorers by module name.
"""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agentgym.trajectory import Bools, Floats, StepTable

#: Parts of a credit that are measured, in the order of tables.
EPISODE, STEP, FITTED, TOTAL, ENTROPY = PARTS = ("episode", "step", "fitted", "total", "entropy")
#: The papers subtract 0.1 for an invalid action. Subtracted from the advantage it also acts in groups that fail
#: throughout, where subtracted from the return it would cancel.
PENALTY: Mapping[str, Any] = {"invalid_penalty": 0.1, "penalty": "advantage"}
#: Reasons why nothing is measured of a method, after its name.
ASKS_POLICY = "query the policy again, with the answer or the end of the episode in its prompt"
NEEDS_MODEL = "with a network: need a model that is trained together with the policy"


@dataclass(frozen=True)
class Credit:
    """A step credit computed only from a table, whose ranking of actions is measured.

    Attributes:
        part: "episode" (no states), "step" (step level alone), "fitted" (to the group's outcomes), "total", "entropy"
            (needs log-probabilities), or a word of the study.
        variant: preset and options; "" for the paper's.
        give: table -> float64 (N,).
        recent: published in 2026.
    """

    method: str
    part: str
    variant: str
    give: Callable[[StepTable], Floats]
    recent: bool = False
    colour: str = ""

    @property
    def name(self) -> str:
        """Unique name in a study.

        >>> Credit("mine", "step", "authors", len).name
        'mine step, authors'
        """
        words = f"{self.method} {self.part}" if self.part in (STEP, TOTAL) else self.method
        return f"{words}, {self.variant}" if self.variant else words


def steps_of(method: str, give: Callable[..., Floats]) -> tuple[Credit, ...]:
    """Return the measured variants of a step level: "paper", "authors", and "authors" without the penalty.

    The authors' code subtracts 0.1 for a refused action in any state; without the penalty the effect of the rest is
    visible.
    """
    return (
        Credit(method, STEP, "", give),
        Credit(method, STEP, "authors", functools.partial(give, preset="authors")),
        Credit(method, STEP, "authors unpenalised", functools.partial(give, preset="authors", invalid_penalty=0.0)),
    )


@dataclass(frozen=True)
class Method:
    """A method to train with, and everything that belongs to it.

    Attributes:
        function: `credit(table, **options) -> float64 (N,)`, or "module:function".
        notes: one sentence for tables and reports.
        name: of its recipe, `baselines.recipes.RECIPES[name]`; "": the function's.
        options: of the function; the preset is "paper" by default.
        training: settings of `baselines.config.TrainerConfig` by name, such as "loss.kl".
        scored: level of the scores that it needs, "turn" (N,) or "token" (N, K); None: it needs no scores.
        argument: keyword of the function for the scores; "": `credit(table, scores, **options) ->
            baselines.scorers.scorer.Estimate`, scores None without any.
        figures: (table, scores, all options) -> measures of the scores for the log.
        targets: (table, all options) -> float (N,), what a scorer that learns is to give; None: it knows by itself.
        scorer: module of `baselines.scorers`, "critic"; "": given to the trainer.
        scorers: such a module and settings by value of the option `scores`; none: given to the trainer.
        keeps: (table, all options) -> bool (n_groups,), groups kept by dynamic sampling; None: groups with wins and
            losses.
        space: values tried by a search, by option or field of `TrainerConfig`.
        contender: entry in the head to head by default, "NAME" or "NAME:k=2"; "": none.
        colour: in figures, "#E69F00"; "": a spare colour.
        key: what the paper's states consist of, and their key, see `wrappers.canonical`.
        ours: from this project, not from a paper.
        unmeasured: reason why nothing is measured, as the end of a sentence.
    """

    function: Callable[..., Any] | str
    notes: str
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=lambda: PENALTY)
    training: Mapping[str, Any] = field(default_factory=dict)
    scored: Literal["turn", "token"] | None = None
    argument: str = ""
    silent: float = 0.0
    figures: Callable[[StepTable, Floats, Mapping[str, Any]], Mapping[str, float]] | None = None
    targets: Callable[[StepTable, Mapping[str, Any]], Floats] | None = None
    scorer: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    scorers: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    keeps: Callable[[StepTable, Mapping[str, Any]], Bools] | None = None
    space: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    contender: str = ""
    colour: str = ""
    credits: tuple[Credit, ...] = ()
    key: tuple[str, Callable[[Any, dict[str, Any]], str]] | None = None
    ours: bool = False
    unmeasured: str = ""

    def __post_init__(self) -> None:
        named = self.function.rpartition(":")[2] if isinstance(self.function, str) else self.function.__name__
        object.__setattr__(self, "name", self.name or named)

    @property
    def credit(self) -> Callable[..., Any]:
        """The function itself, imported where it is named."""
        if not isinstance(self.function, str):
            return self.function
        module, _, name = self.function.partition(":")
        found: Callable[..., Any] = vars(importlib.import_module(module))[name]
        return found


def methods() -> dict[str, Method]:
    """Return every method by its name, as declared by the files of this folder, in their order.

    Raises:
        ValueError: two files declare the same name.
    """
    package = importlib.import_module("wrappers.credit")
    found: dict[str, Method] = {}
    for module in sorted(each.name for each in pkgutil.iter_modules(package.__path__) if not each.ispkg):
        there = vars(importlib.import_module(f"wrappers.credit.{module}"))
        for method in there.get("METHODS", [there["METHOD"]] if "METHOD" in there else ()):
            if method.name in found:
                raise ValueError(f"the method {method.name!r} is declared twice, the second time in {module}.py")
            found[method.name] = method
    return found


def credits() -> tuple[Credit, ...]:
    """Return all measured credits, ordered by part, then by file; those whose part is a study's are in that alone.

    Raises:
        ValueError: as `methods`, or two credits have the same name.
    """
    found = [credit for method in methods().values() for credit in method.credits if credit.part in PARTS]
    names = [credit.name for credit in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"credits need distinct names; more than one is called {', '.join(sorted(twice))}")
    return tuple(sorted(found, key=lambda credit: PARTS.index(credit.part)))


def colours() -> dict[str, str]:
    """Return the colours of methods, by name."""
    known = methods()
    beside = {credit.method: credit.colour for method in known.values() for credit in method.credits if credit.colour}
    return beside | {name: method.colour for name, method in known.items() if method.colour}
