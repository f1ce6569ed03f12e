"""Groups of rows: numbering, and statistics inside all groups of a batch at once."""

import dataclasses
import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.checks import LARGEST
from agentgym.trajectory import Bools, Floats, Ints, StepTable
from wrappers.credit.forks import first_rows, refuse_forks
from wrappers.credit.options import StatisticsOptions

#: A group whose values span no more than this share of their largest magnitude has no contrast: it scores 0.
#: Wide enough for rounding of sums, far below anything the eps of the papers lets through.
TOLERANCE = 1e-9
#: Smallest deviation to divide by: squares of smaller numbers underflow or lose their digits.
LEAST_SCALE = 1e-150

#: Pairs are numbered in a table of all possible pairs while it has at most this many cells per row.
_DENSE = 16


def number_pairs(first: Ints, n_first: int, second: Ints, n_second: int) -> tuple[Ints, Ints]:
    """Number the distinct pairs of two int (N,) columns in O(N + n_first + n_second), in lexicographic order.

    Returns ids int64 (N,), 0..K-1, and int64 (K,), the first row of each pair.
    """
    n, n_pairs = len(first), n_first * n_second
    if n_pairs <= _DENSE * n:
        # One cell per possible pair: it holds the first row of the pair, then the pair's number.
        cell = first * n_second + second
        rows = np.arange(n)
        content = np.empty(n_pairs, np.int64)
        content[cell[::-1]] = rows[::-1]  # of several assignments to a cell the last one stays
        occurs = np.zeros(n_pairs, np.bool_)
        occurs[cell] = True
        distinct = np.flatnonzero(occurs)
        example = content[distinct]
        content[distinct] = np.arange(len(distinct))
        return content[cell], example
    order = counting_sort(second, n_second)
    order = order[counting_sort(first[order], n_first)]
    a, b = first[order], second[order]
    new = np.ones(n, np.bool_)
    new[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    ids = np.empty(n, np.int64)
    ids[order] = np.cumsum(new) - 1
    return ids, order[new]


def states_of(table: StepTable) -> tuple[Ints, int]:
    """Number the states of each group: int64 (N,), from 0, and how many there are."""
    ids, example = number_pairs(table.group, table.n_groups, table.state, len(table.states))
    return ids, len(example)


def choices_of(table: StepTable) -> tuple[Ints, int]:
    """Number the choices of each group, an action in a state: int64 (N,), from 0, and how many there are."""
    ids, example = number_pairs(*states_of(table), table.action, len(table.actions))
    return ids, len(example)


def split_groups(table: StepTable, size: int) -> StepTable:
    """Cut every group into disjoint parts of `size` trajectories, small ones in large ones, or raise ValueError."""
    members = np.bincount(table.trajectory_group, minlength=table.n_groups)
    if (members % size).any():
        raise ValueError(f"groups of {sorted(set(members.tolist()))} episodes cannot be cut into parts of {size}")
    order = np.argsort(table.trajectory_group, kind="stable")
    part = np.empty(table.n_trajectories, np.int64)
    part[order] = np.arange(table.n_trajectories) // size
    labels = tuple((table.groups[group], i) for group, count in enumerate(members // size) for i in range(count))
    return dataclasses.replace(table, group=part[table.trajectory], groups=labels)


def contexts(table: StepTable, k: int) -> list[tuple[Ints, int]]:
    """Number the contexts of 0 to k previous states: for each length int64 (N,), -1 for none; and their number.

    Rows share a context of length j if they agree in group, current state and the j states before. A row with fewer
    than j rows before it has none. A branch continues the history of the trajectory it was cut from.
    """
    previous = table.previous
    result = [states_of(table)]
    for _ in range(k):
        shorter, n_shorter = result[-1]
        # The context one state longer is the shorter context of the row before, and this row's state.
        rows = np.flatnonzero(previous >= 0)
        rows = rows[shorter[previous[rows]] >= 0]
        ids = np.full(len(table), -1)
        ids[rows], example = number_pairs(shorter[previous[rows]], n_shorter, table.state[rows], len(table.states))
        result.append((ids, len(example)))
    return result


def standardise(
    values: Floats, groups: Ints, n_groups: int, *, members: Ints | None = None, member_values: Floats | None = None,
    member_weights: Floats | None = None, std: Literal["group", "batch", "none", "mean"] = "group", ddof: int = 1,
    eps: float = 1e-6, singleton: Literal["zero", "raw"] = "zero",
) -> Floats:  # fmt: skip
    """Score every row against its group: `(value - mean) / (std + eps)`, float64 (N,); exactly 0 without contrast.

    Args:
        values: float64 (N,).
        groups: int64 (N,), 0..n_groups-1.
        members: rows that enter the statistics (such as one per trajectory), at least one per group; default all.
        member_values: float64 (len(members),), used in the statistics; default their own values.
        member_weights: float64 (len(members),), above 0, their counts; default 1.
        **options: `std`, `ddof`, `eps` and `singleton` as in `StatisticsOptions`; "raw" assumes mean 0 and standard
            deviation 1.
    """
    if len(values) == 0:
        return np.zeros(0)
    sample, inside = (values, groups) if members is None else (values[members], groups[members])
    sample = sample if member_values is None else member_values
    if std == "mean" and not ((values >= 0) & (values <= 1)).all():
        bad = float(values[np.argmin((values >= 0) & (values <= 1))])
        raise ValueError(
            f"std='mean' divides by the mean success of a group and needs outcomes from 0 to 1, got {bad}: set "
            "outcome='won', and penalty='advantage' where invalid actions are penalised; it is not for shaped rewards "
            "or scores of steps"
        )
    times = 1.0 if member_weights is None else member_weights
    count = np.bincount(inside, weights=member_weights, minlength=n_groups)
    mean = np.bincount(inside, weights=times * sample, minlength=n_groups) / np.maximum(count, 1)
    low, high = ranges(sample, inside, n_groups)
    noise = TOLERANCE * np.maximum(np.abs(low), np.abs(high))
    flat = high - low <= noise
    if singleton == "raw":
        mean[count == 1] = 0.0
    centred = values - mean[groups]
    # Rows outside the sample (a penalised row) may differ from a flat sample; a zero deviation gives no scale for
    # them, no division does.
    still = flat[groups] if std == "group" else flat[groups] & (np.abs(centred) <= noise[groups])
    scale: Floats
    if std == "none":
        scale = np.ones(n_groups)
    elif std == "mean":
        scale = mean
    else:
        squares = times * (sample - mean[inside]) ** 2
        if std == "group":
            variance = np.bincount(inside, weights=squares, minlength=n_groups) / np.maximum(count - ddof, 1)
        else:
            variance = np.full(n_groups, squares.sum() / max(count.sum() - ddof, 1))
        scale = np.sqrt(variance) + eps
    if singleton == "raw":
        alone = count == 1
        scale[alone] = 1.0 if std == "none" else 1.0 + eps
        still &= ~alone[groups]
    return np.where(still, 0.0, centred / np.where(scale > LEAST_SCALE, scale, 1.0)[groups])


def whitened(values: Floats, weights: Floats | None = None, *, ddof: int = 1, eps: float = 1e-8) -> Floats:
    """Bring values to mean 0 and variance 1: `(x - mean) / sqrt(variance + eps)`, float64 (N,); 0 without contrast.

    `weights`: float64 (N,), counts of the values in mean and variance, at least one above 0; default 1. `ddof`: 1
    sample, 0 population variance.

    >>> whitened(np.array([1.0, 1.0, 4.0])).round(3)
    array([-0.577, -0.577,  1.155])
    """
    times = np.ones(len(values)) if weights is None else weights
    inside = values[times > 0]
    largest = np.abs(inside).max(initial=0.0)
    if largest > LARGEST:  # its square may overflow
        return whitened(values / largest, weights, ddof=ddof, eps=0.0)
    noise = TOLERANCE * largest
    if len(inside) == 0 or np.ptp(inside) <= noise:
        return np.zeros(len(values))
    mean = float(np.average(values, weights=times))
    if abs(mean) <= noise:  # only rounding: what is 0 stays exactly 0
        mean = 0.0
    variance = float(np.sum(times * (values - mean) ** 2)) / max(float(times.sum()) - ddof, 1.0)
    scale = float(np.sqrt(variance + eps))
    scores: Floats = (values - mean) / (scale if scale > LEAST_SCALE else 1.0)
    return scores


def centred_ranks(values: Floats, sets: Ints, n_sets: int) -> Floats:
    """Return the rank of every value within its set minus the set's mean rank, float64 (N,); ties share a rank.

    >>> centred_ranks(np.array([5.0, 7.0, 5.0, -np.inf]), np.array([0, 0, 0, 1]), 2)
    array([-0.5,  1. , -0.5,  0. ])
    """
    order = np.lexsort((values, sets))
    v, s = values[order], sets[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (v[1:] != v[:-1]) | (s[1:] != s[:-1])
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, len(order)))
    ranks = np.empty(len(order))
    ranks[order] = np.repeat(starts + (lengths - 1) / 2, lengths)
    counts = np.bincount(sets, minlength=n_sets)
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    return ranks - (first + (counts - 1) / 2)[sets]


def group_means(values: Floats, groups: Ints, n_groups: int) -> Floats:
    """Return float64 (n_groups,): the mean of each group's values, 0 for an empty group.

    >>> group_means(np.array([1.0, 2.0, 6.0]), np.array([0, 2, 2]), 3)
    array([1., 0., 4.])
    """
    total = np.bincount(groups, weights=values, minlength=n_groups)
    mean: Floats = total / np.maximum(np.bincount(groups, minlength=n_groups), 1)
    return mean


def has_contrast(table: StepTable, contrast: Literal["won", "return"] = "won") -> Bools:
    """Return bool (n_groups,): the group's episodes differ, in success or in their returns."""
    values = table.trajectory_won.astype(np.float64) if contrast == "won" else table.episode_return
    low, high = ranges(values, table.trajectory_group, table.n_groups)
    differs: Bools = high - low > TOLERANCE * np.maximum(np.abs(low), np.abs(high))
    return differs


def ranges(values: Floats, groups: Ints, n_groups: int) -> tuple[Floats, Floats]:
    """Return the lowest and the highest value of each group, float64 (n_groups,) each; inf and -inf without values."""
    low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(low, groups, values)
    np.maximum.at(high, groups, values)
    return low, high


def largest_of(values: Floats, groups: Ints, n_groups: int) -> Floats:
    """Return float64 (n_groups,): the largest value of each group, at least 0.

    >>> largest_of(np.array([1.0, 2.0, -6.0]), np.array([0, 0, 1]), 2)
    array([2., 0.])
    """
    largest = np.zeros(n_groups)
    np.maximum.at(largest, groups, values)
    return largest


def others_factor(members: Ints, n_groups: int, weights: Floats | None = None) -> Floats:
    """Return float64 (n_groups,): `n / (n - 1)`, or 1 for n < 2.

    It turns the distance to the mean of all n members into the distance to the mean of the others. `members`: int64
    (M,), the group of each; `weights`: float64 (M,), their counts, default 1.

    >>> others_factor(np.array([0, 0, 0, 1]), 2)
    array([1.5, 1. ])
    """
    count = np.bincount(members, weights=weights, minlength=n_groups).astype(np.float64)
    return np.divide(count, count - 1.0, out=np.ones_like(count), where=count > 1)


def episode_advantages(table: StepTable, scores: Floats, options: StatisticsOptions) -> Floats:
    """Compare episodes inside their group by `scores`, float64 (N,), the episode's value on each row: float64 (N,).

    Options used: `over`, `std`, `ddof`, `eps`, `singleton`.

    Raises:
        ValueError: on a table with forks; use `wrappers.credit.returns.episode_level`.
    """
    refuse_forks(table, "an episode level compares whole episodes, see wrappers.credit.forks.over_forks")
    members = first_rows(table) if options["over"] == "trajectories" else None
    return standardise(scores, table.group, table.n_groups, members=members, **statistics_of(options))


def visit_advantages(
    values: Floats, groups: Ints, n_groups: int, options: StatisticsOptions, *, scored: Bools | None = None,
    members: Ints | None = None, member_values: Floats | None = None, singleton: Literal["zero", "raw"] = "zero",
) -> Floats:  # fmt: skip
    """Compare steps from the same state, float64 (N,); groups of one, and rows that are not scored, get 0.

    Args:
        values: float64 (N,), compared.
        groups: int64 (N,), equal for the same state of the same task.
        scored: bool (N,), rows that take part; default all.
        members: scored rows that enter the statistics; default all scored rows.
        member_values: float64 (len(members),), used in the statistics; default their own values.
        singleton: a group with one member scores 0, or its raw value.
    """
    refuse_mean(options["std"])
    take: NDArray[np.int64] = np.arange(len(values)) if scored is None else np.flatnonzero(scored)
    if members is not None:
        position = np.empty(len(values), np.int64)
        position[take] = np.arange(len(take))
        members = position[members]
    result = np.zeros(len(values))
    how = statistics_of({**options, "singleton": singleton})
    result[take] = standardise(
        values[take], groups[take], n_groups, members=members, member_values=member_values, **how
    )
    return result


def statistics_of(options: StatisticsOptions) -> dict[str, Any]:
    """Return the options that `standardise` takes under their names."""
    return {name: options[name] for name in ("std", "ddof", "eps", "singleton")}


def refuse_mean(std: str) -> None:
    """Raise ValueError if anything other than outcomes would be divided by a group's mean success."""
    if std == "mean":
        raise ValueError(
            "std='mean' divides outcomes by the mean success of their group and is not for levels of steps: use "
            "'group', 'batch' or 'none', or a method that compares only episodes"
        )


def component_advantages(
    table: StepTable, components: ArrayLike, weights: ArrayLike | None, options: StatisticsOptions, least: float = 1e-3
) -> Floats:
    """Compare episodes by several rewards (GDPO): float64 (N,), the same for all rows of a trajectory.

    Each reward's episode sums are compared inside their group, weighted and added, and the sums of all episodes brought
    to mean 0 and variance 1. The weights act after the division by the deviation, which would amplify a reward that
    hardly differs: one whose range in a group is below `least` of its largest magnitude is left out in that group.

    Args:
        components: float (N, C), each step's part of each reward.
        weights: float (C,); None: 1 each.
        options: statistics, see `episode_advantages`.

    Raises:
        ValueError: on arrays of another shape, or numbers that are not finite.

    Warns:
        RuntimeWarning: a reward is constant in all groups; it is left out.
    """
    refuse_forks(table, "reward components are summed over whole trajectories, give it table.unfolded()[0]")
    earned = np.asarray(components, np.float64)
    if earned.ndim != 2 or len(earned) != len(table) or not np.isfinite(earned).all():
        raise ValueError(f"components must be finite numbers of shape ({len(table)}, rewards), got {earned.shape}")
    times = np.ones(earned.shape[1]) if weights is None else np.asarray(weights, np.float64)
    if times.shape != (earned.shape[1],) or not np.isfinite(times).all():
        raise ValueError(f"weights must be one finite number per reward ({earned.shape[1]}), got {weights!r}")
    total = np.zeros(len(table))
    for number, weight in enumerate(times.tolist()):
        sums: Floats = np.bincount(table.trajectory, earned[:, number], table.n_trajectories).astype(np.float64)
        low, high = ranges(sums, table.trajectory_group, table.n_groups)
        tells = high - low > least * np.abs(sums).max(initial=0.0)
        if len(sums) and not tells.any():
            warnings.warn(
                f"reward component {number} hardly differs in any group: left out", RuntimeWarning, stacklevel=3
            )
        total += weight * np.where(tells[table.group], episode_advantages(table, sums[table.trajectory], options), 0.0)
    whole: Floats = whitened(total[table.last], ddof=options["ddof"])[table.trajectory]
    return whole


def counting_sort(keys: Ints, n_keys: int) -> Ints:
    """Stable order of small integers in linear time: numpy sorts 16-bit integers by counting."""
    order = keys.astype(np.uint16).argsort(kind="stable")
    for shift in range(16, (n_keys - 1).bit_length(), 16):
        order = order[(keys[order] >> shift).astype(np.uint16).argsort(kind="stable")]
    return order
