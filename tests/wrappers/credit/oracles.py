"""The recorded answers for credit methods, and the rollouts that they and the words of models are for."""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.trajectory import StepTable
from tests.oracles import oracle
from tests.wrappers.credit.small_tables import of_rows


@cache
def _read(path: Path) -> Any:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


#: Files about learned credit.
AUTHORS, PAPER = "learned_authors", "learned_paper_reference"


def load(name: str) -> Any:
    """Content of one oracle file."""
    return _read(oracle("learned" if name.startswith("learned") else "credit", f"{name}.json.xz"))


def cases() -> list[dict[str, Any]]:
    return load("inputs")["cases"]


def build(chosen: list[dict[str, Any]]) -> StepTable:
    """All steps of some cases in one table, in the order of the oracles' rows."""
    names = ("t", "state", "action", "next_state", "reward", "valid")
    rows = []
    for case in chosen:
        for trajectory in case["trajectories"]:
            *_, last = trajectory["steps"]
            cut, of = trajectory["end"] == "truncated", (case["group_id"], trajectory["traj_id"], trajectory["success"])
            rows += [(*of, cut and step is last, *(step[name] for name in names)) for step in trajectory["steps"]]
    return of_rows(f"group trajectory won truncated {' '.join(names)}", rows)


@cache
def table() -> StepTable:
    """The steps of all 120 cases, one group each."""
    return build(cases())


def answers(name: str, *keys: str) -> np.ndarray:
    """One answer of all cases, concatenated row by row."""
    results = load(name)["results"]
    assert [r["case_id"] for r in results] == [c["case_id"] for c in cases()]
    parts = []
    for result in results:
        for key in keys:
            result = result[key]
        parts.append(np.array(result, np.float64))
    return np.concatenate(parts)


def spans(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Largest minus smallest value of each row's group."""
    low, high = np.full(groups.max() + 1, np.inf), np.full(groups.max() + 1, -np.inf)
    np.minimum.at(low, groups, values)
    np.maximum.at(high, groups, values)
    return (high - low)[groups]


def step_groups(of: StepTable) -> np.ndarray:
    """Number of each row's (group, state)."""
    return np.unique(of.group * len(of.states) + of.state, return_inverse=True)[1]


def assert_agree(ours: np.ndarray, theirs: np.ndarray, *contrast: np.ndarray, atol: float = 2e-3) -> int:
    """Compare rows whose groups all have contrast in single precision; returns how many rows were compared."""
    rows = np.all([span > 1e-5 for span in contrast], axis=0) if contrast else np.ones(len(ours), bool)
    assert rows.sum() > 1000
    worst = np.abs(ours[rows] - theirs[rows]).max()
    assert worst <= atol, f"{worst} over {rows.sum()} rows"
    return int(rows.sum())


def _said(key: str) -> list[Any]:
    """What models said about every row of `table`."""
    said = load("learned_inputs")["cases"]
    assert [case["case_id"] for case in said] == [case["case_id"] for case in cases()]
    return [row for case in said for row in case[key]]


@cache
def scores(key: str) -> np.ndarray:
    """One number per row, (N,): "contribution", "value", "q", "judge", "entropy" or "segment"."""
    return np.array(_said(key), np.float64)


@cache
def mask() -> np.ndarray:
    """Which columns hold a token of the row's reply: bool (N, K)."""
    lengths = np.array(_said("token_lengths"))
    return np.arange(lengths.max()) < lengths[:, None]


@cache
def token_logprobs(model: str) -> np.ndarray:
    """Log-probabilities of the reply tokens under "old", "prm", "init" or "hindsight": (N, K), 0 outside the mask."""
    laid = np.zeros(mask().shape)
    laid[mask()] = np.concatenate(_said(f"{model}_logprobs"))
    return laid


@cache
def batches() -> list[tuple[StepTable, slice]]:
    """Every case as a table of its own, and its rows of `table`."""
    found, start = [], 0
    for case in cases():
        one = build([case])
        found.append((one, slice(start, start + len(one))))
        start += len(one)
    return found
