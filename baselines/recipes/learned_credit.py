"""Advantages from what a scorer says: how each method of learned step rewards uses its numbers.

    advantage-like   iStar, PRIME                compared with all steps of the group, as they are
    contribution     SPA, HISR, attribution      rewards: compared with all steps of the group, or summed to go
    value            AgentPRM, most judges       compared inside one state only, or differences first
    likelihood       HCAPO, IGPO                 of the reply in hindsight, or of the right answer: by their own rules

The pure functions behind them are in `wrappers.credit`. Here a gate is added: a scorer that knows nothing yet is
standardised to the size of the outcomes all the same, and then it is noise. With a gate, alpha is multiplied by what
the scores are worth on the batch at hand, which a scorer with `order` "after" has not learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Floats, StepTable
from baselines.batch import reply_lengths
from baselines.scorers.scorer import Estimate
from wrappers.credit.attribution import attribution
from wrappers.credit.evidence import agreement, pair_accuracy
from wrappers.credit.hcapo import PRESETS as HCAPO_PRESETS
from wrappers.credit.hcapo import HCAPOOptions, hcapo, hindsight_ratios
from wrappers.credit.igpo import PRESETS as IGPO_PRESETS
from wrappers.credit.igpo import IGPOOptions, igpo
from wrappers.credit.options import credit, option, presets
from wrappers.credit.prime import PRESETS as PRIME_PRESETS
from wrappers.credit.prime import PRIMEOptions, prime
from wrappers.credit.process_reward import PRESETS as STEP_PRESETS
from wrappers.credit.process_reward import ProcessRewardOptions, process_reward
from wrappers.credit.spa import SPAOptions, spa


class GateOptions(TypedDict, total=False):
    """How far a scorer is trusted."""

    gate: Annotated[
        Literal["none", "accuracy", "centred", "agreement"],
        option(
            "none",
            'what alpha is multiplied by: "none", 1; 2 a - 1 of the "accuracy" a with which the scores tell won from '
            'lost trajectories, or of the "centred" one, which does not see lengths; their "agreement" with the state '
            "graph, `wrappers.credit.evidence.agreement`; nothing below 0",
        ),
    ]


class ScoredStepsOptions(ProcessRewardOptions, GateOptions, total=False):
    """Options of `scored_steps`: those of `process_reward`, and a gate."""


class ScoredTokensOptions(PRIMEOptions, GateOptions, total=False):
    """Options of `scored_tokens`: those of `prime`, and a gate."""


class ContributionOptions(ScoredStepsOptions, SPAOptions, total=False):
    """Options of `spa_steps` and `spa_ridge`: those of `spa` for the rewards, and of `process_reward` for their use."""


def _with_gate(known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {**preset, "gate": "none"} for name, preset in known.items()}


STEPS: dict[str, ScoredStepsOptions] = _with_gate(STEP_PRESETS)
TOKENS: dict[str, ScoredTokensOptions] = _with_gate(PRIME_PRESETS)
CONTRIBUTIONS: dict[str, ContributionOptions] = presets(ContributionOptions, paper={"outcome": "won"})


@credit(ScoredStepsOptions, **STEPS)
def scored_steps(
    table: StepTable, scores: Floats | None = None, *, preset: str = "paper", **options: Unpack[ScoredStepsOptions]
) -> Estimate:
    """Return advantages from one score per step: `process_reward`, its alpha behind a gate.

    Args:
        scores: float64 (N,), nan: not scored; None: all 0, as of a scorer that has not learned yet.

    Returns:
        Advantages (N,), no targets, and as figures what the scores are worth, see `worth`.
    """
    said = np.zeros(len(table)) if scores is None else scores
    trust, figures = worth(table, said, options["gate"])
    given: Any = _only(ProcessRewardOptions, options) | {"alpha": trust * options["alpha"]}
    return Estimate(process_reward(table, scores=said, **given), figures=figures)


@credit(ScoredTokensOptions, **TOKENS)
def scored_tokens(
    table: StepTable, scores: Floats | None = None, *, preset: str = "paper", **options: Unpack[ScoredTokensOptions]
) -> Estimate:
    """Return advantages from one score per reply token: `prime`, its alpha behind a gate.

    Args:
        table: N steps of finished groups, with replies.
        scores: float64 (N, K), K tokens of the longest reply; None: all 0.

    Returns:
        Advantages (N, K), no targets, and as figures what the sums over each reply are worth, see `worth`.
    """
    lengths = reply_lengths(table)
    mask = np.arange(lengths.max(initial=1)) < lengths[:, None]
    said = np.zeros(mask.shape) if scores is None else scores
    trust, figures = worth(table, np.where(mask, said, 0.0).sum(axis=1), options["gate"])
    given: Any = _only(PRIMEOptions, options) | {"alpha": trust * options["alpha"]}
    return Estimate(prime(table, scores=said, mask=mask, **given), figures=figures)


@credit(ContributionOptions, **CONTRIBUTIONS)
def spa_steps(
    table: StepTable, scores: Floats | None = None, *, preset: str = "paper", **options: Unpack[ContributionOptions]
) -> Estimate:
    """Return advantages from each step's estimated contribution to the outcome: SPA's rewards, compared in the group.

    Args:
        scores: float64 (N,), contributions; nan: none estimated; None: all 0.

    Returns:
        Advantages (N,), no targets, and as figures what the contributions are worth, see `worth`.
    """
    said = np.zeros(len(table)) if scores is None else scores
    trust, figures = worth(table, said, options["gate"])
    return Estimate(_from_contributions(table, said, options, trust), figures=figures)


@credit(ContributionOptions, **CONTRIBUTIONS)
def spa_ridge(table: StepTable, *, preset: str = "paper", **options: Unpack[ContributionOptions]) -> Floats:
    """Return the same advantages from contributions in closed form, `wrappers.credit.attribution`: no network.

    Returns:
        float64 (N,).
    """
    said = attribution(table, outcome=options["outcome"])
    trust = 1.0 if options["gate"] == "none" else worth(table, said, options["gate"])[0]
    return _from_contributions(table, said, options, trust)


@credit(HCAPOOptions, **HCAPO_PRESETS)
def hcapo_steps(
    table: StepTable, scores: Floats | None = None, *, preset: str = "paper", **options: Unpack[HCAPOOptions]
) -> Estimate:
    """Return HCAPO's advantages from the likelihood of every reply in hindsight.

    Args:
        table: N steps of finished groups, with replies that have log-probabilities.
        scores: float64 (N,), mean log-probability of each reply's tokens with the final state in the prompt; nan: not
            known; None: none is.

    Returns:
        Advantages (N,), no targets, and "hindsight_ratio", the mean of the ratios, with "hindsight_clipped", the share
        of them at a bound.
    """
    said = np.full(len(table), np.nan) if scores is None else scores
    own: HCAPOOptions = {**options, "smoothing": 0.0}
    ratio = hindsight_ratios(table, hindsight=said, **own)
    bounds = options["low"], options["high"]
    figures = {"hindsight_ratio": _mean(ratio), "hindsight_clipped": _mean(np.isin(ratio, bounds))}
    return Estimate(hcapo(table, hindsight=said, **options), figures=figures)


@credit(IGPOOptions, **IGPO_PRESETS)
def igpo_steps(
    table: StepTable, scores: Floats | None = None, *, preset: str = "paper", **options: Unpack[IGPOOptions]
) -> Estimate:
    """Return IGPO's advantages from the policy's belief in the right answer before every step.

    Args:
        scores: float64 (N,), beliefs; None: all 0.

    Returns:
        Advantages (N,), no targets, and "belief", the mean of the beliefs, with "belief_last", that before the last
        steps.
    """
    said = np.zeros(len(table)) if scores is None else scores
    figures = {"belief": _mean(said), "belief_last": _mean(said[table.last])}
    return Estimate(igpo(table, beliefs=said, preset=preset, **options), figures=figures)


def worth(table: StepTable, scores: Floats, gate: str) -> tuple[float, dict[str, float]]:
    """Return what alpha is multiplied by, and for the log what the scores are worth on this table.

    Returns:
        The factor, 0..1; "prm_pair_accuracy", "prm_centred_accuracy", "prm_agreement", see `wrappers.credit.evidence`,
        "prm_scored" (share of steps with a score), and "prm_gate" where there is a gate.
    """
    figures = {
        "prm_pair_accuracy": pair_accuracy(table, scores),
        "prm_centred_accuracy": pair_accuracy(table, scores, centred=True),
        "prm_agreement": agreement(table, scores),
        "prm_scored": 1.0 - float(np.isnan(scores).mean()) if len(scores) else 0.0,
    }
    if gate == "none":
        return 1.0, figures
    if gate == "agreement":
        found = figures["prm_agreement"]
    else:
        found = 2 * figures["prm_centred_accuracy" if gate == "centred" else "prm_pair_accuracy"] - 1
    figures["prm_gate"] = max(0.0, found)
    return figures["prm_gate"], figures


def _from_contributions(table: StepTable, said: Floats, chosen: ContributionOptions, trust: float) -> Floats:
    rewarding: Any = _only(SPAOptions, chosen)
    using: Any = _only(ProcessRewardOptions, chosen) | {"alpha": trust * chosen["alpha"]}
    return process_reward(table, scores=spa(table, contributions=said, **rewarding), **using)


def _only(options_type: Any, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The options that another function takes."""
    return {name: value for name, value in chosen.items() if name in options_type.__annotations__}


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 0.0
