"""Training data from a search: a table, demonstrations, and pairs of a better and a worse reply."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.rollout.recorder import UnscoredError
from agentgym.trajectory import Ending, Reply, Step, StepTable, Trajectory
from policies.search.tree import Node, Tree


@dataclass(frozen=True)
class Preference:
    """Two replies to the same prompt, a better and a worse one.

    `gap` is by how much their values differ.
    """

    task: str
    state: str
    observation: Any
    chosen: Reply
    rejected: Reply
    gap: float


def to_table(trees: Sequence[Tree]) -> StepTable:
    """Return all simulated steps: one trajectory per simulation, cut from the one that played its first state.

    Groups are tasks. A simulation that ended early, by its budget, its length or a state reached before, has neither
    terminated nor been truncated (`Ending.CUT`). One that could not be scored (`Ending.UNSCORED`) is left out.

    Raises:
        ValueError: nothing was simulated, or no simulation could be scored.
    """
    trajectories: list[Trajectory] = []
    scored: list[bool] = []
    for tree in trees:
        first = len(trajectories)
        for number, end in enumerate(tree.ends):
            nodes = [node for node in end.path if node.simulation == number]
            before = nodes[0].before
            parent = None if before.parent is None else (first + before.simulation, before.t - 1)
            steps = tuple(map(_step, nodes))
            scored.append(end.ending is not Ending.UNSCORED)
            trajectories.append(
                Trajectory(tree.task, first + number, end.won, end.terminated, end.truncated, steps, parent)
            )
    if not trajectories:
        raise ValueError(
            f"the {len(trees)} searches simulated nothing: was there a budget, and an episode to be played?"
        )
    if not any(scored):
        raise UnscoredError(f"none of the {len(scored)} simulations could be scored")
    table = StepTable.from_trajectories(trajectories)
    return table if all(scored) else table.keep(np.array(scored))


def demonstrations(trees: Sequence[Tree], policy: Any = None) -> list[Reply]:
    """Return the replies of the best simulation of every search that was won, to be cloned.

    Args:
        policy: a `policies.huggingface.HuggingFacePolicy` that tokenizes the replies; None: they are not changed.

    Raises:
        ValueError: the policy cannot write one of them.
    """
    steps = [(node.before, node.answer) for tree in trees if tree.best.won for node in tree.best.path]
    if policy is None:
        return [reply for _, reply in steps]
    return [policy.demonstrate(before.observation, reply.text) for before, reply in steps]


def preferences(trees: Sequence[Tree], *, gap: float, visits: int = 1) -> list[Preference]:
    """Return pairs of replies to one state: the best one, and each one that is worse by at least `gap`.

    As in Agent Q (Putta et al. 2024, 2408.07199).

    Args:
        trees: searches that grew a tree (not best of n).
        gap: minimum difference of the values, above 0.
        visits: minimum number of simulations behind each value.

    Raises:
        ValueError: a number is out of range.
    """
    if gap <= 0 or visits < 1:
        raise ValueError(f"pairs need a gap above 0 and at least one visit, got gap={gap}, visits={visits}")
    pairs = []
    for tree in trees:
        for node in tree.root.walk():
            known = [(tree.action_value(child), child) for child in node.children if child.visits >= visits]
            if not known:
                continue
            highest, best = max(known, key=lambda one: one[0])  # of equal ones the first
            for value, child in known:
                if highest - value >= gap:
                    both = best.answer, child.answer
                    pairs.append(Preference(tree.task, node.label, node.observation, *both, highest - value))
    return pairs


def _step(node: Node) -> Step:
    label = f"{node.label} [{node.ending.value}]" if node.ending in (Ending.SUCCESS, Ending.FAILURE) else node.label
    return Step(node.t - 1, node.before.label, node.action, label, node.reward, node.valid, node.reply)
