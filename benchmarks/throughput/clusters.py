"""Time to find clusters of similar states in 256 groups x 5 episodes x 4 steps, beside plain ways to do it."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.throughput.credit_peers import matched_texts, pairwise_leaders
from benchmarks.throughput.synthetic_rollouts import FreshTexts
from benchmarks.throughput.timing import Measurement, best_milliseconds
from wrappers.similar_states import Method, cluster_vectors

GROUPS, GROUP_SIZE, LENGTH = 256, 5, 4
DIMENSIONS, THRESHOLD = 384, 0.9
#: Groups whose texts are compared character by character; the time of all groups is worked out from theirs.
SAMPLE = 4


def similar_vectors(seed: int, groups: int, states: int, dimensions: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Vectors of `states` states per group, around a third as many centres; cosines inside a cluster are about .93.

    Returns:
        float32 (groups * states, dimensions), and int64 (groups * states,), the group of each.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(groups, max(1, states // 3), dimensions))
    chosen = rng.integers(0, centres.shape[1], (groups, states))
    vectors = centres[np.arange(groups)[:, None], chosen] + 0.28 * rng.normal(size=(groups, states, dimensions))
    return vectors.reshape(-1, dimensions).astype(np.float32), np.repeat(np.arange(groups), states)


def measure_clusters(quick: bool) -> list[Measurement]:
    """Processor milliseconds to cluster the states of all groups, their vectors given."""
    states = GROUP_SIZE * LENGTH
    vectors, groups = similar_vectors(0, GROUPS, states, DIMENSIONS)
    shape = f"{GROUPS} groups of {states} states, {DIMENSIONS} dimensions"
    found = []
    methods: tuple[tuple[Method, str], ...] = (("leader", "leaders"), ("components", "components"))
    for method, words in methods:
        work = functools.partial(cluster_vectors, vectors, groups, threshold=THRESHOLD, method=method)
        spent = best_milliseconds(work, 5 if quick else 30)
        found.append(Measurement(f"clusters_{method}", "clusters", f"{words}, {shape}", True, spent, "ms"))
    rows = groups.tolist()
    spent = best_milliseconds(lambda: pairwise_leaders(vectors, rows, THRESHOLD), 1 if quick else 3)
    found.append(
        Measurement("clusters_pairwise", "clusters", f"leaders, cosine by cosine, {shape}", False, spent, "ms")
    )
    texts = FreshTexts(GROUPS, GROUP_SIZE, LENGTH)
    sample = 1 if quick else SAMPLE
    begin = time.process_time()
    for group in range(sample):
        rows_of = np.flatnonzero(texts.table.group == group).tolist()
        matched_texts([text.decode() for text in dict.fromkeys(texts.state[row] for row in rows_of)], THRESHOLD)
    spent = (time.process_time() - begin) * 1e3 * GROUPS / sample
    what = f"leaders by difflib, {GROUPS} groups of texts, extrapolated from {sample}"
    found.append(Measurement("clusters_difflib", "clusters", what, False, spent, "ms"))
    return found
