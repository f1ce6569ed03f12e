"""Step credit of the methods of 2026, as far as a table is all they need; each without its episode level."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from agentgym.trajectory import Floats, StepTable
from benchmarks.ranking.credit import METHODS, STEP, TOTAL, Credit
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.milegpo import milegpo, milestones
from wrappers.credit.potential import potential
from wrappers.credit.salt import salt

#: Of the methods before, those that stand beside the recent ones.
_BESIDE = ("grpo", "gigpo step", "rewardflow step", "graphgpo step")
#: GraphGPO's omega for Sokoban.
_OMEGA = 0.8


def branches(table: StepTable) -> Floats:
    """Return MileGPO's contrast of branches alone: the share of a step's takers that won, less its siblings' mean."""
    found = milestones(table)
    return found.branch[found.pair]


def graph_and_branches(table: StepTable) -> Floats:
    """Return GraphGPO's step level and .3 of the contrast of branches."""
    return graphgpo(table, beta_episode=0.0) + 0.3 * branches(table)


def _family(preset: str, **options: Any) -> Callable[[StepTable], Floats]:
    return functools.partial(potential, preset=preset, alpha_episode=0.0, **options)


def _recent() -> Iterator[Credit]:
    yield from (credit for credit in METHODS if credit.name in _BESIDE)
    # The fixed point alone: one step ahead, in every state.
    yield Credit("bellman", STEP, "", _family("gated_bepo", lam=0.0, gate="none"))
    yield Credit("gated_bepo", STEP, "", _family("gated_bepo"))
    yield Credit("g2po", STEP, "", _family("g2po"))
    yield Credit("g2po", STEP, "authors", _family("g2po_authors"))
    yield Credit("pgpo", STEP, "", _family("pgpo", alpha_return=0.0, gate="none"))
    yield Credit("pgpo", TOTAL, "", functools.partial(potential, preset="pgpo"))
    yield Credit("ecpo", STEP, "", _family("ecpo"))
    yield Credit("rtmc", STEP, "", _family("rtmc"))
    yield Credit("gagpo", STEP, "", _family("gagpo"))
    yield Credit("gagpo", STEP, "lambda 0", _family("gagpo", lam=0.0))
    yield Credit("salt", STEP, "", salt)
    mile = functools.partial(milegpo, gamma=_OMEGA, omega=_OMEGA, alpha_episode=0.0)
    yield Credit("milegpo", STEP, "", mile)
    yield Credit("milegpo", STEP, "webshop", functools.partial(mile, preset="webshop"))
    yield Credit("branches", STEP, "", branches)
    yield Credit("graphgpo", STEP, "with branches", graph_and_branches)


RECENT = tuple(_recent())
