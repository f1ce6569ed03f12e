"""The recorded answers for learned credit, and what models said about the groups of `oracles.table`."""

from functools import cache, partial
from typing import Any

import numpy as np

from agentgym.trajectory import StepTable
from tests.wrappers.credit import oracles

#: Content of one oracle file.
load = partial(oracles.load, folder="learned")
#: One answer of all cases, concatenated row by row.
answers = partial(oracles.answers, folder="learned")
AUTHORS, PAPER = "learned_authors", "learned_paper_reference"


def _said(key: str) -> list[Any]:
    """What models said about every row of `oracles.table`."""
    cases = load("learned_inputs")["cases"]
    assert [case["case_id"] for case in cases] == [case["case_id"] for case in oracles.cases()]
    return [row for case in cases for row in case[key]]


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
    """Every case as a table of its own, and its rows of `oracles.table`."""
    found, start = [], 0
    for case in oracles.cases():
        one = oracles.build([case])
        found.append((one, slice(start, start + len(one))))
        start += len(one)
    return found
