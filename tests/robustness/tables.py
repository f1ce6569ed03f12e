"""Trials of tables: any rows, every credit method; how time grows with the rows is tried in `growing`."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.robustness.trial import Trial, record
from tests.wrappers.credit import hard_tables
from tests.wrappers.credit.hard_tables import BRANCHING, CREDIT

METHODS = {**{name: CREDIT[name] for name in CREDIT if name not in hard_tables.REWARDS}, **BRANCHING}
REWARDS = {
    "usual": lambda rng, n: rng.choice([0.0, 1.0, -0.1], n),
    "zero": lambda rng, n: np.zeros(n),
    "huge": lambda rng, n: rng.choice([1e300, -1e300, 1e299], n),
    "tiny": lambda rng, n: rng.choice([1e-300, -1e-300, 5e-324], n),
    "mixed": lambda rng, n: 10.0 ** rng.uniform(-300, 300, n),
}


def made(given: dict[str, Any]) -> StepTable:
    """Build a table of random walks; over one state they are loops or a star, over distinct ones they never meet."""
    rng, n = np.random.default_rng(given["seed"]), given["rows"]
    trajectory = np.unique(np.sort(rng.integers(0, given["trajectories"], n)), return_inverse=True)[1]
    ends = np.append(trajectory[1:] != trajectory[:-1], True)
    won = rng.random(n) < 0.5
    state = np.arange(n) if given["states"] == "distinct" else rng.integers(0, given["states"], n)
    after = np.where(ends, np.where(won[trajectory], -2, rng.permutation(state)), np.append(state[1:], 0))
    if given["texts"]:
        state, after = ([f"state {i}" for i in column] for column in (state, after))
    return StepTable.from_arrays(
        group=trajectory % given["groups"], trajectory=trajectory, t=np.arange(n), state=state, next_state=after,
        action=rng.integers(0, 4, n), reward=REWARDS[given["rewards"]](rng, n), won=won[trajectory],
        valid=rng.random(n) < 0.9,
    )  # fmt: skip


def check_credit(given: dict[str, Any]) -> None:
    """A method gives every row a number, or nan for "not scored"; or says which numbers are beyond it."""
    table = made(given)
    method = METHODS[given["method"]]
    before = table.reward.copy()
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        try:
            advantages = method(table)
        except ValueError as refused:
            if given["rewards"] not in ("huge", "mixed", "tiny") or not 10 < len(str(refused)) < 1_000:
                raise
            return
    assert advantages.dtype == np.float64
    per_token = given["method"].startswith("prime")
    assert advantages.shape == ((len(table), 2) if per_token else (len(table),))
    assert not np.isinf(advantages).any()
    assert np.array_equal(table.reward, before)
    assert np.array_equal(method(table), advantages, equal_nan=True)


TRIALS = [
    Trial(
        "tables/credit",
        record(
            rewards=st.sampled_from(list(REWARDS)),
            rows=st.integers(4, 60),
            trajectories=st.sampled_from([1, 2, 4, 20, 60]),
            groups=st.integers(1, 4),
            states=st.sampled_from(["distinct", 1, 2, 5, 40]),
            seed=st.integers(0, 999),
            texts=st.booleans(),
            method=st.sampled_from(list(METHODS)),
        ),
        check_credit,
        150,
    ),
]
