"""Warnings about training that makes no progress or has collapsed, each given once, with a remedy.

    warning_no_success     no episode succeeded in `PATIENCE` iterations in a row, or in the whole run
    warning_no_better      at the end: fewer than `THERE` of the last iterations' episodes succeeded; or, after at least
                           `PATIENCE` iterations, fewer than `SOLVED`, and no more than in the first iterations
    warning_refused        more than `REFUSED` of the actions were refused in each of `REFUSED_FOR` iterations, and the
                           share has not fallen from the first of them to the last
    warning_no_contrast    in `SILENT_FOR` iterations in a row, or in the whole run, all episodes of each group had the
                           same outcome, and fewer than `SOLVED` succeeded: there is nothing to compare
    warning_little_signal  fewer than `LITTLE` of the steps had an advantage other than 0
    warning_collapse       success had been at least `THERE`, and in `FALLEN_FOR` iterations in a row no episode
                           succeeded and no group had contrast
    warning_entropy        two iterations in a row, the entropy was below `ENTROPY` of its value at the start, while
                           fewer than `SOLVED` of the episodes succeeded

These are keys of the log's rows, with the value 1. The texts are not stored; they are computed from the rows.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from baselines.records.checkpoint import best_policies, checkpoints
from baselines.records.metrics import Row

PATIENCE = 10
REFUSED, REFUSED_FOR = 0.5, 3
SILENT_FOR = 5
LITTLE = 0.05
THERE, FALLEN_FOR = 0.1, 3
ENTROPY = 0.1
SOLVED = 0.9

_EASIER = "give it easier tasks, or a warm start (baselines.imitation.cloning.clone)"
_CALMER = "to prevent this, use a smaller learning_rate or a KL penalty (loss.kl=0.01)"


def watch(rows: Sequence[Row], *, over: bool = False, kept: Mapping[int, str] | None = None) -> dict[str, str]:
    """Return the warnings whose conditions the newest row meets and that no earlier row holds.

    Returns:
        Key for the row -> text.

    >>> run = [{"iteration": i, "success": 0.0, "invalid_rate": 0.1, "contrast": 1.0} for i in range(1, 11)]
    >>> list(watch(run)), list(watch(run[:9])), list(watch(run[:9], over=True))
    (['warning_no_success'], [], ['warning_no_success'])
    >>> watch([*run[:9], run[9] | {"warning_no_success": 1.0}, run[9] | {"iteration": 11}])
    {}
    """
    return {key: words for key, words in _found(rows, over, kept or {}) if not any(row.get(key) for row in rows)}


def unfinished(rows: Sequence[Row]) -> Row:
    """Return the newest row without the warnings that were given only because the run ended there."""
    *before, newest = rows
    plain = {key: value for key, value in newest.items() if key not in _RULES}
    return plain | dict.fromkeys(watch([*before, plain]), 1.0)


def warning_texts(rows: Sequence[Row], kept: Mapping[int, str] | None = None) -> list[str]:
    """Return the texts of a log's warnings, in order."""
    lines = []
    for number, row in enumerate(rows, 1):
        given = [key for key in _RULES if row.get(key)]
        words = dict(_found(rows[:number], True, kept or {})) if given else {}
        lines += [f"iteration {row['iteration']}: {words.get(key, key)}" for key in given]
    return lines


def kept_in(folder: Path | None) -> dict[int, str]:
    """Return the saved policies of a run's folder: finished iterations -> name of a checkpoint or best policy."""
    if folder is None:
        return {}
    found = [*best_policies(folder), *checkpoints(folder)]
    return {int(path.name.partition("-")[2]): path.name for path in found}


def _found(rows: Sequence[Row], over: bool, kept: Mapping[int, str]) -> list[tuple[str, str]]:
    played = [row for row in rows if _known(row, "success")]
    if not played or played[-1] is not rows[-1]:
        return []
    return [(key, words) for key, rule in _RULES.items() if (words := rule(played, over, kept))]


def _known(row: Row, key: str) -> bool:
    return row.get(key) is not None


def _last(rows: Sequence[Row], count: int, over: bool, key: str, value: float = 0.0) -> int:
    last = rows[-count:]
    return len(last) if (len(last) == count or over) and all(row.get(key) == value for row in last) else 0


def _no_success(rows: Sequence[Row], over: bool, kept: Mapping[int, str]) -> str:
    if _fallen(rows) or not (count := _last(rows, PATIENCE, over, "success")):
        return ""
    when = "the iteration" if count == 1 else f"the last {count} iterations"
    return f"no episode of {when} succeeded, so the policy has no example of success: {_EASIER}"


def _no_better(rows: Sequence[Row], over: bool, kept: Mapping[int, str]) -> str:
    if not over or _no_success(rows, over, kept) or _fallen(rows):
        return ""
    part = min(PATIENCE, len(rows)) // 2 or 1
    first, last = (sum(row["success"] for row in some) / part for some in (rows[:part], rows[-part:]))
    if last >= THERE and (len(rows) < PATIENCE or last > first or last >= SOLVED):
        return ""
    return (
        f"success was {first:.0%} at the start of the run and {last:.0%} at its end: train for longer, with more "
        f"episodes (groups, group_size) or another learning_rate; or {_EASIER}"
    )


def _refused(rows: Sequence[Row], over: bool, kept: Mapping[int, str]) -> str:
    rates = [row["invalid_rate"] for row in rows[-REFUSED_FOR:] if _known(row, "invalid_rate")]
    if len(rates) < REFUSED_FOR or min(rates) <= REFUSED or rates[-1] < rates[0]:
        return ""
    return (
        f"{rates[-1]:.0%} of the actions are refused, after {rates[0]:.0%} {REFUSED_FOR - 1} iterations earlier: look "
        "at the policy's replies (baselines.records.callbacks.Samples) and at the reply parser around the environment; "
        "clone an expert or demonstrations first (baselines.imitation.cloning.clone), or allow admissible commands "
        "only (HuggingFacePolicy(..., admissible=True))"
    )


def _no_contrast(rows: Sequence[Row], over: bool, kept: Mapping[int, str]) -> str:
    count = _last(rows, SILENT_FOR, over, "contrast")
    if not count or rows[-1]["success"] >= SOLVED:
        return ""
    when = "this iteration" if count == 1 else f"the last {count} iterations"
    return (
        f"in {when} all episodes of each group had the same outcome, so methods that compare them learn at most from "
        f"penalties: {_EASIER}"
    )


def _little_signal(rows: Sequence[Row], over: bool, kept: Mapping[int, str]) -> str:
    share = rows[-1].get("signal")
    if share is None or share >= LITTLE:
        return ""
    solved = rows[-1]["success"] >= SOLVED
    advice = (
        "the tasks are nearly solved: use harder ones, or end the training"
        if solved
        else f"play tasks that are sometimes won, draw others (rollout.resample_rounds=2), or {_EASIER}"
    )
    what = f"only {share:.1%} of the steps have an advantage other than 0, and only these train the policy"
    return f"{what if share else 'no step has an advantage other than 0, so none trains the policy'}: {advice}"


def _collapse(rows: Sequence[Row], over: bool, kept: Mapping[int, str]) -> str:
    if not _fallen(rows):
        return ""
    best = max(row["success"] for row in rows)
    return (
        f"success was {best:.0%} and has been 0 for {FALLEN_FOR} iterations, without contrast in any group: the policy "
        f"has collapsed. {_back(rows[:-FALLEN_FOR], kept)}; {_CALMER}"
    )


def _fallen(rows: Sequence[Row]) -> bool:
    last, before = rows[-FALLEN_FOR:], rows[:-FALLEN_FOR]
    return max((row["success"] for row in before), default=0.0) >= THERE and all(
        row["success"] == 0 and not row.get("contrast") for row in last
    )


def _entropy(rows: Sequence[Row], over: bool, kept: Mapping[int, str]) -> str:
    measured = [row for row in rows if _known(row, "entropy")]
    if len(measured) < 3 or not _is_flat(measured[0], measured[-2:]) or rows[-1]["success"] >= SOLVED:
        return ""
    start, now = measured[0]["entropy"], measured[-1]["entropy"]
    good = [row for row in rows if not _is_flat(measured[0], [row])]
    return (
        f"the entropy fell from {start:.3g} to {now:.3g} nats per token at a success of {rows[-1]['success']:.0%}: the "
        f"policy gives nearly the same replies each time and no longer explores. {_back(good, kept)}; {_CALMER}, or an "
        "entropy bonus (loss.entropy=0.01)"
    )


def _is_flat(start: Row, rows: Sequence[Row]) -> bool:
    return all(_known(row, "entropy") and row["entropy"] < ENTROPY * start["entropy"] for row in rows)


def _back(rows: Sequence[Row], kept: Mapping[int, str]) -> str:
    best = max(row["success"] for row in rows)
    last = next(row for row in reversed(rows) if row["success"] >= best / 2)
    iteration = int(last["iteration"])
    # An iteration's episodes are those of the policy before its update.
    there = [number for number in kept if number < iteration]
    go = (
        f"go back to {kept[max(there)]}"
        if there
        else "no earlier checkpoint is left (checkpoint.every, checkpoint.keep): start again"
    )
    return f"The last good iteration was {iteration}, with a success of {last['success']:.0%}: {go}"


_RULES: dict[str, Callable[[Sequence[Row], bool, Mapping[int, str]], str]] = {
    "warning_no_success": _no_success, "warning_no_better": _no_better, "warning_refused": _refused,
    "warning_no_contrast": _no_contrast, "warning_little_signal": _little_signal, "warning_collapse": _collapse,
    "warning_entropy": _entropy,
}  # fmt: skip
