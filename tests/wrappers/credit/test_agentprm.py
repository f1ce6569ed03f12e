from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import Floats, StepTable
from tests.cases import cases
from tests.refusals import refuses
from tests.wrappers.credit import oracles
from tests.wrappers.credit.naive import groups
from tests.wrappers.credit.small_tables import close, episodes, random_table, rebuild
from wrappers.credit.agentprm import action_targets, gains, state_advantages, value_gain, visit_values

#: "u -up-" is reached by two histories; the first two episodes begin alike.
TABLE = episodes("s -a-> u -up-> goal +", "s -a-> u -left-> u", "s -b-> s -a-> u -up-> pit")


def naive(table: StepTable, unit: str, gamma: float, preset: str) -> Floats:
    """The same means from dictionaries of histories."""
    keys: list[Any] = [None] * len(table)
    worth = np.zeros(len(table))
    for trajectory, rows in (each for group in groups(table) for each in group):
        history: list[Any] = []
        for t, (row, step) in enumerate(zip(rows, trajectory.steps, strict=True)):
            pair = (step.state, step.action)
            history.append(pair)
            keys[row] = (trajectory.group, tuple(history) if unit == "history" else pair)
            from_start = 0.5 * (1 + gamma**t * (2 * trajectory.won - 1))
            worth[row] = from_start if preset == "authors" else gamma ** (len(rows) - 1 - t) * trajectory.won
    return np.array([np.mean([worth[j] for j, key in enumerate(keys) if key == mine]) for mine in keys])


@cases("unit, preset", ("history", "paper"), ("history", "authors"), ("state", "paper"))
@given(seed=st.integers(0, 10**6), gamma=st.floats(0.1, 1))
def test_equals_its_naive_twin_in_any_order_of_rows(unit: Any, preset: Any, seed: int, gamma: float) -> None:
    table = random_table(seed, groups=2, steps=6, states=4)
    table = rebuild(table, np.random.default_rng(seed).permutation(len(table)))
    close(action_targets(table, unit=unit, preset=preset, gamma=gamma), naive(table, unit, gamma, preset))
    of_actions, of_states = visit_values(table, gamma)
    close(of_actions, naive(table, "state", gamma, "paper"))
    here = (table.group == table.group[:, None]) & (table.state == table.state[:, None])
    close(of_states, here @ of_actions / here.sum(1))


@cases(
    "options, targets",
    ({}, [0.25, 1.0, 0.25, 0.0, 0.0, 0.0, 0.0]),
    # Won: 1, then (1 + .5) / 2. Lost: 0, .25, (1 - .25) / 2.
    ({"preset": "authors"}, [0.5, 0.75, 0.5, 0.25, 0.0, 0.25, 0.375]),
    # Plus .5 V' - V, which is -.5 on "s" before "u", -.75 on "s" before "s", and nothing on last steps.
    ({"shaping": "raw"}, [-0.25, 1.0, -0.25, 0.0, -0.5, -0.5, 0.0]),
    ({"shaping": "raw", "preset": "authors"}, [-0.5, 0.5, -0.5, -0.5, -1.5, -1.0, -0.25]),
)
def test_by_hand(options: dict[str, Any], targets: list[float]) -> None:
    close(action_targets(TABLE, values=np.ones(7), **{"gamma": 0.5, **options}), targets)


@cases(
    "arguments, words",
    ({"shaping": "raw"}, "shaping needs values, one V per row"),
    ({"shaping": "raw", "values": [0.0]}, r"values must hold one finite number per row, shape \(7,\)"),
    ({"shaping": "soft", "values": [np.nan] * 7}, "row 0 has nan"),
)
def test_wrong_input_is_named(arguments: dict[str, Any], words: str) -> None:
    refuses(ValueError, words, action_targets, TABLE, **arguments)


def test_the_paper_and_the_authors() -> None:
    for unit in ("history", "state"):
        theirs = oracles.answers(oracles.PAPER, "agentprm", f"q_target_by_{unit}_action")
        close(action_targets(oracles.table(), unit=unit), theirs, 1e-6)  # type: ignore[arg-type]
    values = oracles.scores("value")
    for shaping, key in (("none", "q_target"), ("raw", "shaped_raw")):
        found = action_targets(oracles.table(), preset="authors", shaping=shaping, values=values)  # type: ignore[arg-type]
        close(found, oracles.answers(oracles.AUTHORS, "agentprm", key), 1e-4)
    # Mean and quartiles are those of a data set: the originals were given one case at a time.
    options = {"preset": "authors", "shaping": "soft"}
    found = [action_targets(table, values=values[rows], **options) for table, rows in oracles.batches()]
    close(np.concatenate(found), oracles.answers(oracles.AUTHORS, "agentprm", "shaped_soft"), 1e-4)


# "s" is left to the right twice, once towards success; the rows of "a" are not in order of time.
VISITED = StepTable.from_arrays(
    group=["g"] * 5, trajectory=["a", "a", "b", "b", "c"], t=[1, 0, 0, 1, 0], state=["u", "s", "s", "u", "s"],
    action=["up", "right", "right", "down", "left"], next_state=["goal", "u", "u", "pit", "pit"],
    reward=[1, 0, 0, 0, 0], won=[1, 1, 0, 0, 0],
)  # fmt: skip


def test_soft_targets_values_and_gains_by_hand() -> None:
    # Five single steps worth 1 0 0 0 0: mean .2, quartiles 0 and 0 (nothing between them), so 0 and 1.
    table = episodes("s -a-> goal +", *[f"s -{action}-> pit" for action in "bcde"])
    close(action_targets(table, shaping="soft", values=np.zeros(5)), [1, 0, 0, 0, 0])
    # Worth 1 1 0 0 0: quartiles 0 and 1, mean .4; a sixth visit of the last counts the pair once.
    table = episodes("s -a-> goal +", "s -b-> goal +", *[f"s -{action}-> pit" for action in "cdee"])
    found = action_targets(table, shaping="soft", values=np.zeros(6))
    close(found, 1 / (1 + np.exp([-1.8, -1.8, 1.2, 1.2, 1.2, 1.2])))
    of_actions, of_states = visit_values(VISITED, 0.5)
    # "right" was worth .5 once and 0 once; of the three visits of "s" one was worth .5. "u" was worth 1 once of twice.
    assert of_actions == pytest.approx([1, 0.25, 0.25, 0, 0])
    assert of_states == pytest.approx([0.5, 0.5 / 3, 0.5 / 3, 0.5, 0.5 / 3])
    credit = state_advantages(VISITED, gamma=0.5)
    assert credit == pytest.approx([0.5, 0.25 - 0.5 / 3, 0.25 - 0.5 / 3, -0.5, -0.5 / 3])
    # Into "u" .5, out of "s" 1/6; the last steps lead to 1 where it was won and to 0 elsewhere.
    assert value_gain(VISITED, gamma=0.5) == pytest.approx([0.5, 1 / 3, 1 / 3, -0.5, -0.5 / 3])
    # One's own values: with the values 0 the last step of a won trajectory gains everything.
    assert gains(VISITED, np.zeros(5)).tolist() == [1, 0, 0, 0, 0]
    table = oracles.table()
    won = table.last[table.trajectory_won & (np.diff(table.offsets) > 1)]
    first = table.order[table.offsets[:-1]][table.trajectory[won]]
    paper, authors = (action_targets(table, preset=preset) for preset in ("paper", "authors"))
    assert (paper[won] > paper[first]).all()
    assert (authors[won] < authors[first]).mean() > 0.7
