"""Check that a finished benchmark left what learning leaves behind, whatever it solved: `check runs/quick`.

The clone must predict the expert better than before, every method must have moved the clone's weights by finite
gradients, logs must be complete, and the pictures and the page must hold what the results say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from agentgym.outside import text as foreign_text
from agentgym.outside.text import DataError
from baselines.imitation.method import Imitation
from baselines.recipes.methods import method as method_of
from baselines.runs.stack import CLONE
from benchmarks.json_files import read_json
from benchmarks.training.learning import REFERENCES, RESULTS, STUDY, Results, parts

#: What every logged iteration tells.
LOGGED = (
    "success", "invalid_rate", "policy_loss", "kl", "approx_kl", "clip_fraction", "entropy", "grad_norm",
    "tokens_per_second", "share_environment", "share_generation", "share_credit", "share_update",
)  # fmt: skip
#: Of these, what is measured on trained rows, and left out where there are none.
_PER_TOKEN = ("kl", "approx_kl", "clip_fraction", "entropy")


def check_artefacts(folder: Path) -> Iterator[str]:
    """Check the folder of a finished benchmark, and yield one line per thing that was found in order."""
    found = STUDY.load(folder / RESULTS)
    yield f"{RESULTS}: {len(found.scores)} scores on {found.config.eval_tasks} tasks, {len(found.runs)} runs"
    yield _picture(folder / "curves.png")
    yield _page(folder / "report.html", found)
    for part, (kind, seed) in parts(found.config).items():
        place = STUDY.path(folder, part).parent
        if kind == CLONE:
            yield _clone(place, found)
        elif kind != REFERENCES:
            yield _method(place, kind, folder / f"clone-seed{seed}" / "model", found)


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise DataError(words)


def _picture(path: Path) -> str:
    content = path.read_bytes() if path.is_file() else b""
    _expect(content.startswith(b"\x89PNG") and len(content) > 10_000, f"{path}: expected a picture of the curves")
    return f"{path.name}: {len(content) // 1000} kB"


def _page(path: Path, found: Results) -> str:
    page = foreign_text.read_text(path) if path.is_file() else ""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    _expect(data is not None, f"{path}: expected the page with its data")
    try:
        shown = foreign_text.read_json(data[1] if data else "")
        episodes, methods = dict(shown["episodes"]), [graph["method"] for graph in shown["graphs"]]
    except (DataError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: its data cannot be read ({error})") from None
    for policy in ("random", "expert", "clone", *found.config.methods):
        _expect(bool(episodes.get(policy)), f"{path}: no episode of {policy}")
    _expect(
        set(methods) == set(found.config.methods), f"{path}: expected a state graph for each of {found.config.methods}"
    )
    return f"{path.name}: {len(episodes)} policies, {len(methods)} state graphs"


def _clone(place: Path, found: Results) -> str:
    if not found.config.clone_tasks:
        return f"{place.name}: no warm start was asked for"
    path = place / "cloning.json"
    _expect(path.is_file(), f"{path}: the history of cloning is missing")
    try:
        losses = [float(epoch["loss"]) for epoch in read_json(path)]
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: expected a list of epochs with their losses ({error!r})") from None
    _expect(bool(losses), f"{path}: no epoch")
    _expect(all(map(math.isfinite, losses)), f"{path}: a loss is not finite: {losses}")
    _expect(losses[-1] < losses[0] or len(losses) == 1, f"{path}: the loss did not fall: {losses}")
    return f"{place.name}: loss {losses[0]:.2f} -> {losses[-1]:.2f} nats"


def _method(place: Path, name: str, start: Path, found: Results) -> str:
    log = place / "log.jsonl"
    _expect(log.is_file(), f"{log}: the log of training is missing")
    rows = [row for _, row in foreign_text.read_json_lines(log)]
    _expect(all(isinstance(row, dict) for row in rows), f"{log}: a line is no object")
    iterations = [row.get("iteration") for row in rows]
    method = method_of(name)
    rounds = method.rounds if isinstance(method, Imitation) else found.config.steps
    _expect(iterations == list(range(rounds + 1)), f"{log}: iterations {iterations}")
    by_credit = not isinstance(method, Imitation)  # what a method of imitation logs is its own affair
    for row in rows[1:] if by_credit else ():
        for column in LOGGED:
            if column in _PER_TOKEN and column not in row and not row.get("rows"):
                continue
            value = row.get(column)
            _expect(
                isinstance(value, (int, float)) and math.isfinite(value),
                f"{log}, iteration {row['iteration']}: {column} is {value}",
            )
    if by_credit:
        _expect(any(row["grad_norm"] > 0 for row in rows[1:]), f"{log}: no iteration had a gradient")
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
