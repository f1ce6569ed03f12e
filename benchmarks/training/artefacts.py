"""Check the files of a finished benchmark, whatever its success: `check runs/quick`.

The clone must predict the expert better than before, every method must have moved the clone's weights by finite
gradients, logs must be complete, and pictures and page must agree with the results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym.outside import text as foreign_text
from agentgym.outside.text import DataError
from baselines.imitation.method import Imitation
from baselines.recipes.methods import method as method_of
from baselines.runs.stack import CLONE
from benchmarks.json_files import read_json
from benchmarks.report.page import HTML, html
from benchmarks.training.learning import REFERENCES, RESULTS, STUDY, parts

#: What every logged iteration tells.
LOGGED = (
    "success", "invalid_rate", "policy_loss", "kl", "approx_kl", "clip_fraction", "entropy", "grad_norm",
    "tokens_per_second", "share_environment", "share_generation", "share_credit", "share_update",
)  # fmt: skip
#: Of these, what is measured on trained rows, and left out where there are none.
_PER_TOKEN = ("kl", "approx_kl", "clip_fraction", "entropy")


def check_artefacts(folder: Path) -> Iterator[str]:
    """Check the folder of a finished benchmark, and yield one line per thing that is in order."""
    found = STUDY.load(folder / RESULTS)
    yield f"{RESULTS}: {len(found.scores)} scores on {found.config.eval_tasks} tasks, {len(found.runs)} runs"
    picture = folder / "curves.png"
    content = picture.read_bytes() if picture.is_file() else b""
    _expect(content.startswith(b"\x89PNG") and len(content) > 10_000, f"{picture}: expected a picture of the curves")
    yield f"{picture.name}: {len(content) // 1000} kB"
    shown, page = folder / HTML, html(STUDY.shown(found), {picture.name: content})
    same = shown.is_file() and foreign_text.read_text(shown) == page
    _expect(same, f"{shown}: expected the page of {RESULTS}, which `report` writes")
    yield f"{HTML}: {len(page) // 1000} kB"
    for part, (kind, seed) in parts(found.config).items():
        place = STUDY.path(folder, part).parent
        if kind == CLONE and found.config.clone_tasks:
            yield _clone(place)
        elif kind not in (CLONE, REFERENCES):
            yield _method(place, kind, folder / f"clone-seed{seed}" / "model", found.config.steps)


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise DataError(words)


def _clone(place: Path) -> str:
    path = place / "cloning.json"
    _expect(path.is_file(), f"{path}: the history of cloning is missing")
    try:
        losses = [float(epoch["loss"]) for epoch in read_json(path)]
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: expected a list of epochs with their losses ({error!r})") from None
    _expect(bool(losses) and all(map(math.isfinite, losses)), f"{path}: expected finite losses, got {losses}")
    _expect(losses[-1] < losses[0] or len(losses) == 1, f"{path}: the loss did not fall: {losses}")
    return f"{place.name}: loss {losses[0]:.2f} -> {losses[-1]:.2f} nats"


def _method(place: Path, name: str, start: Path, steps: int) -> str:
    log, method = place / "log.jsonl", method_of(name)
    _expect(log.is_file(), f"{log}: the log of training is missing")
    rows: list[Any] = [row for _, row in foreign_text.read_json_lines(log)]
    by_credit = not isinstance(method, Imitation)  # what a method of imitation logs is its own affair
    rounds = method.rounds if isinstance(method, Imitation) else steps
    iterations = [row["iteration"] if isinstance(row, dict) else row for row in rows]
    _expect(iterations == list(range(rounds + 1)), f"{log}: iterations {iterations}")
    for row in rows[1:] if by_credit else ():
        for column in (each for each in LOGGED if each not in _PER_TOKEN or each in row or row.get("rows")):
            value = row.get(column)
            finite = isinstance(value, (int, float)) and math.isfinite(value)
            _expect(finite, f"{log}, iteration {row['iteration']}: {column} is {value}")
    _expect(not by_credit or any(row["grad_norm"] > 0 for row in rows[1:]), f"{log}: no iteration had a gradient")
    _expect(any(place.glob("checkpoint-*/state.json")), f"{place}: no checkpoint")
    moved = _distance(start, place / "model")
    _expect(moved > 0, f"{place}: the weights are those of the clone")
    # 0 where the method keeps no reference to measure against.
    kl = f"KL to the clone {rows[-1]['kl']:.3f}, " if rows[-1].get("kl", 0.0) > 0 else ""
    return f"{place.name}: {rounds} {'iterations' if by_credit else 'rounds'}, {kl}weights moved {moved:.3f}"


def _distance(one: Path, other: Path) -> float:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    squares, files = 0.0, sorted(one.glob("*.safetensors"))
    _expect(bool(files), f"{one}: no weights")
    for path in files:
        try:
            left, right = load_file(path), load_file(other / path.name)
        except (OSError, SafetensorError) as error:
            raise DataError(f"{other}: weights cannot be read ({error})") from None
        squares += sum(float(((left[name].float() - right[name].float()) ** 2).sum()) for name in left)
    return math.sqrt(squares)
