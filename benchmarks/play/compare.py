"""`compare`: comparisons of results on the same panel, paired over tasks.

    python -m benchmarks.run compare runs/panels/alfworld-valid_seen@1/one runs/panels/alfworld-valid_seen@1/other

Every pair has the mean difference with a percentile interval of the bootstrap over tasks, and the p value of the
permutation test that swaps the two results of a task, after Holm (1979).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from agentgym.panels import BESIDE_TASKS
from benchmarks.console import NONE, explained, option, save_figures, table
from benchmarks.json_files import ResultsError
from benchmarks.play.results import PanelResults, load, short_name
from benchmarks.statistics import Interval, holm, paired_bootstrap, tasks_needed


@dataclass(frozen=True)
class Comparison:
    """One result minus another; p values of the permutation test, as it is and corrected for all pairs.

    `needed` tasks would detect such a difference with 80 % power at 5 % (None: there is none); `least` is the smallest
    difference that this number of tasks would detect.
    """

    first: str
    second: str
    difference: Interval
    p: float
    holm: float
    needed: int | None
    least: float


def compare_results(
    results: Sequence[PanelResults], names: Sequence[str], measure: Literal["success", "score"] = "success"
) -> list[Comparison]:
    """Return a comparison for every pair of at least two results."""
    if len(results) < 2:
        raise ResultsError(f"expected at least two results to compare, got {len(results)}")
    for other, name in zip(results[1:], names[1:], strict=True):
        check_same(results[0], other, (names[0], name))
    means = [(one.success() if measure == "success" else one.scores()).mean(axis=1) for one in results]
    pairs = list(itertools.combinations(range(len(results)), 2))
    found = [paired_bootstrap(means[a], means[b]) for a, b in pairs]
    corrected = holm([p for _, p in found])
    return [
        Comparison(names[a], names[b], difference, p, after, *tasks_needed(means[a] - means[b]))
        for (a, b), (difference, p), after in zip(pairs, found, corrected, strict=True)
    ]


def check_same(one: PanelResults, other: PanelResults, names: tuple[str, str]) -> None:
    """Raise a ResultsError where two results are not of the same tasks under the same conditions."""
    first, second = one.panel, other.panel
    if first.hash != second.hash:
        what = ", ".join(
            f"{name} is of {each.name:.100} (hash {each.hash:.40})"
            for name, each in zip(names, (first, second), strict=True)
        )
        raise ResultsError(f"results of different panels cannot be compared: {what}; {_difference(one, other, names)}")
    if [task.digest for task in one.tasks] != [task.digest for task in other.tasks]:
        raise ResultsError(
            f"{names[0]} and {names[1]} have the hash {first.hash:.40}, but not the same tasks in the same order "
            f"({_difference(one, other, names)}): one of the files is damaged; play its panel again"
        )
    pairs = [(f"{key:.100} is", first.added.get(key), second.added.get(key)) for key in first.added | second.added]
    pairs += [
        (f"the files of {key} have the fingerprint", first.data.get(key, ""), second.data.get(key, ""))
        for key in BESIDE_TASKS
    ]
    for words, one_value, other_value in sorted(pairs, key=lambda pair: pair[0]):
        if one_value != other_value:
            raise ResultsError(
                f"{first.name:.100} was played under different conditions: {words} {one_value!r:.200} in {names[0]}, "
                f"{other_value!r:.200} in {names[1]}"
            )


def _difference(one: PanelResults, other: PanelResults, names: tuple[str, str]) -> str:
    if one.panel.env != other.panel.env:
        return f"the environments are {one.panel.env:.100} and {other.panel.env:.100}"
    for key in sorted(one.panel.options.keys() | other.panel.options.keys()):
        if one.panel.options.get(key) != other.panel.options.get(key):
            values = f"{one.panel.options.get(key)!r:.200} and {other.panel.options.get(key)!r:.200}"
            return f"first difference: {key:.100} is {values}"
    for (left, name), right in (((one, names[0]), other), ((other, names[1]), one)):
        digests = {task.digest for task in right.tasks}
        only = sorted(task.id for task in left.tasks if task.digest not in digests)
        if only:
            return f"{len(only)} tasks are only in {name}, the first: {only[0]!r:.200}"
    if len(one.tasks) != len(other.tasks):
        return f"tasks occur {len(one.tasks)} and {len(other.tasks)} times"
    if [task.digest for task in one.tasks] != [task.digest for task in other.tasks]:
        return "the same tasks are in another order"
    return "the tasks are the same: one of the hashes is wrong"


def compare(
    results: Annotated[list[Path], typer.Argument(help="Files results.json, or their folders; two or more.")],
    measure: Annotated[str, option("Measure: success or score.")] = "success",
    out: Annotated[Path | None, option("Also write the numbers to this JSON file.")] = None,
) -> None:
    """Compare results on the same panel, task by task: differences, intervals, p values, tasks needed."""
    if measure not in ("success", "score"):
        raise typer.BadParameter(f"expected success or score, got {measure!r}", param_hint="--measure")
    console = Console()
    with explained("stopped"):
        given = [load(path) for path in results]
        names = _names(given, results)
        found = compare_results(given, names, "success" if measure == "success" else "score")
    lines = [
        [f"{one.first} - {one.second}", f"{100 * one.difference.mean:+.1f}",
         f"{100 * one.difference.low:+.1f} to {100 * one.difference.high:+.1f}", _p(one.p), _p(one.holm),
         NONE if one.needed is None else f"{one.needed:,}", f"{100 * one.least:.1f}"]
        for one in found
    ]  # fmt: skip
    heads = [f"{measure}, points", "difference", "95 %", "p", f"p, Holm\n{len(found)} tests"]
    heads += ["tasks\nneeded", "least\nseen"]
    title = f"{given[0].panel.name}, hash {given[0].panel.hash}, {len(given[0].tasks)} tasks"
    caption = (
        "tasks needed: to detect such a difference in 80 of 100 studies; least seen: the smallest difference that "
        "these tasks detect that often"
    )
    console.print(table(heads, lines, title=title, caption=caption))
    save_figures(found, out)


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.001 else "< 0.001"


def _names(results: Sequence[PanelResults], paths: Sequence[Path]) -> list[str]:
    names = [short_name(one.policy.name) for one in results]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
