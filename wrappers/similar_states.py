"""Clusters of states by cosine similarity of embeddings, within each group or over a table.

* "leader": in order of first appearance, a state joins the first earlier leader near it, or becomes a leader. The
  cluster has its leader's name; the result depends on the order of rows only.
* "components": states connected by chains of near states, named by the smallest `str(state)`; order does not matter.

Near: cosine at least `threshold`, up to rounding (1e-5 for float32 vectors, 1e-12 for others).
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from agentgym.checks import Range, check_value, whole
from agentgym.outside.packages import install, needed
from agentgym.outside.text import clean
from agentgym.trajectory import Floats, Ints, StepTable
from agentgym.trajectory.columns import intern
from wrappers.canonical import relabel_states
from wrappers.credit.group import number_pairs

Embed = Callable[[Sequence[Hashable]], ArrayLike]
Within = Literal["group", "table"]
Method = Literal["leader", "components"]

#: Larger groups are compared in blocks of this many rows.
_BLOCK = 512

#: The small general-purpose encoder that is used most; 384 dimensions.
MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def merge_similar_states(
    table: StepTable,
    embed: Embed,
    threshold: float = 0.9,
    *,
    method: Method = "leader",
    within: Within = "group",
) -> StepTable:
    """Return the table with similar states merged, for any credit method.

    A merged state has the key of one of its members. States in which an episode of the group terminated stay distinct.

    Args:
        embed: n distinct states -> n vectors (n, dimensions) of lengths above zero; called once. See `SentenceEncoder`.
        threshold: in (0, 1]; 0.9 inside each group's graph in 2603.18859, appendix.
        method: "leader" or "components", see the module.
        within: compare states of each "group", or of the whole "table" (`relabel_states` with `cosine_clusters`).

    Raises:
        ValueError: on an invalid threshold, method or `within`, and on vectors of a wrong shape or length.

    >>> table = StepTable.from_arrays(group=[0, 0], trajectory=[0, 1], t=[0, 0], action=["open", "knock"],
    ...     state=["the red door", "a red door"], next_state=["goal", "pit"], reward=[1, 0], won=[1, 0])
    >>> merge_similar_states(table, lambda states: [[1.0, 0.1], [1.0, 0.0]]).states
    ('the red door', 'goal', 'pit')
    """
    _check(threshold, method)
    check_value("within", within, Within)
    if within == "table":
        return relabel_states(table, cosine_clusters(embed, threshold, method=method))
    n = len(table)
    state, group = np.concatenate((table.state, table.next_state)), np.concatenate((table.group, table.group))
    node, example = number_pairs(group, table.n_groups, state, len(table.states))
    ordinary = np.ones(len(example), np.bool_)
    ordinary[node[n + table.last[table.terminated[table.last]]]] = False
    nodes = np.flatnonzero(ordinary)
    nodes = nodes[np.lexsort((example[nodes], group[example[nodes]]))]  # as they appear in their group
    at = example[nodes]
    shown, at_shown = np.unique(state[at], return_inverse=True)
    vectors = _embedded(embed, [table.states[i] for i in shown.tolist()])
    same = cluster_vectors(vectors[at_shown], group[at], threshold=threshold, method=method)
    if method == "components":
        same = _smallest([table.states[i] for i in state[at].tolist()], same)
    key = state[example]
    key[nodes] = key[nodes[same]]
    (before, after), kept = intern("state", key[node[:n]], key[node[n:]])
    names = tuple(table.states[i] for i in kept)  # type: ignore[call-overload]  # they are integers
    return dataclasses.replace(table, state=before, next_state=after, states=names)


def cosine_clusters(
    embed: Embed, threshold: float = 0.9, *, method: Method = "leader"
) -> Callable[[Sequence[Hashable]], list[Hashable]]:
    """Return a `label` for `relabel_states`: the name of each state's cluster over the whole table.

    Arguments as `merge_similar_states`. Time: O(dimensions * states * leaders), components: O(dimensions * states^2).
    """
    _check(threshold, method)

    def label(states: Sequence[Hashable]) -> list[Hashable]:
        same = cluster_vectors(_embedded(embed, states), threshold=threshold, method=method)
        if method == "components":
            same = _smallest(states, same)
        return [states[i] for i in same.tolist()]

    return label


def cluster_vectors(
    vectors: ArrayLike, groups: ArrayLike | None = None, *, threshold: float = 0.9, method: Method = "leader"
) -> Ints:
    """Return int64 (n,): the row number of the first member of each row's cluster ("leader": of its leader).

    Args:
        vectors: (n, dimensions), none of length zero; float32 stays float32, all else becomes float64.
        groups: int (n,), only rows of the same group are compared; default all.
        threshold: least cosine, in (0, 1].
        method: "leader" (in order of rows) or "components", see the module.
    """
    _check(threshold, method)
    given = np.asarray(vectors)
    points: NDArray[Any] = given if given.dtype == np.float32 else given.astype(np.float64)
    if points.ndim != 2:
        raise ValueError(f"vectors must have shape (n, dimensions), got {points.shape}")
    lengths = np.sqrt(np.einsum("ij,ij->i", points, points))
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise ValueError("embed returned a vector of length zero, or one that is not finite")
    near = _Near(points, lengths, threshold - (1e-5 if points.dtype == np.float32 else 1e-12))
    group = np.zeros(len(points), np.int64) if groups is None else np.asarray(groups)
    if group.shape != (len(points),):
        raise ValueError(f"groups must have shape ({len(points)},), got {group.shape}")
    order = np.argsort(group, kind="stable")
    in_blocks = _leaders_in_blocks if method == "leader" else _joined_in_blocks
    first, pairs = np.arange(len(points)), [np.zeros((2, 0), np.int64)]
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if len(rows) > _BLOCK:
            first[rows] = rows[in_blocks(near, rows)]
        else:
            pairs.append(rows[np.array(np.nonzero(np.triu(near(rows, rows), 1)))])
    found = (_leaders if method == "leader" else _joined)(len(points), *np.concatenate(pairs, axis=1))
    return np.where(found == np.arange(len(points)), first, found)


class SentenceEncoder:
    """Callable: n states -> float32 (n, dimensions), with a cache of recent texts.

    The model is loaded at the first call and reads `str(state)`, cut at its maximal length.

    Args:
        model: name of a sentence-transformers model, or a folder that holds one.
        device: "cpu", "cuda", ...; by default the library's choice.
        cache_size: number of cached vectors, most recently used.

    Raises:
        ImportError: at the first call, without sentence-transformers (the extra `embed`).
    """

    def __init__(
        self, model: str | Path = MODEL, *, batch_size: int = 64, device: str | None = None, cache_size: int = 100_000
    ) -> None:
        self.model = str(model)
        self.batch_size, self.cache_size = whole("batch_size", batch_size, 1), whole("cache_size", cache_size, 1)
        self.device = device
        self._encoder: Any = None
        self._cache: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def __call__(self, states: Sequence[Hashable]) -> NDArray[np.float32]:
        """Return float32 (n, dimensions), one vector per state."""
        texts = [clean(str(state)) for state in states]
        if not texts:
            return np.zeros((0, 0), np.float32)
        distinct = list(dict.fromkeys(texts))
        new = [text for text in distinct if text not in self._cache]
        if new:
            self._cache.update(zip(new, self._encode(new), strict=True))
        for text in distinct:
            self._cache.move_to_end(text)
        vectors = np.stack([self._cache[text] for text in texts])
        while len(self._cache) > self.cache_size:
            self._cache.popitem(last=False)
        return vectors

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        if self._encoder is None:
            self._encoder = self._load()
        options = {"batch_size": self.batch_size, "show_progress_bar": False, "convert_to_numpy": True}
        return np.array(self._encoder.encode(texts, **options), np.float32)

    def _load(self) -> Any:
        library = needed(  # it brings torch
            "sentence_transformers",
            f"SentenceEncoder needs sentence-transformers: {install('embed')} (or give any function of your own that "
            "takes n states and returns n vectors)",
        )
        return library.SentenceTransformer(self.model, device=self.device)


@dataclasses.dataclass(frozen=True)
class _Near:
    points: NDArray[Any]
    lengths: Floats
    cosine: float

    def __call__(self, some: Ints, others: Ints) -> NDArray[np.bool_]:
        dots = self.points[some] @ self.points[others].T
        near: NDArray[np.bool_] = dots >= self.cosine * self.lengths[some][:, None] * self.lengths[others]
        return near


def _leaders(n: int, earlier: Ints, later: Ints) -> Ints:
    open_rows = np.ones(n, np.bool_)
    is_leader = np.zeros(n, np.bool_)
    a, b = earlier, later
    while len(a):
        waits = np.zeros(n, np.bool_)
        waits[b] = True
        new = open_rows & ~waits  # nothing earlier and near that may still become a leader
        is_leader |= new
        open_rows &= ~new
        open_rows[b[new[a]]] = False
        still = open_rows[a] & open_rows[b]
        a, b = a[still], b[still]
    is_leader |= open_rows
    leader = np.arange(n)
    leads = is_leader[earlier]
    np.minimum.at(leader, later[leads], earlier[leads])
    return leader


def _joined(n: int, earlier: Ints, later: Ints) -> Ints:
    graph = csr_array((np.ones(len(earlier), np.int8), (earlier, later)), shape=(n, n))
    count, component = connected_components(graph, directed=False)
    first = np.full(count, n, np.int64)
    np.minimum.at(first, component, np.arange(n))
    return first[component]


def _leaders_in_blocks(near: _Near, rows: Ints) -> Ints:
    leader = np.arange(len(rows))
    leaders = np.zeros(0, np.int64)
    for begin in range(0, len(rows), _BLOCK):
        block = np.arange(begin, min(begin + _BLOCK, len(rows)))
        if len(leaders):
            old = near(rows[block], rows[leaders])
            led = old.any(axis=1)
            leader[block[led]] = leaders[old[led].argmax(axis=1)]
            block = block[~led]
        earlier, later = np.nonzero(np.triu(near(rows[block], rows[block]), 1))
        leader[block] = block[_leaders(len(block), earlier, later)]
        leaders = np.concatenate((leaders, block[leader[block] == block]))
    return leader


def _joined_in_blocks(near: _Near, rows: Ints) -> Ints:
    first = np.arange(len(rows))
    for begin in range(0, len(rows), _BLOCK):
        end = min(begin + _BLOCK, len(rows))
        later, earlier = np.nonzero(np.tril(near(rows[begin:end], rows[:end]), begin - 1))
        known = np.arange(begin)
        first[:end] = _joined(end, np.concatenate((first[:begin], earlier)), np.concatenate((known, later + begin)))
    return first


def _smallest(states: Sequence[Hashable], same: Ints) -> Ints:
    several = np.flatnonzero((np.bincount(same, minlength=len(same)) > 1)[same])
    ranked = sorted(several.tolist(), key=lambda i: (str(states[i]), type(states[i]).__name__), reverse=True)
    smallest = same.copy()
    smallest[same[ranked]] = ranked  # of several assignments to a cluster the last one stays
    return smallest[same]


def _embedded(embed: Embed, states: Sequence[Hashable]) -> NDArray[Any]:
    if not states:
        return np.zeros((0, 1))
    vectors = np.asarray(embed(tuple(states)))
    if vectors.ndim != 2 or len(vectors) != len(states):
        raise ValueError(f"embed must return shape ({len(states)}, dimensions), got {vectors.shape}")
    return vectors


def _check(threshold: float, method: str) -> None:
    check_value("threshold", threshold, float, Range(above=0, high=1))
    check_value("method", method, Method)
