"""Every credit method of the registry, with what it takes beside the table; and tables that hurt all of them.

They are of one group, one state, one chain, a star, or of forks behind forks.
"""

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import wrappers.credit
from agentgym.trajectory import Floats, StepTable
from tests.playing import filled
from wrappers import credit
from wrappers.credit.options import declaration, declared
from wrappers.credit.segments import by_event, by_turn

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(wrappers.credit, name)
    for name in wrappers.credit.__all__
    if inspect.isfunction(getattr(wrappers.credit, name))
}
#: Methods with options.
METHODS: dict[str, Callable[..., Floats]] = {name: each for name, each in FUNCTIONS.items() if declared(each)}
WITH_PRESETS = [(name, preset) for name, method in METHODS.items() for preset in declaration(method)[1]]
#: Methods of branches.
BRANCHING = {name: METHODS[name] for name in ("bpo", "tree_grpo", "vine")}
#: Methods of scores or log-probabilities of the steps, and the arguments with one number per row.
ARGUMENTS = {
    "aem": ("advantages", "entropies"), "empg": ("advantages", "entropies"), "gae": ("values",),
    "hcapo": ("hindsight", "plain"), "hisr": ("contributions", "importance"), "igpo": ("beliefs",),
    "istar": ("scores",), "prime": ("scores", "mask"), "process_reward": ("scores",), "spa": ("contributions",),
    "rlsd": ("gaps", "mask"), "rlcsd": ("contrasts", "mask"), "sdpo": ("gates",), "turn_credit": ("given",),
}  # fmt: skip
NOT_NEGATIVE = {"beliefs", "entropies", "importance"}
EMPTY = StepTable.from_arrays(group=[], trajectory=[], t=[], state=[], action=[], next_state=[], reward=[], won=[])
ONE = filled(trajectory=[0], state=["s"], next_state=["goal"], reward=[3.0], won=[True])


def beside(name: str, table: StepTable, rows: Any = None, n: int | None = None) -> dict[str, Any]:
    """Arguments of a method for a table whose rows are these of n rows; the same numbers for the same row."""
    rows = np.arange(len(table)) if rows is None else rows
    rng, n = np.random.default_rng(7), len(table) if n is None else n
    wanted = [each for each in ARGUMENTS.get(name, ()) if each != "advantages"]  # by default GRPO's
    shape = (n, 3) if "mask" in wanted else (n,)
    drawn: dict[str, Any] = {}
    for each in wanted:
        if each == "mask":
            drawn[each] = np.arange(3) < rng.integers(1, 4, (n, 1))
        elif each in ("hindsight", "plain"):  # log-probabilities
            drawn[each] = -3 * rng.random(n)
        else:
            drawn[each] = rng.random(n) if each in NOT_NEGATIVE else rng.normal(size=shape)
    given = {each: column[rows] for each, column in drawn.items()}
    return given | {"segments": by_turn(table) // 2} if name == "hisr" else given


def with_inputs(name: str, preset: str) -> Callable[..., Any]:
    """Return the method as a function of the table and its options."""
    return lambda table, **options: METHODS[name](table, preset=preset, **beside(name, table), **options)


#: Steps of an episode, where the shape does not say something else.
LENGTH = 50


def hard_rows(group: Any, trajectory: Any, t: Any, state: Any, next_state: Any, action: Any = None) -> StepTable:
    n = len(t)
    last = np.append(trajectory[1:] != trajectory[:-1], True)
    won = (trajectory % 2 == 0) & np.ones(n, bool)
    return StepTable.from_arrays(
        group=group, trajectory=trajectory, t=t, state=state, next_state=next_state,
        action=np.zeros(n, int) if action is None else action, reward=(last & won).astype(float),
        valid=np.arange(n) % 7 != 0, won=won,
    )  # fmt: skip


def one_group(n: int) -> StepTable:
    row = np.arange(n)
    state = row % 97
    return hard_rows(np.zeros(n, int), row // LENGTH, row % LENGTH, state, state + 1, row % 5)


def one_state(n: int) -> StepTable:
    row = np.arange(n)
    return hard_rows(row // (8 * LENGTH), row // LENGTH, row % LENGTH, np.zeros(n, int), np.zeros(n, int), row % 5)


def distinct_states(n: int) -> StepTable:
    row = np.arange(n)
    return hard_rows(row // (8 * LENGTH), row // LENGTH, row % LENGTH, row, row + 1)


def chain(n: int) -> StepTable:
    row = np.arange(n)
    return hard_rows(np.zeros(n, int), np.zeros(n, int), row, row, row + 1)


def star(n: int) -> StepTable:
    row = np.arange(n)
    back = row % 2 == 1
    spoke = 1 + row // 2
    state = np.where(back, spoke, 0)
    return hard_rows(np.zeros(n, int), row // LENGTH, row % LENGTH, state, np.where(back, 0, spoke), row)


SHAPES: dict[str, Callable[[int], StepTable]] = {
    "one group": one_group, "one state": one_state, "distinct states": distinct_states, "chain": chain, "star": star,
}  # fmt: skip


#: What goes into methods or models in forms of its own.
REWARDS: dict[str, Callable[[StepTable], Any]] = {
    "spa by ridge": lambda table: credit.spa(table, contributions="ridge", rescale=True),
    "targets": lambda table: credit.action_targets(table, shaping="soft", values=np.ones(len(table))),
    "event": lambda table: by_event(table, lambda state, action, next_state: state != next_state),
}
#: Every method with every preset.
CREDIT: dict[str, Callable[..., Any]] = {
    **{f"{name}, {preset}": with_inputs(name, preset) for name, preset in WITH_PRESETS if name not in BRANCHING},
    **REWARDS,
    "graphgpo by costs": lambda table: credit.graphgpo(table, cost=1.0 + np.arange(len(table)) % 3),
}
#: What solves for a weight per episode of a group, in the cube of their number, and shapes whose group grows.
ATTRIBUTING = {name for name in CREDIT if name.startswith(("attribution", "frontier", "graphgpo_filled", "spa by"))}
ONE_GROUP = ("one group", "star")


def comb(n: int) -> StepTable:
    """One episode of n / 2 steps with a branch of one step after each of them but the last."""
    half = n // 2
    steps, cuts = np.arange(half), np.arange(half - 1)
    trajectory = np.concatenate((np.zeros(half, int), 1 + cuts))
    t = np.concatenate((steps, cuts + 1))
    return forked(trajectory, t, {int(1 + cut): (0, int(cut)) for cut in cuts})


def ladder(n: int) -> StepTable:
    """Trajectories of two steps, each cut from the one before it after its first step."""
    number = np.arange(n) // 2
    return forked(number, number + np.arange(n) % 2, {int(i): (int(i) - 1, int(i) - 1) for i in range(1, n // 2)})


def forked(trajectory: Any, t: Any, parent: dict[int, tuple[int, int]]) -> StepTable:
    won = trajectory % 2 == 0
    last = np.append(trajectory[1:] != trajectory[:-1], True)
    return filled(trajectory=trajectory, t=t, state=t, next_state=t + 1, reward=won & last, won=won, parent=parent)


FORKED: dict[str, Callable[[int], StepTable]] = {"comb": comb, "ladder": ladder}
#: Method and shape; and those where credit takes linear time.
PAIRS = [*itertools.product(CREDIT, SHAPES), *itertools.product(BRANCHING, FORKED)]
LINEAR = [(name, shape) for name, shape in PAIRS if not (name in ATTRIBUTING and shape in ONE_GROUP)]
