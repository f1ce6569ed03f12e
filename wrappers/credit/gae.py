"""Generalised advantage estimation over turns: one row is one action, V is an argument.

    delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
    A_t = delta_t + gamma lam A_{t+1}                        (Schulman et al. 2016, equation 16)

inside each trajectory; V after a terminated step is 0.
"""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.forks import following, over_forks
from wrappers.credit.method import Method
from wrappers.credit.options import PenaltyOptions, credit, finite_numbers, option, options_of
from wrappers.credit.returns import discounted_returns, episode_scores, penalties
from wrappers.credit.wrapper import CreditWrapper


class GAEOptions(PenaltyOptions, total=False):
    """Options of `gae` and `lambda_returns`."""

    gamma: Annotated[float, option(1.0, "discount per turn", low=0, high=1)]
    lam: Annotated[float, option(
        0.95, "weight of longer horizons: 0 uses the next value, 1 only the rewards", authors=1.0, low=0, high=1,
    )]  # fmt: skip
    horizon: Annotated[Literal["trajectory", "step"], option(
        "trajectory", '"trajectory" sums over the following turns; "step" makes each turn an episode with the whole '
        "return of its trajectory as reward and V = 0 after it (authors' code: gamma and lam have no effect)",
        authors="step",
    )]  # fmt: skip


# The authors' is verl-agent's: every step a bandit with the episode's return, its shipped gamma and lam, the family's
# penalty.
@credit(GAEOptions)
def gae(
    table: StepTable, *, values: ArrayLike, last_values: ArrayLike | None = None, preset: str = "paper",
    **options: Unpack[GAEOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every step, not whitened (see `wrappers.credit.scores.whiten`).

    Args:
        values: float (N,), V of the state each row's action was taken in.
        last_values: float (M,), V after each trajectory's last step, used if that step did not terminate. Default 0,
            which makes late steps of truncated episodes look worse by gamma V.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> gae(table, values=[0.5, 0.8, 0.5], lam=0.5)  # 1 - 0.8; 0.8 - 0.5 + 0.5 * 0.2; 0 - 0.5
    array([ 0.4,  0.2, -0.5])
    """
    advantages = _advantages(table, values=values, last_values=last_values, options=options)
    return advantages - penalties(table, options, "advantage")


@options_of(gae)
def lambda_returns(
    table: StepTable, *, values: ArrayLike, last_values: ArrayLike | None = None, preset: str = "paper",
    **options: Unpack[GAEOptions],
) -> Floats:  # fmt: skip
    """Return float64 (N,): `A_t + V(s_t)`, the critic's target; arguments as `gae`."""
    return _advantages(table, values=values, last_values=last_values, options=options) + np.asarray(values, np.float64)


@over_forks("values")
def _advantages(table: StepTable, *, values: ArrayLike, last_values: ArrayLike | None, options: GAEOptions) -> Floats:
    gamma, lam = options["gamma"], options["lam"]
    now = finite_numbers("values", values, len(table))
    behind = np.zeros(table.n_trajectories)
    if last_values is not None:
        behind = finite_numbers("last_values", last_values, table.n_trajectories, "trajectory")
    if options["horizon"] == "step":
        score = episode_scores(
            table, {"outcome": "return", "invalid_penalty": options["invalid_penalty"], "penalty": options["penalty"]}
        )
        return score - now
    ahead = following(table, now, np.where(table.terminated[table.last], 0.0, behind))
    reward = table.reward - penalties(table, options, "discounted")
    advantages = discounted_returns(table, gamma * lam, reward + gamma * ahead - now)
    return advantages - penalties(table, options, "row")


def _without_a_critic(table: StepTable, **options: Unpack[GAEOptions]) -> Floats:
    return gae(table, values=np.zeros(len(table)), **options)


class GAE(CreditWrapper, method=_without_a_critic):
    """Vector wrapper whose `advantages(values)` are `gae(table(), values=values, **options)`."""

    def advantages(self, values: ArrayLike, last_values: ArrayLike | None = None) -> Floats:  # type: ignore[override]
        """Return float64 (len(table()),), one advantage per row; arguments and errors as `gae` and `table`."""
        return gae(self.table(), values=values, last_values=last_values, **self._options)


METHOD = Method(
    "baselines.ppo:ppo", "Generalised advantage estimation with a learned critic; no groups are compared.",
    scored="turn", scorer="critic", space={"lam": (0.9, 0.95)}, contender="ppo", colour="#999933",
    unmeasured="needs a critic",
)  # fmt: skip
