"""`head-to-head --privileged`: what the methods of privileged contexts gain over their wrong twins.

The clones have learned to use a context before their prompts. Every method is trained with the right context, its wrong
twin and the context of another task, all else equal; `page` compares them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import numpy as np

from agentgym.outside.text import tables_beside
from benchmarks.console import NONE
from benchmarks.options import REFERENCE
from benchmarks.report.page import Page, Table
from benchmarks.statistics import Interval, holm, paired_t, points
from benchmarks.training import evidence
from benchmarks.training.records import Record, Setting, Trainings

#: What clones learn to read, in multiples of the expert's steps.
CONTEXTS = {"expert": 0.25, "sibling": 1.0}
CONTROLS = ("right", "wrong", "task")
_ARMS = tables_beside(__file__, "informed.toml")
#: Settings of the methods of contexts, by name, and of the others.
METHODS: dict[str, str] = _ARMS["contexts"]
REFERENCES = tuple(f"{method} {settings}" for method, settings in _ARMS["references"].items())


def named(method: str, context: str, control: str) -> str:
    """Return the recipe of a method with a context under a control."""
    return f"{method}:context={context}:control={control}"


def setting(method: str, context: str, control: str) -> str:
    """Return the label of a method with a context under a control, as it is trained without one given."""
    return f"{named(method, context, control)} {METHODS[method]}"


PAIRS = tuple((method, context) for context in CONTEXTS for method in METHODS)
ARMS = (*REFERENCES, *(setting(*pair, control) for pair in PAIRS for control in CONTROLS))


def labels(methods: str | None) -> list[str]:
    """Return the labels of settings that are separated by commas; None: all of this study."""
    return [Setting.stated(label.strip()).label for label in methods.split(",")] if methods else list(ARMS)


_CAPTION = (
    "Area: mean success of sampled play on the validation tasks over the tokens of a run, percent; at the end: on the "
    "test tasks. Differences in percentage points with 95 % intervals of a paired t test over seeds. Verdict: of right "
    "against wrong, by the area; p adjusted after Holm for all methods and contexts, settled where it is below 0.01 "
    "with at least 4 seeds, indicated below 0.05, else open. Teacher: replies that the informed policy scored, per "
    "reply of the run. Entropy: nats per token, in the first and in the last fifth of a run."
)


def by_recipe(study: Trainings) -> dict[str, list[Record]]:
    """Return the final runs by recipe and seed; a study trains each recipe with one setting."""
    return {setting.partition(" ")[0]: runs for setting, runs in study.finals.items()}


def difference(study: Trainings, one: str, other: str, measure: str = "area") -> tuple[Interval, float] | None:
    """Return the area of one recipe minus that of another, paired over the seeds of both, and p; None: too few seeds.

    `measure` "end" compares success on the test tasks instead.
    """
    first, second = (by_recipe(study).get(recipe, []) for recipe in (one, other))
    both = evidence.paired(first, second, evidence.measures(study)[measure])
    return paired_t(both) if one != other and len(both) > 1 else None


def verdicts(study: Trainings) -> dict[tuple[str, str], str]:
    """Return by method and context whether the right context is better than its wrong twin, or worse."""
    found = {pair: difference(study, named(*pair, "right"), named(*pair, "wrong")) for pair in PAIRS}
    tests = {pair: test for pair, test in found.items() if test is not None}
    adjusted = holm([test[1] for test in tests.values()])
    return {
        pair: evidence.verdict(p, len(by_recipe(study)[named(*pair, "right")]))
        for pair, p in zip(tests, adjusted, strict=True)
    }


def _percent(values: Iterable[float]) -> str:
    known = list(values)
    return f"{100 * float(np.mean(known)):.1f}" if known else NONE


def _entropy(records: Iterable[Record]) -> str:
    """Mean entropy in the first and in the last fifth of the runs."""
    known = [record.course["entropy"] for record in records if record.course.get("entropy")]
    return " to ".join(f"{np.mean([values[at] for values in known]):.2f}" for at in (0, -1)) if known else NONE


def _rates(study: Trainings) -> str:
    """Return the learning rate of most recipes and those of the others, in words."""
    settings = [record.setting for record in study.records if record.setting]
    rates = {setting.recipe: setting.training["learning_rate"] for setting in settings}
    common = statistics.mode(rates.values())
    others = [f"{recipe}'s {rate:g}" for recipe, rate in rates.items() if rate != common]
    return ", ".join([f"the learning rate is {common:g}", *others])


def page(study: Trainings) -> Page:
    """Return a row for each method and context, the course of entropy and episodes, and explanations of the columns."""
    runs, said, area, lines = by_recipe(study), verdicts(study), evidence.measures(study)["area"], []
    for method, context in [*((label.split(" ")[0], NONE) for label in REFERENCES), *PAIRS]:
        twins = [named(method, context, control) for control in CONTROLS] if context != NONE else [method, "", ""]
        recipe, wrong, other = twins
        if records := runs.get(recipe):
            less = [
                difference(study, recipe, *pair)
                for pair in ((REFERENCE, "end"), (REFERENCE, "area"), (wrong, "area"), (other, "area"))
            ]
            read = np.mean([record.teacher_replies / max(record.tokens, 1) for record in records])
            lines.append([
                method, context, str(len(records)), _percent(map(area, records)), _percent(map(evidence.end, records)),
                *(points(test and test[0]) for test in less), said.get((method, context), NONE),
                f"{read:.1f}" if wrong else NONE,
                _entropy(records) + (f" (wrong: {_entropy(runs.get(wrong, []))})" if wrong else ""),
            ])  # fmt: skip
    heads = (
        "method", "context", "seeds", "area", "at the end", f"end - {REFERENCE}", f"area - {REFERENCE}",
        "right - wrong", "right - another task's", "verdict", "teacher", "entropy",
    )  # fmt: skip
    replaced = [name.upper() for arms in _ARMS.values() for name in arms if "resample_rounds" in arms[name]]
    lead = (
        f"{study.config.token_budget:,} reply tokens a run; before training the clones win "
        f"{_percent(map(evidence.end, study.clones))} % of the test tasks. No search: {_rates(study)}; "
        f"groups without contrast are replaced for {', '.join(replaced[:-1])} and {replaced[-1]}."
    )
    return Page(study.config.name, lead, [Table("privileged contexts", heads, lines, _CAPTION)])
