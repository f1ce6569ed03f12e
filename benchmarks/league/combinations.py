"""Combinations of step credit that were tried on validation tasks, each of functions that are there anyway.

The best one is `wrappers.credit.frontier`; the others are here so that what they are worth can be measured again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from agentgym.trajectory import Floats, StepTable
from benchmarks.league.registry import LEAGUE
from benchmarks.ranking.credit import REFERENCE
from wrappers.credit.fill_silent import fill_silent
from wrappers.credit.frontier import PRESETS as FRONTIER_PRESETS
from wrappers.credit.frontier import frontier, frontier_values
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.method import Credit
from wrappers.credit.potential import potential
from wrappers.credit.rloo import rloo

COMBINED = "combined"
#: The name under which the chosen combination is measured.
CHOSEN = "frontier"
#: Methods of the league that come from this project, not from a paper.
OWN = ("attribution", "graphgpo_filled")
#: Share of a credit that fills in for another, or that only breaks its ties.
_SHARE = 0.1

_graph = functools.partial(graphgpo, beta_episode=0.0)
_bellman = functools.partial(potential, preset="gated_bepo", alpha_episode=0.0, lam=0.0, gate="none", contrast="state")
_frontier = functools.partial(frontier, alpha_episode=0.0)


def graph_else_others(table: StepTable) -> Floats:
    """Return GraphGPO's step level, and where it is silent a share of the return against the group's others."""
    return fill_silent(_graph(table), rloo(table, outcome="won"), _SHARE)


def graph_and_visits(table: StepTable) -> Floats:
    """Return GraphGPO's step level and ECPO's, which counts the more the surer means of returns are in a state."""
    return _graph(table) + potential(table, preset="ecpo", alpha_episode=0.0)


def best_and_bellman(table: StepTable) -> Floats:
    """Return `frontier`, whose ties Bellman's values break."""
    return _frontier(table) + _SHARE * _bellman(table)


def best_gain(table: StepTable) -> Floats:
    """Return what a step gains in the values of `frontier`, compared with no other step."""
    found = frontier_values(table)
    return found.worth / FRONTIER_PRESETS["default"]["gamma"] - found.value[found.graph.source]


def _combinations() -> tuple[Credit, ...]:
    plain: Any = {"optimism": 0.0, "share": 0.0}
    gives: dict[str, Callable[[StepTable], Floats]] = {
        "graphgpo, else rloo": graph_else_others,
        "graphgpo and ecpo": graph_and_visits,
        "bellman, variance gate": functools.partial(_bellman, gate="variance"),
        "bellman, shrunk": functools.partial(_bellman, prior=2.0),
        "bellman, shrunk, variance gate": functools.partial(_bellman, prior=2.0, gate="variance"),
        "best way, to success": functools.partial(_frontier, **plain, rewards="end", outcome="won"),
        "best way, of rewards": functools.partial(_frontier, **plain),
        "best way, filled": functools.partial(_frontier, optimism=0.0),
        "best way, optimistic, its gain": best_gain,
        "frontier and bellman": best_and_bellman,
        "frontier, gamma .8": functools.partial(_frontier, gamma=0.8),
        "frontier, gamma .95": functools.partial(_frontier, gamma=0.95),
        CHOSEN: _frontier,
    }
    # Most changes are for the better: a credit that says so of every step shows what `right` is worth.
    always = Credit("always right", REFERENCE, "", lambda table: np.ones(len(table)))
    return (*(Credit(name, COMBINED, "", give) for name, give in gives.items()), always)


COMBINATIONS = _combinations()
#: What the combinations are held against: what papers have published.
PUBLISHED = tuple(credit for credit in LEAGUE if credit.method not in OWN)
#: Everything that is measured, in the order of the tables.
MEASURED = (*LEAGUE, *COMBINATIONS)


def graph_else_vine(vine: Credit) -> Credit:
    """Return GraphGPO's step level, and where it is silent a share of `vine`'s credit, which needs continuations."""
    return Credit(
        "graphgpo, else vine", COMBINED, "", lambda table: fill_silent(_graph(table), vine.give(table), _SHARE)
    )
