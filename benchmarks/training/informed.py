"""`head-to-head --privileged`: what the methods of privileged contexts gain over their wrong twins.

The clones have learned to follow what stands in front of their prompts. Every method is trained with the right context,
its wrong twin and the context of another task, all else equal; `section` compares them.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from baselines.runs.stack import CLONE
from benchmarks.console import NONE
from benchmarks.report.markdown import filled, markdown_table
from benchmarks.statistics import Interval, holm, paired_t, points
from benchmarks.training import evidence
from benchmarks.training.records import FINAL, Record, Trainings

#: What clones learn to read, in multiples of the expert's steps.
CONTEXTS = {"expert": 0.25, "sibling": 1.0}
CONTROLS = ("right", "wrong", "task")
METHODS = ("rlsd", "rlcsd", "sdpo")
#: Settings that an earlier head to head chose; the methods of contexts have GRPO's rate. Those that teach where
#: all lost keep such groups, the others have them replaced, as tuned GRPO does.
_RATE, _REPLACED = "learning_rate=0.0008", "rollout.resample_rounds=10"
GRPO = f"grpo {_RATE} {_REPLACED}"
REFERENCES = (GRPO, "graphgpo learning_rate=0.0016", f"oracle {_RATE}", f"turn_credit {_RATE}")


def named(method: str, context: str, control: str) -> str:
    """Return the recipe of a method with a context under a control."""
    return f"{method}:context={context}:control={control}"


def setting(method: str, context: str, control: str) -> str:
    """Return the label of a method with a context under a control."""
    replaced = "" if method == "sdpo" else f" {_REPLACED}"
    return f"{named(method, context, control)} {_RATE}{replaced}"


PAIRS = tuple((method, context) for context in CONTEXTS for method in METHODS)
ARMS = (*REFERENCES, *(setting(*pair, control) for pair in PAIRS for control in CONTROLS))
_CAPTION = (
    "Area: mean success of sampled play on the validation tasks over the tokens of a run, percent. Differences in "
    "percentage points with 95 % intervals of a paired t test over seeds. Verdict: of right against wrong, by the "
    "area; p adjusted after Holm for all methods and contexts, settled where it is below 0.01 with at least 4 seeds, "
    "indicated below 0.05, else open. Teacher: replies that the informed policy read, for each reply of the run. "
    "Entropy: nats per token, in the first and in the last fifth of a run."
)


def _runs(study: Trainings, recipe: str) -> dict[int, Record]:
    """Return the final runs of a recipe by seed; a study has one learning rate for each."""
    finals = (record for record in study.records if record.stage == FINAL)
    return {record.seed: record for record in finals if record.setting and record.setting.recipe == recipe}


def _areas(study: Trainings, recipe: str) -> dict[int, float]:
    return {seed: evidence.area(run, study.config.token_budget) for seed, run in _runs(study, recipe).items()}


def difference(study: Trainings, one: str, other: str) -> tuple[Interval, float] | None:
    """Return the area of one recipe less that of another, paired over the seeds of both, and p; None: too few."""
    first, second = _areas(study, one), _areas(study, other)
    both = [first[seed] - second[seed] for seed in first if seed in second]
    return paired_t(both) if len(both) > 1 else None


def verdicts(study: Trainings) -> dict[tuple[str, str], str]:
    """Return by method and context whether the right context is better than its wrong twin, or worse."""
    found = {pair: difference(study, named(*pair, "right"), named(*pair, "wrong")) for pair in PAIRS}
    tests = {pair: test for pair, test in found.items() if test is not None}
    said = {}
    for (pair, _), p in zip(tests.items(), holm([test[1] for test in tests.values()]), strict=True):
        enough = len(_runs(study, named(*pair, "right"))) >= evidence.LOOKS[0]
        settled, indicated = (enough and p < level for level in (evidence.LEVEL / len(evidence.LOOKS), evidence.LEVEL))
        said[pair] = evidence.SETTLED if settled else evidence.INDICATED if indicated else evidence.OPEN
    return said


def _percent(values: Sequence[float]) -> str:
    return f"{100 * float(np.mean(values)):.1f}" if len(values) else NONE


def _less(study: Trainings, one: str, other: str) -> str:
    found = difference(study, one, other)
    return NONE if found is None else points(found[0])


def _entropy(runs: Mapping[int, Record]) -> str:
    """Mean entropy in the first and in the last fifth of the runs."""
    known = [run.course["entropy"] for run in runs.values() if run.course.get("entropy")]
    return " to ".join(f"{np.mean([values[at] for values in known]):.2f}" for at in (0, -1)) if known else NONE


def _rates(study: Trainings) -> str:
    """Say the learning rate of most recipes, and those of the others."""
    rates = {
        record.setting.recipe: record.setting.training["learning_rate"] for record in study.records if record.setting
    }
    common = statistics.mode(rates.values())
    others = [f"{name}'s {rate:g}" for name, rate in rates.items() if rate != common]
    return ", ".join([f"the learning rate is {common:g}", *others])


def section(study: Trainings, caption: bool = True) -> str:
    """Return the part of a page about one study: the methods, how entropy and episodes went, and what columns mean."""
    said, budget, lines = verdicts(study), study.config.token_budget, []
    references = [label.split(" ")[0] for label in REFERENCES]
    for name in references:
        if runs := _runs(study, name):
            ends = [evidence.end(run) for run in runs.values()]
            less = NONE if name == "grpo" else _less(study, name, "grpo")
            area = _percent(list(_areas(study, name).values()))
            lines.append([name, NONE, str(len(runs)), area, _percent(ends), less, *[NONE] * 4, _entropy(runs)])
    for pair in PAIRS:
        labels = [named(*pair, control) for control in CONTROLS]
        if not (runs := _runs(study, labels[0])):
            continue
        areas, ends = list(_areas(study, labels[0]).values()), [evidence.end(run) for run in runs.values()]
        read = np.mean([run.teacher_replies / max(run.tokens, 1) for run in runs.values()])
        lines.append([
            *pair, str(len(runs)), _percent(areas), _percent(ends), _less(study, labels[0], "grpo"),
            *(_less(study, labels[0], other) for other in labels[1:]), said.get(pair, NONE), f"{read:.1f}",
            f"{_entropy(runs)} (wrong: {_entropy(_runs(study, labels[1]))})",
        ])  # fmt: skip
    clones = [evidence.end(record) for record in study.of(CLONE, CLONE)]
    heads = (
        "method", "context", "seeds", "area", "at the end", "area - grpo", "right - wrong", "right - another task's",
        "verdict", "teacher", "entropy",
    )  # fmt: skip
    told = (
        f"{budget:,} reply tokens a run; before training the clones win {_percent(clones)} % of the test tasks. "
        f"Nothing was searched: {_rates(study)}; groups without contrast are replaced for GRPO, RLSD and RLCSD."
    )
    return "\n\n".join([filled(told), markdown_table(heads, lines), *([filled(_CAPTION)] * caption)]) + "\n"
