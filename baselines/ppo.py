"""PPO's advantages: GAE on a critic's values, over turns, over tokens, or over both.

turn       one value per step; one advantage per step, the same for all tokens of its reply
token      one value per reply token; all replies of a trajectory are one sequence of tokens
bi-level   one value per reply token; GAE over turns, then inside each turn
residual   one value per reply token; GAE over turns, and a share of what tells the tokens of a turn apart
"""

from typing import Annotated, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import StepTable
from baselines.batch import TokenColumns
from baselines.scorers.scorer import Estimate
from wrappers.credit.forks import refuse_forks
from wrappers.credit.gae import GAEOptions, gae, lambda_returns
from wrappers.credit.options import credit, option, presets
from wrappers.credit.returns import episode_scores, penalties
from wrappers.credit.scores import whiten
from wrappers.credit.token_gae import bi_level_gae, token_gae
from wrappers.credit.vetta import vetta

Level = Literal["turn", "token", "bi-level", "residual"]


class PPOOptions(GAEOptions, total=False):
    """Options of `ppo`: those of `gae`, and of the levels."""

    level: Annotated[Level, option("turn", "what is estimated over", authors="token")]
    token_gamma: Annotated[float, option(
        1.0, 'discount per token; gamma is the discount per turn and has no part in level "token"', low=0, high=1,
    )]  # fmt: skip
    token_lam: Annotated[float, option(
        1.0, 'weight of longer looks ahead over tokens at level "residual", where lam is that of turns', low=0, high=1,
    )]  # fmt: skip
    residual: Annotated[float, option(1 / 3, 'how far level "residual" tells the tokens of a turn apart', low=0)]
    whiten: Annotated[bool, option(
        True, 'advantages of a batch get mean 0 and variance 1, over steps at level "turn", else over reply tokens; '
        'the penalty "advantage" is taken off afterwards',
    )]  # fmt: skip


#: "authors" is verl-agent: tokens of one reply only, every reply rewarded with its episode's return.
PRESETS: dict[str, PPOOptions] = presets(PPOOptions)


@credit(PPOOptions, **PRESETS)
def ppo(
    table: StepTable, values: NDArray[np.float64] | None = None, *, preset: str = "paper", **options: Unpack[PPOOptions]
) -> Estimate:
    """Return advantages, and as the critic's targets the returns.

    A truncated episode counts as ended: a table does not hold what the policy would have been shown next.

    Args:
        table: N finished steps; levels other than "turn" need its replies, the longest of K tokens.
        values: float64 (N,) at level "turn", V of the state each reply answers; else (N, K), V before each reply
            token. None: all 0, like those of an untrained critic.

    Raises:
        ValueError: an unknown preset, an option out of range, values of another shape or not finite, or no replies.
    """
    columns = None if options["level"] == "turn" else TokenColumns.from_table(table)
    written = np.ones(len(table), np.bool_) if columns is None else columns.reply_mask
    now = np.zeros(written.shape) if values is None else np.asarray(values, np.float64)
    if now.shape != written.shape:
        unit = "step" if columns is None else "reply token"
        raise ValueError(
            f"level {options['level']!r} needs one value per {unit}, shape {written.shape}, got shape {now.shape}"
        )
    if columns is None:
        estimate = _over_turns(table, now, options)
    elif options["horizon"] == "step":
        estimate = _inside_replies(table, now, columns, options)
    else:
        estimate = _over_tokens(table, now, columns, options)
    advantages = whiten(estimate.advantages, written) if options["whiten"] else estimate.advantages
    return Estimate(_less(advantages, _penalties(table, options, "advantage"), written), estimate.targets)


def _over_turns(table: StepTable, values: NDArray[np.float64], options: PPOOptions) -> Estimate:
    given: GAEOptions = {
        "gamma": options["gamma"], "lam": options["lam"], "horizon": options["horizon"], "penalty": options["penalty"],
        "invalid_penalty": 0.0 if options["penalty"] == "advantage" else options["invalid_penalty"],
    }  # fmt: skip
    return Estimate(gae(table, values=values, **given), lambda_returns(table, values=values, **given))


def _inside_replies(
    table: StepTable, values: NDArray[np.float64], columns: TokenColumns, options: PPOOptions
) -> Estimate:
    if options["level"] != "token":
        raise ValueError("horizon 'step' has no level of turns; use level 'token', or horizon 'trajectory'")
    score = episode_scores(
        table, {"outcome": "return", "invalid_penalty": options["invalid_penalty"], "penalty": options["penalty"]}
    )
    rewards = np.zeros(values.shape)
    rewards[np.arange(len(table)), columns.reply_mask.sum(1) - 1] = score
    return Estimate(
        *token_gae(rewards, values, columns.reply_mask, gamma=options["token_gamma"], lam=options["lam"])
    )  # fmt: skip


def _over_tokens(table: StepTable, values: NDArray[np.float64], columns: TokenColumns, options: PPOOptions) -> Estimate:
    refuse_forks(table, "what follows a shared token is not one sequence; estimate over turns, level='turn'")
    rewards = columns.at_turn_ends(table.reward - _penalties(table, options, "discounted"))
    before = columns.by_trajectory(values)
    token_gamma, lam = options["token_gamma"], options["lam"]
    if options["level"] == "token":
        found = token_gae(rewards, before, columns.mask, gamma=token_gamma, lam=lam)
    elif options["level"] == "residual":
        found = vetta(
            rewards, before, columns.mask, columns.turn_ends, alpha=options["residual"], gamma=token_gamma,
            lam=options["token_lam"], turn_gamma=options["gamma"], turn_lam=lam,
        )[:2]  # fmt: skip
    else:
        found = bi_level_gae(
            rewards, before, columns.mask, columns.turn_ends,
            gamma=token_gamma, lam=lam, turn_gamma=options["gamma"],
        )  # fmt: skip
    lost = _penalties(table, options, "row")
    advantages, returns = (_less(columns.by_reply(array), lost, columns.reply_mask) for array in found)
    return Estimate(advantages, returns)


def _penalties(table: StepTable, options: PPOOptions, where: str) -> NDArray[np.float64]:
    return penalties(table, {"invalid_penalty": options["invalid_penalty"], "penalty": options["penalty"]}, where)


def _less(numbers: NDArray[np.float64], lost: NDArray[np.float64], written: NDArray[np.bool_]) -> NDArray[np.float64]:
    return numbers - (lost if numbers.ndim == 1 else lost[:, None] * written)
