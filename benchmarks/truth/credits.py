"""Which credits are compared with the truth: those that the files of `wrappers/credit/` declare, and combinations.

The best combination that was found on validation tasks is `wrappers.credit.frontier`; the others are here so that what
they are worth can be measured again.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from agentgym.checks import suggest
from agentgym.trajectory import Floats, StepTable
from benchmarks.json_files import ResultsError
from benchmarks.options import METHODS
from wrappers.credit.evidence import GRAPH, graph_steps
from wrappers.credit.fill_silent import fill_silent
from wrappers.credit.frontier import PRESETS as FRONTIER_PRESETS
from wrappers.credit.frontier import frontier, frontier_values
from wrappers.credit.method import ENTROPY, Credit, credits, methods
from wrappers.credit.potential import potential
from wrappers.credit.rloo import rloo

#: Parts of credits that are no method's own.
REFERENCE, BRANCHES, COMBINED = "reference", "branches", "combined"
#: What differences are taken to: the step part of the method that needs no graph.
BASELINE = f"{METHODS[1]} step"
#: Credits that are made while a player is measured.
BRANCHED, TRUE, RANDOM, SOLVER = "vine", "oracle", "random", "turn_credit total, solver"
#: The name under which the chosen combination is measured.
CHOSEN = "frontier"
#: Methods of the league that come from this project, not from a paper.
OWN = tuple(name for name, method in methods().items() if method.ours)
#: Credits that are shown beside others: of the default benchmark's methods the step part, where there is one.
BESIDE = (METHODS[0], *(f"{name} step" for name in METHODS[1:]))
#: Share of a credit that fills in for another, or that only breaks its ties.
_SHARE = 0.1

#: Every credit that a table alone is enough for.
LEAGUE: tuple[Credit, ...] = tuple(credit for credit in credits() if credit.part != ENTROPY)
#: Credits of learned players beside these: the entropies of replies are estimated from their log-probabilities.
WITH_PROBABILITIES: tuple[Credit, ...] = tuple(credit for credit in credits() if credit.part == ENTROPY)
_REASONS = dict.fromkeys(method.unmeasured for method in methods().values() if method.unmeasured)
#: Methods that are not measured, or not for scripted players, and why.
WITHOUT_ROWS = {
    ", ".join(name for name, method in methods().items() if method.unmeasured == reason): reason for reason in _REASONS
}

bellman = functools.partial(potential, preset="gated_bepo", alpha_episode=0.0, lam=0.0, gate="none", contrast="state")
_frontier = functools.partial(frontier, alpha_episode=0.0)


def best_gain(table: StepTable) -> Floats:
    """Return what a step gains in the values of `frontier`, compared with no other step."""
    found = frontier_values(table)
    return found.worth / FRONTIER_PRESETS["default"]["gamma"] - found.value[found.graph.source]


_PLAIN: Any = {"optimism": 0.0, "share": 0.0}
_COMBINED: Mapping[str, Callable[[StepTable], Floats]] = {
    # Where the graph's step level is 0, a share of the return against the group's others.
    f"{GRAPH}, else rloo": lambda table: fill_silent(graph_steps(table), rloo(table, outcome="won"), _SHARE),
    # ECPO's counts the more the surer means of returns are in a state.
    f"{GRAPH} and ecpo": lambda table: graph_steps(table) + potential(table, preset="ecpo", alpha_episode=0.0),
    "bellman, variance gate": functools.partial(bellman, gate="variance"),
    "bellman, shrunk": functools.partial(bellman, prior=2.0),
    "bellman, shrunk, variance gate": functools.partial(bellman, prior=2.0, gate="variance"),
    "best way, to success": functools.partial(_frontier, **_PLAIN, rewards="end", outcome="won"),
    "best way, of rewards": functools.partial(_frontier, **_PLAIN),
    "best way, filled": functools.partial(_frontier, optimism=0.0),
    "best way, optimistic, its gain": best_gain,
    "frontier and bellman": lambda table: _frontier(table) + _SHARE * bellman(table),
    "frontier, gamma .8": functools.partial(_frontier, gamma=0.8),
    "frontier, gamma .95": functools.partial(_frontier, gamma=0.95),
    CHOSEN: _frontier,
}
COMBINATIONS = (
    *(Credit(name, COMBINED, "", give) for name, give in _COMBINED.items()),
    # Most changes are for the better: a credit that says so of every step shows what `right` is worth.
    Credit("always right", REFERENCE, "", lambda table: np.ones(len(table))),
)
#: The same methods divided by other deviations, and a method of the state graph by other distances.
_VARIANTS = {
    "normalisation": tuple(
        Credit(f"{name}, std={std}", COMBINED, "", functools.partial(methods()[name].credit, std=std))
        for name in METHODS[1:] for std in ("group", "batch", "none")
    ),
    "distance": (
        *(
            dataclasses.replace(credit, part=COMBINED)
            for method in methods().values() for credit in method.credits if credit.part == "distance"
        ),
        # The other mean: not over successes, but over the ways that the group took on from a state.
        Credit("mean over ways on", COMBINED, "", bellman),
    ),
}  # fmt: skip
#: Sets of credits that can be measured, in the order of the tables.
SETS: Mapping[str, tuple[Credit, ...]] = {
    "methods": LEAGUE,
    "published": tuple(credit for credit in LEAGUE if not credit.recent),
    "2026": tuple(credit for credit in LEAGUE if credit.recent or credit.name in BESIDE),
    "all": LEAGUE,
    "combinations": (*LEAGUE, *COMBINATIONS),
    **{
        name: (*(credit for credit in LEAGUE if credit.name in BESIDE), *variants)
        for name, variants in _VARIANTS.items()
    },
}
_KNOWN = {credit.name: credit for credits in (*SETS.values(), WITH_PROBABILITIES) for credit in credits}


def graph_else_vine(vine: Credit) -> Credit:
    """Return the graph's step level, and where it is 0 a share of `vine`'s credit, which needs continuations."""
    return Credit(
        f"{GRAPH}, else vine", COMBINED, "", lambda table: fill_silent(graph_steps(table), vine.give(table), _SHARE)
    )


def names_of(name: str) -> list[str]:
    """Return the names of the credits of a set."""
    if name not in SETS:
        own = "; a function of your own is compared with the methods by --methods of the default benchmark"
        raise ResultsError(f"unknown set of credits {name!r}; {suggest(name, SETS)}{own if ':' in name else ''}")
    return [*(credit.name for credit in SETS[name]), *([SOLVER] if SETS[name] is LEAGUE else [])]


def credits_called(names: Iterable[str], learned: bool) -> list[Credit]:
    """Return the credits with these names; those that need log-probabilities only for a learned player."""
    found = [_KNOWN[name] for name in names if name in _KNOWN]
    return [credit for credit in found if learned or credit.part != ENTROPY]
