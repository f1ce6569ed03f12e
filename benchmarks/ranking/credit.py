"""The credits whose ranking of actions is measured: step parts, fits to outcomes, totals, and two references."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.trajectory import Floats, StepTable
from benchmarks.ranking.learned_credit import agentprm, raw_filled, value_gain
from wrappers.credit.attribution import attribution
from wrappers.credit.fill_silent import graphgpo_filled
from wrappers.credit.gigpo import PRESETS as GIGPO_PRESETS
from wrappers.credit.gigpo import GiGPOOptions, gigpo, step_returns
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.group import number_pairs, visit_advantages
from wrappers.credit.grpo import grpo
from wrappers.credit.hgpo import hgpo
from wrappers.credit.options import choose
from wrappers.credit.reinforce_plus_plus import reinforce_plus_plus
from wrappers.credit.rewardflow import rewardflow
from wrappers.credit.rloo import rloo

EPISODE, STEP, FITTED, TOTAL, REFERENCE = "episode", "step", "fitted", "total", "reference"


@dataclass(frozen=True)
class Credit:
    """One way to give numbers to steps.

    Attributes:
        method: name of the credit method, "oracle" or "random".
        part: "episode" (a method that knows nothing of states), "step" (the step level alone), "fitted" (to the
            outcomes of the group, see `benchmarks.ranking.learned_credit`), "total" or "reference".
        variant: preset and options, "" for the papers' and for references.
        give: float64 (N,) of a table.
    """

    method: str
    part: str
    variant: str
    give: Callable[[StepTable], Floats]

    @property
    def name(self) -> str:
        """Unique among the credits of a study.

        >>> Credit("gigpo", "step", "authors", gigpo).name
        'gigpo step, authors'
        """
        words = f"{self.method} {self.part}" if self.part in (STEP, TOTAL) else self.method
        return f"{words}, {self.variant}" if self.variant else words


#: What differences are taken to: the step part of the method that needs no graph.
BASELINE = "gigpo step"


def gigpo_steps(table: StepTable, *, preset: str = "paper", **options: Any) -> Floats:
    """GiGPO without its episode level, which it has no weight for: returns compared among visits of a state."""
    chosen = choose(GiGPOOptions, GIGPO_PRESETS, preset, options)
    sets, example = number_pairs(table.group, table.n_groups, table.state, len(table.states))
    return visit_advantages(step_returns(table, chosen), sets, len(example), chosen)


def _of_methods() -> Iterator[Credit]:
    steps: dict[str, Callable[..., Floats]] = {
        "gigpo": gigpo_steps,
        "hgpo": hgpo,  # has no episode level unless asked
        "rewardflow": functools.partial(rewardflow, alpha_trajectory=0.0),
        "graphgpo": functools.partial(graphgpo, beta_episode=0.0),
    }
    # Published code takes 0.1 off a refused action whatever the graph says; without it the rest of the code shows.
    variants: dict[str, dict[str, Any]] = {
        "authors": {"preset": "authors"},
        "authors unpenalised": {"preset": "authors", "invalid_penalty": 0.0},
    }
    yield Credit("grpo", EPISODE, "", grpo)
    yield Credit("rloo", EPISODE, "", rloo)
    yield Credit("reinforce_plus_plus", EPISODE, "", reinforce_plus_plus)
    for method, give in steps.items():
        yield Credit(method, STEP, "", give)
    # RewardFlow's paper gives no step credit to moves that change nothing; as self loops they are compared as well.
    yield Credit("rewardflow", STEP, "self loops", functools.partial(steps["rewardflow"], invalid="self_loop"))
    for variant, options in variants.items():
        for method, give in steps.items():
            yield Credit(method, STEP, variant, functools.partial(give, **options))
    fitted: dict[str, Callable[..., Floats]] = {
        "attribution": attribution,
        "agentprm": agentprm,
        "value_gain": value_gain,
        "graphgpo_filled": functools.partial(graphgpo_filled, beta_episode=0.0),
    }
    for method, give in fitted.items():
        yield Credit(method, FITTED, "", give)
    # Explained above the mean of the group, a group without contrast has no credit.
    yield Credit("attribution", FITTED, "centred", functools.partial(attribution, centred=True))
    yield Credit("graphgpo_filled", FITTED, "raw", raw_filled)
    yield Credit("graphgpo_filled", FITTED, "raw centred", functools.partial(raw_filled, centred=True))
    # HGPO's step level is all it has.
    for whole in (gigpo, rewardflow, graphgpo):
        yield Credit(whole.__name__, TOTAL, "", whole)


METHODS = tuple(_of_methods())


def credits(truth: Floats, seed: int, methods: tuple[Credit, ...] = METHODS) -> tuple[Credit, ...]:
    """Return all credits of a study: those of methods, and two references.

    Args:
        truth: float64 (N,), what the reference "oracle" answers: it ranks without error.
        seed: of the reference "random", normally distributed numbers, drawn once: it ranks by chance.
        methods: credits of methods.
    """
    noise = np.random.default_rng(seed).standard_normal(len(truth))
    return (
        *methods,
        Credit("oracle", REFERENCE, "", lambda table: truth),
        Credit("random", REFERENCE, "", lambda table: noise),
    )
