"""HCAPO: a step's return weighted by its reply's likelihood ratio with and without the final state.

rho_t = clip(exp((h_t - l_t) / T), low, high)      h, l: mean log p of a reply's tokens, with and without the final
state
A_t   = A^E_t + omega z_t         z = (Q - mean) / (std + eps) over all steps of the group,  Q_t = rho_t G_t

Source: second hand, notes on the HCAPO paper; see docs/credit for open points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.forks import over_forks
from wrappers.credit.group import episode_advantages, group_means, visit_advantages
from wrappers.credit.method import ASKS_POLICY, Method
from wrappers.credit.options import StatisticsOptions, credit, option, options_of
from wrappers.credit.returns import discounted_returns, episode_scores, penalties, step_rewards
from wrappers.credit.scores import reply_entropies, step_scores


class HCAPOOptions(StatisticsOptions, total=False):
    """Options of `hcapo`."""

    omega: Annotated[float, option(1.0, "weight of the step level")]
    temper: Annotated[float, option(5.0, "T, the divisor of both log-probabilities", low=1e-6)]
    against: Annotated[Literal["reply", "episode"], option(
        "reply", 'denominator of the ratio: the likelihood of the same "reply" without hindsight, or the mean '
        'likelihood in hindsight of the "episode"\'s replies (self-normalised)',
    )]  # fmt: skip
    low: Annotated[float, option(0.8, "smallest ratio", low=0, high=1)]
    high: Annotated[float, option(1.2, "largest ratio", low=1)]
    gamma: Annotated[float, option(1.0, "discount per step of the return G", low=0, high=1)]
    smoothing: Annotated[float, option(0.0, "weight of the neighbours' ratios in a step's ratio", low=0, high=1)]
    neighbours: Annotated[
        Literal["next", "both"], option("next", 'the "next" step of the episode, or "both", the previous and the next')
    ]
    do_no_harm: Annotated[bool, option(False, "negative step levels of won episodes count as 0")]


@credit(HCAPOOptions, paper={})
@over_forks("hindsight", "plain")
def hcapo(
    table: StepTable, *, hindsight: ArrayLike, plain: ArrayLike | None = None, preset: str = "paper",
    **options: Unpack[HCAPOOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every step.

    Args:
        hindsight: float (N,), mean log-probability (natural) of each reply's tokens with the final state in the prompt;
            nan: unknown, ratio 1.
        plain: float (N,), the same without the final state; nan: unknown. None: from `Reply.logprobs`.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> hcapo(table, hindsight=[-1.0, -1.5, -1.0], plain=[-2.0, -1.0, -1.0], std="none").round(3)  # Q: 1.2 .905 0
    array([ 0.998,  0.703, -1.202])
    """
    ratio = hindsight_ratios(table, hindsight=hindsight, plain=plain, **options)
    worth = ratio * _to_come(table, options) - penalties(table, options, "row")
    steps = visit_advantages(worth, table.group, table.n_groups, options)
    if options["do_no_harm"]:
        steps = np.where(table.won, np.maximum(steps, 0.0), steps)
    episodes = episode_advantages(table, episode_scores(table, options), options)
    return episodes + options["omega"] * steps - penalties(table, options, "advantage")


@options_of(hcapo)
@over_forks("hindsight", "plain")
def hindsight_ratios(
    table: StepTable, *, hindsight: ArrayLike, plain: ArrayLike | None = None, preset: str = "paper",
    **options: Unpack[HCAPOOptions],
) -> Floats:  # fmt: skip
    """Return rho of every step, float64 (N,), smoothed if the options say so; arguments as `hcapo`."""
    likely = step_scores("hindsight", hindsight, len(table)) / options["temper"]
    if options["against"] == "episode":
        known = ~np.isnan(likely)
        # Relative to the episode's largest, so that no likelihood is rounded to 0.
        largest = np.full(table.n_trajectories, -np.inf)
        np.maximum.at(largest, table.trajectory[known], likely[known])
        share = np.exp(likely[known] - largest[table.trajectory[known]])
        mean = group_means(share, table.trajectory[known], table.n_trajectories)
        ratio = np.ones(len(table))
        ratio[known] = share / mean[table.trajectory[known]]
    else:
        before = _sampled(table, likely) if plain is None else step_scores("plain", plain, len(table))
        gain = np.nan_to_num(likely - before / options["temper"])
        ratio = np.exp(np.minimum(gain, np.log(options["high"])))  # larger values are clipped anyway, and may overflow
    return _smoothed(table, np.clip(ratio, options["low"], options["high"]), options)


def _sampled(table: StepTable, wanted: Floats) -> Floats:
    found = -reply_entropies(table)
    if np.isnan(found).all() and not np.isnan(wanted).all():
        raise ValueError(
            "no reply of the table has log-probabilities: play with a policy that gives them "
            "(`policies.huggingface`), or give one number per row as `plain`"
        )
    return found


def _smoothed(table: StepTable, ratio: Floats, options: HCAPOOptions) -> Floats:
    order, share = table.order, options["smoothing"]
    inside = np.ones(len(table), np.bool_)  # whether the next row in order goes on with the same episode
    inside[table.offsets[1:] - 1] = False
    inside = inside[:-1]
    total, count = np.zeros(len(table)), np.zeros(len(table))
    own = ratio[order]
    total[:-1] += np.where(inside, own[1:], 0.0)
    count[:-1] += inside
    if options["neighbours"] == "both":
        total[1:] += np.where(inside, own[:-1], 0.0)
        count[1:] += inside
    smooth = np.where(count > 0, (1.0 - share) * own + share * total / np.maximum(count, 1.0), own)
    result = np.empty(len(table))
    result[order] = smooth
    return result


def _to_come(table: StepTable, options: HCAPOOptions) -> Floats:
    return discounted_returns(table, options["gamma"], step_rewards(table, options))


def _figures(table: StepTable, hindsight: Floats, options: Mapping[str, Any]) -> dict[str, float]:
    given: Any = {**options, "smoothing": 0.0}
    ratio = hindsight_ratios(table, hindsight=hindsight, **given)
    clipped = np.isin(ratio, (options["low"], options["high"]))
    found = (ratio.mean(), clipped.mean()) if len(ratio) else (0.0, 0.0)
    return {"hindsight_ratio": float(found[0]), "hindsight_clipped": float(found[1])}


METHOD = Method(
    hcapo, "Group advantages, plus returns weighted by the reply's likelihood when the policy reads the end.",
    scored="turn", argument="hindsight", silent=np.nan, figures=_figures, scorer="reply_in_hindsight",
    unmeasured=ASKS_POLICY,
)  # fmt: skip
