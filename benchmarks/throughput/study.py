"""Speeds of environments, levels, searches, credit and clusters, beside peers and limits of the same run.

    python -m benchmarks.run throughput

Every figure is processor time of one thread (`time.process_time`), best of several repetitions, so that other jobs
on the machine disturb little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.machine import Machine, describe_machine
from benchmarks.throughput import peers
from benchmarks.throughput.cluster_speed import measure_clusters
from benchmarks.throughput.credit_sizes import QUICK_SIZES, SIZES, SizeTimes, measure_sizes
from benchmarks.throughput.credit_speed import LARGER, SHAPE, measure_credit
from benchmarks.throughput.dialogue_speed import measure_dialogues
from benchmarks.throughput.household_speed import measure_households, package_stepper
from benchmarks.throughput.level_speed import measure_levels
from benchmarks.throughput.question_speed import measure_questions
from benchmarks.throughput.search_speed import measure_searches
from benchmarks.throughput.shop_speed import measure_shops
from benchmarks.throughput.step_speed import measure_steps
from benchmarks.throughput.timing import Measurement

#: Methods on a state graph.
_GRAPHS = ("rewardflow", "graphgpo")


@dataclass(frozen=True)
class Ratio:
    """How many times faster ours is than a peer or a limit (below 1: slower)."""

    section: str
    what: str
    value: float


@dataclass(frozen=True)
class Throughput:
    """Everything one run measured; written as `throughput.json`."""

    machine: Machine
    quick: bool
    measurements: list[Measurement]
    ratios: list[Ratio]
    skipped: list[str]
    sizes: list[SizeTimes] = field(default_factory=list)


def ratios(found: Sequence[Measurement], sizes: Sequence[SizeTimes] = ()) -> list[Ratio]:
    """Compare ours with every peer and limit that was measured."""
    value = {measurement.key: measurement.value for measurement in found}
    peers_of_steps = {
        "gym_sokoban_rgb_array": "gym-sokoban as it is (rgb_array)",
        "gym_sokoban_tiny_rgb_array": "gym-sokoban, tiny_rgb_array",
        "gym_sokoban_none": "gym-sokoban without rendering",
        "stock_128": "gymnasium SyncVectorEnv",
        "bare": "limit of a bare Python loop",
    }
    pairs = [
        ("steps", "steps_vector_128", f"steps_{peer}", f"make_vec, 128 places / {words}")
        for peer, words in peers_of_steps.items()
    ]
    pairs += [
        ("levels", f"levels_{boxes}", f"levels_gym_sokoban_{boxes}", f"generator / gym-sokoban, boxes: {boxes}")
        for boxes in (1, 2, 3)
    ]
    pairs.append(
        ("households", "households_vector_128", "households_package", "make_vec, 128 places / alfworld package")
    )
    pairs.append(("dialogues", "dialogues_new", "dialogues_package", "128 places, all new / sotopia package"))
    pairs.append(("searches", "searches_single", "searches_sqlite", "lexical / SQLite FTS5, one query at a time"))
    result = [
        Ratio(section, what, value[ours] / value[other])
        for section, ours, other, what in pairs
        if ours in value and other in value
    ]
    # Milliseconds: less is better, so these ratios are turned round.
    value |= {f"texts_{times.shape}": times.whole["gigpo"] for times in sizes}
    pairs = [("credit", "credit_sweeps", f"credit_{name}", f"{name} / sweeps over a dict graph") for name in _GRAPHS]
    for key, shape in (("credit_dicts", SHAPE), ("credit_dicts_larger", LARGER)):
        size = " x ".join(map(str, shape))
        pairs.append(("credit", key, f"texts_{size}", f"gigpo from texts / scanning rows, {size} steps"))
    pairs += [
        ("clusters", "clusters_pairwise", "clusters_leader", "leaders / cosine by cosine"),
        ("clusters", "clusters_difflib", "clusters_leader", "leaders, vectors given / difflib on texts"),
    ]
    result += [
        Ratio(section, what, value[other] / value[ours])
        for section, other, ours, what in pairs
        if ours in value and other in value
    ]
    return result


def measure(quick: bool, progress: Callable[[str], None] = lambda words: None) -> Throughput:
    """Measure everything.

    Args:
        quick: fewer and shorter repetitions.
        progress: called with what is being measured.
    """
    found: list[Measurement] = []
    parts = (
        ("steps", measure_steps),
        ("levels", measure_levels),
        ("households", measure_households),
        ("shops", measure_shops),
        ("questions", measure_questions),
        ("searches", measure_searches),
        ("dialogues", measure_dialogues),
        ("credit", measure_credit),
        ("clusters", measure_clusters),
    )
    for words, part in parts:
        progress(words)
        found += part(quick)
    progress("credit over the size of a batch")
    sizes = measure_sizes(quick, QUICK_SIZES if quick else SIZES)
    skipped = []
    if peers.gym_sokoban_classes() is None:
        skipped.append("gym-sokoban is not installed: pip install gym gym-sokoban==0.0.6 and run again to compare")
    package = package_stepper()
    if isinstance(package, str):
        skipped.append(package)
    return Throughput(describe_machine(), quick, found, ratios(found, sizes), skipped, sizes)
