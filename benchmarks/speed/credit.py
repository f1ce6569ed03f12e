"""Time to give credit and to find clusters of similar states, beside what published code does, in plain Python."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Floats, Reply, StepTable
from benchmarks.speed.record import Comparison, Measurement
from benchmarks.speed.timing import best_milliseconds
from wrappers.similar_states import Method, cluster_vectors

Shape = tuple[int, int, int]
#: Groups, episodes per group, steps per episode; the larger has four times as many rows: what is scanned for every row
#: costs sixteen times as much there.
SHAPE, LARGER = (16, 8, 50), (32, 16, 50)
SIZES = ((8, 4, 50), SHAPE, LARGER, (64, 16, 50), (256, 5, 4))
QUICK_SIZES = ((8, 4, 50), SHAPE, (256, 5, 4))
METHODS = ("grpo", "gigpo", "hgpo", "rewardflow", "graphgpo")
#: Sweeps of published code over every graph, converged or not.
SWEEPS = 1000
#: Length of an observation in characters.
CHARACTERS = 600
_WORDS = ("a", "the", "and", "table", "lamp", "door", "shelf", "north", "south", "you", "see", "red", "open", "closed")
_CREDIT, _CLUSTERS = "credit", "clusters of similar states"
_TEXTS, _TABLE = f"from fresh texts of {CHARACTERS} characters to advantages", "from a table to advantages"
#: Clusters: shape of the states, dimensions, threshold, and groups that are compared character by character.
_STATES, _DIMENSIONS, _THRESHOLD, _SAMPLE = (256, 20), 384, 0.9, 4


def _milliseconds(work: Callable[..., Any], *given: Any) -> float:
    """Processor time of one call, without collecting garbage."""
    gc.collect()
    begin = time.process_time()
    work(*given)
    return (time.process_time() - begin) * 1e3


def _words(shape: Shape) -> str:
    return " x ".join(map(str, shape))


def measure_credit(quick: bool) -> list[Measurement]:
    """Return milliseconds to score a table, per method, of plain Python peers, and over the size of a batch."""
    from baselines.recipes import RECIPES

    table = random_walk_table(0, *SHAPE)
    drawn = np.log(np.random.default_rng(0).uniform(0.1, 1.0, len(table))).tolist()
    replies = [Reply("", token_ids=(0,), logprobs=(logprob,)) for logprob in drawn]  # some methods look at them
    table = dataclasses.replace(table, replies=np.fromiter(replies, np.object_, len(table)))
    found = []

    def add(key: str, what: str, ours: bool, spent: float, shape: Shape = SHAPE) -> None:
        found.append(Measurement(f"credit_{key}", _CREDIT, f"{what}, {_words(shape)} steps", ours, spent, "ms"))

    for name, recipe in RECIPES.items():
        add(name, name, True, best_milliseconds(functools.partial(recipe, table), 5 if quick else 20))
    spent = _milliseconds(functools.partial(sweeping_propagation, sweeps=SWEEPS), table)
    add("sweeps", f"{SWEEPS:,} sweeps over a dict graph", False, spent)
    for key, shape in [("dicts", SHAPE)] if quick else [("dicts", SHAPE), ("dicts_larger", LARGER)]:
        spent = _milliseconds(dict_gigpo, FreshTexts(*shape).columns())
        add(key, "gigpo from texts, scanning all rows for every row", False, spent, shape)
    return found + measure_sizes(quick, QUICK_SIZES if quick else SIZES)


def measure_sizes(quick: bool, sizes: Sequence[Shape]) -> list[Measurement]:
    """Return milliseconds, and microseconds per step, of interning and of methods, over the size of a batch."""
    from baselines.recipes import RECIPES

    methods = {name: RECIPES[name] for name in METHODS if name in RECIPES}
    found = []
    for shape in sizes:
        texts = FreshTexts(*shape)
        works: dict[tuple[str, str], tuple[Callable[[], Any], Callable[[Any], Any]]] = {
            (_TEXTS, "only the table"): (texts.columns, _table_of),
            (_TEXTS, "only the table, no text shared"): (functools.partial(texts.columns, shared=False), _table_of),
        }
        for name, recipe in methods.items():
            works[_TEXTS, name] = texts.columns, functools.partial(_table_of, method=recipe)
            works[_TABLE, name] = functools.partial(_fresh_table, texts), recipe
        least = dict.fromkeys(works, float("inf"))
        # In turns, so that a busy moment of the machine meets all of them.
        for _ in range(3 if quick else 12):
            for key, (prepare, work) in works.items():
                least[key] = min(least[key], _milliseconds(work, prepare()))
        size = _words(shape)
        for (section, name), spent in least.items():
            short = f"{'texts' if section == _TEXTS else 'table'}_{size}_{name}"
            found.append(Measurement(short, section, name, True, spent, "ms", column=size))
            each, row = f"{section}, per step", spent * 1e3 / len(texts)
            found.append(Measurement(f"{short}_step", each, name, True, row, "µs", column=size))
    return found


def _table_of(columns: dict[str, Any], method: Callable[[StepTable], Any] = lambda table: table) -> Any:
    return method(StepTable.from_arrays(**columns))


def _fresh_table(texts: FreshTexts) -> StepTable:
    return StepTable.from_arrays(**texts.columns())


def similar_vectors(seed: int, groups: int, states: int, dimensions: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return vectors, float32 (groups * states, dimensions), and the group of each, int64 (groups * states,).

    They lie around a third as many centres; cosines in a cluster are about .93.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(groups, max(1, states // 3), dimensions))
    chosen = rng.integers(0, centres.shape[1], (groups, states))
    vectors = centres[np.arange(groups)[:, None], chosen] + 0.28 * rng.normal(size=(groups, states, dimensions))
    return vectors.reshape(-1, dimensions).astype(np.float32), np.repeat(np.arange(groups), states)


def measure_clusters(quick: bool) -> list[Measurement]:
    """Return milliseconds to cluster the states of all groups, their vectors given."""
    groups_count, states = _STATES
    vectors, groups = similar_vectors(0, groups_count, states, _DIMENSIONS)
    shape, found = f"{groups_count} groups of {states} states, {_DIMENSIONS} dimensions", list[Measurement]()

    def add(key: str, what: str, ours: bool, spent: float) -> None:
        found.append(Measurement(f"clusters_{key}", _CLUSTERS, what, ours, spent, "ms"))

    methods: tuple[tuple[Method, str], ...] = (("leader", "leaders"), ("components", "components"))
    for method, words in methods:
        work = functools.partial(cluster_vectors, vectors, groups, threshold=_THRESHOLD, method=method)
        add(method, f"{words}, {shape}", True, best_milliseconds(work, 5 if quick else 30))
    plain = functools.partial(pairwise_leaders, vectors, groups.tolist(), _THRESHOLD)
    add("pairwise", f"leaders, cosine by cosine, {shape}", False, best_milliseconds(plain, 1 if quick else 3))
    texts, sample, spent = FreshTexts(groups_count, 5, 4), 1 if quick else _SAMPLE, 0.0
    for group in range(sample):
        rows = np.flatnonzero(texts.table.group == group).tolist()
        distinct = [text.decode() for text in dict.fromkeys(texts.state[row] for row in rows)]
        spent += _milliseconds(matched_texts, distinct, _THRESHOLD)
    what = f"leaders by difflib, {groups_count} groups of texts, extrapolated from {sample}"
    add("difflib", what, False, spent * groups_count / sample)
    return found


def random_walk_table(seed: int, groups: int, size: int, length: int, states: int = 300) -> StepTable:
    """Return `groups * size` walks of `length` steps over a ring of states with chords; half succeed, with reward 1."""
    rng = np.random.default_rng(seed)
    episodes = groups * size
    moves = rng.integers(0, 4, (episodes, length))
    chords = rng.integers(0, states, (groups, states))
    columns: dict[str, Any] = {name: [] for name in ("group", "trajectory", "t", "state", "action", "next_state")}
    for episode in range(episodes):
        group, here = divmod(episode, size)[0], 0
        for t, move in enumerate(moves[episode].tolist()):
            there = int(chords[group, here]) if move == 3 else (here + (1, -1, 2)[move]) % states
            after = states + int(episode % 2) if t == length - 1 else there
            for name, value in zip(columns, (group, episode, t, here, move, after), strict=True):
                columns[name].append(value)
            here = there
    won = np.repeat(np.arange(episodes) % 2 == 0, length)
    last = np.tile(np.arange(length) == length - 1, episodes)
    return StepTable.from_arrays(**columns, reward=(won & last).astype(float), won=won)


class FreshTexts:
    """A `random_walk_table` with new strings each time: Python keeps a string's hash, so a second interning is free."""

    def __init__(self, groups: int, size: int, length: int) -> None:
        self.table = table = random_walk_table(0, groups, size, length)
        rng = np.random.default_rng(0)
        filler = " ".join(rng.choice(_WORDS, 40 * CHARACTERS).tolist())
        # One text per state of a group: its own words, then a name that no other state has.
        begins = rng.integers(0, len(filler) - CHARACTERS, (groups, len(table.states))).tolist()

        def texts(states: Any) -> list[bytes]:
            return [
                f"{filler[begins[group][state] :][: CHARACTERS - 14]} #{group:06d}{state:06d}".encode()
                for group, state in zip(table.group.tolist(), states.tolist(), strict=True)
            ]

        self.state, self.next_state = texts(table.state), texts(table.next_state)
        self._goes_on = np.append(np.diff(table.trajectory) == 0, False).tolist()

    def __len__(self) -> int:
        return len(self.table)

    def columns(self, *, shared: bool = True) -> dict[str, Any]:
        """Return the arguments of `StepTable.from_arrays`, all of them lists.

        With `shared`, the next state of a step is the object of the following step's state, as in a rollout.
        """
        table = self.table
        state = [text.decode() for text in self.state]
        if shared:
            following = [*state[1:], ""]
            next_state = [
                after if goes_on else text.decode()
                for after, goes_on, text in zip(following, self._goes_on, self.next_state, strict=True)
            ]
        else:
            next_state = [text.decode() for text in self.next_state]
        return {
            "group": [f"task {group}" for group in table.group.tolist()],
            "trajectory": [f"episode {trajectory}" for trajectory in table.trajectory.tolist()],
            "state": state,
            "action": [f"go {table.actions[action]}" for action in table.action.tolist()],
            "next_state": next_state,
            **{name: getattr(table, name).tolist() for name in ("t", "reward", "won", "valid")},
        }


def scanned_returns(columns: Mapping[str, Sequence[Any]], gamma: float) -> Floats:
    """Discounted returns of rows in order of t: for every row all rows are scanned for those of its episode."""
    names = np.array(columns["trajectory"], np.object_)
    rewards = np.asarray(columns["reward"], np.float64)
    returns = np.zeros(len(names))
    for row in range(len(names)):
        mine = np.where(names == names[row])[0]
        total = 0.0
        for other in reversed(mine[mine >= row].tolist()):
            total = rewards[other] + gamma * total
        returns[row] = total
    return returns


def dict_gigpo(columns: Mapping[str, Sequence[Any]], gamma: float = 0.95, eps: float = 1e-6) -> Floats:
    """GiGPO (omega 1, sample standard deviation) with scanned returns and dicts of lists, group by group."""
    returns = scanned_returns(columns, gamma)
    outcome: dict[Any, float] = {}
    for trajectory, reward in zip(columns["trajectory"], columns["reward"], strict=True):
        outcome[trajectory] = outcome.get(trajectory, 0.0) + reward
    episodes: dict[Any, list[Any]] = {}
    visits: dict[Any, list[int]] = {}
    for row, (group, trajectory, state) in enumerate(
        zip(columns["group"], columns["trajectory"], columns["state"], strict=True)
    ):
        members = episodes.setdefault(group, [])
        if trajectory not in members:
            members.append(trajectory)
        visits.setdefault((group, state), []).append(row)
    of_episode: dict[Any, float] = {}
    for members in episodes.values():
        scores = np.array([outcome[trajectory] for trajectory in members])
        of_episode.update(zip(members, _scored(scores, eps).tolist(), strict=True))
    result = np.array([of_episode[trajectory] for trajectory in columns["trajectory"]])
    for rows in visits.values():
        result[rows] += _scored(returns[rows], eps)
    return result


def _scored(values: Floats, eps: float) -> Floats:
    if len(values) == 1:
        return np.zeros(1)
    scored: Floats = (values - values.mean()) / (values.std(ddof=1) + eps)
    return scored


def matched_texts(texts: Sequence[str], threshold: float) -> list[int]:
    """Greedy leader clusters by `difflib` similarity: the number of each text's leader."""
    matcher = difflib.SequenceMatcher(None)

    def similar(leader: int, i: int) -> bool:
        matcher.set_seqs(texts[leader], texts[i])  # keeps what it knows of the same second text
        return matcher.ratio() >= threshold

    return _leaders([0] * len(texts), similar)


def pairwise_leaders(vectors: Any, groups: Sequence[int], threshold: float) -> list[int]:
    """Greedy leader clusters inside each group, one cosine at a time: the row of each vector's leader."""

    def similar(leader: int, i: int) -> bool:
        u, v = vectors[leader], vectors[i]
        return bool(u @ v / np.sqrt((u @ u) * (v @ v)) >= threshold)

    return _leaders(groups, similar)


def _leaders(groups: Sequence[int], similar: Callable[[int, int], bool]) -> list[int]:
    leaders: dict[int, list[int]] = {}
    found = []
    for i, group in enumerate(groups):
        mine = leaders.setdefault(group, [])
        found.append(next((leader for leader in mine if similar(leader, i)), i))
        if found[-1] == i:
            mine.append(i)
    return found


def sweeping_propagation(table: StepTable, gamma: float = 0.9, sweeps: int = 1000) -> list[dict[int, float]]:
    """Return values gamma^d by state of every group, by a fixed number of sweeps without a test of convergence."""
    result = []
    for group in range(table.n_groups):
        rows = np.flatnonzero(table.group == group).tolist()
        successors: dict[int, set[int]] = {}
        for row in rows:
            source, target = int(table.state[row]), int(table.next_state[row])
            successors.setdefault(target, set())
            successors.setdefault(source, set())
            if source != target:
                successors[source].add(target)
        value = dict.fromkeys(successors, 0.0)
        for i in np.flatnonzero((table.trajectory_group == group) & table.trajectory_won).tolist():
            value[int(table.next_state[table.last[i]])] = 1.0
        for _ in range(sweeps):
            value = {
                node: max(value[node], gamma * max((value[s] for s in after), default=0.0))
                for node, after in successors.items()
            }
        result.append(value)
    return result


CREDIT_COMPARISONS = (
    *(
        Comparison(f"credit_{name}", "credit_sweeps", f"{name} / sweeps over a dict graph")
        for name in ("rewardflow", "graphgpo")
    ),
    *(
        Comparison(f"texts_{_words(shape)}_gigpo", key, f"gigpo from texts / scanning rows, {_words(shape)} steps")
        for key, shape in (("credit_dicts", SHAPE), ("credit_dicts_larger", LARGER))
    ),
    Comparison("clusters_leader", "clusters_pairwise", "leaders / cosine by cosine"),
    Comparison("clusters_leader", "clusters_difflib", "leaders, vectors given / difflib on texts"),
)
