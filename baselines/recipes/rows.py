"""The recipes there are, by name, and the numbers all of them are trained with."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from agentgym.checks import suggest
from baselines.config import Checkpoints, Loss, Optimiser, Schedule, TrainerConfig, Validation
from baselines.ppo import ppo
from baselines.recipes.definition import Recipe
from baselines.recipes.learned_credit import hcapo_steps, igpo_steps, scored_steps, scored_tokens, spa_ridge, spa_steps
from baselines.recipes.search_rows import SEARCH_ROWS
from baselines.scorers.action_value import ActionValueConfig
from baselines.scorers.answer_belief import AnswerBeliefConfig
from baselines.scorers.contribution import ContributionConfig
from baselines.scorers.critic import CriticConfig
from baselines.scorers.implicit_reward import ImplicitRewardConfig
from baselines.scorers.reply_in_hindsight import ReplyInHindsightConfig
from baselines.scorers.segmented_reward import SegmentedRewardConfig
from baselines.scorers.task_distance import TaskDistanceConfig
from wrappers.credit.aem import aem
from wrappers.credit.bpo import bpo
from wrappers.credit.dapo import dapo
from wrappers.credit.empg import empg
from wrappers.credit.fill_silent import graphgpo_filled
from wrappers.credit.frontier import frontier
from wrappers.credit.gigpo import gigpo
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.grpo import grpo
from wrappers.credit.hgpo import hgpo
from wrappers.credit.milegpo import milegpo
from wrappers.credit.options import read_options
from wrappers.credit.potential import potential
from wrappers.credit.ragen2 import ragen2
from wrappers.credit.reinforce_plus_plus import reinforce_plus_plus, reinforce_plus_plus_baseline
from wrappers.credit.rewardflow import rewardflow
from wrappers.credit.rloo import rloo
from wrappers.credit.salt import salt
from wrappers.credit.tree_grpo import tree_grpo
from wrappers.credit.vine import vine

# The papers' runs all take 0.1 off for an invalid action. Taken off the advantage it is also felt where the whole group
# fails, which is where a policy that runs into walls needs it; taken off the return it would cancel there.
_PENALTY: Mapping[str, Any] = {"invalid_penalty": 0.1, "penalty": "advantage"}

_ALL = (
    Recipe(
        "grpo",
        grpo,
        {"preset": "paper", **_PENALTY},
        "An episode's return against its group, the same for every step.",
    ),
    Recipe(
        "rloo",
        rloo,
        {"preset": "paper", **_PENALTY},
        "An episode's return against the mean of the group's other episodes.",
    ),
    Recipe(
        "reinforce_plus_plus",
        reinforce_plus_plus,
        {"preset": "paper", "gamma": 1.0, **_PENALTY},
        "The rewards still to come, on the scale of the whole batch.",
    ),
    Recipe(
        "reinforce_plus_plus_baseline",
        reinforce_plus_plus_baseline,
        {"preset": "paper", **_PENALTY},
        "An episode's return against its group, on the scale of the whole batch.",
    ),
    Recipe(
        "dapo",
        dapo,
        {"preset": "paper", **_PENALTY},
        "GRPO on success in groups that solve their task sometimes; tasks of other groups are drawn anew.",
        training={"loss.clip_high": 0.28, "loss.kl": 0.0, "rollout.resample_rounds": 10},
    ),
    Recipe(
        "ppo",
        ppo,
        {"preset": "paper", **_PENALTY},
        "Generalised advantage estimation with a learned critic; no groups are compared.",
        scored="turn",
        scorer=CriticConfig(),
    ),
    Recipe(
        "vetta",
        ppo,
        {"preset": "paper", "level": "residual", "gamma": 0.95, "lam": 0.95, **_PENALTY},
        "Advantages over turns with a learned critic, and a third of what tells the tokens of a turn apart.",
        scored="token",
        scorer=CriticConfig(level="token"),
    ),
    Recipe(
        "gigpo",
        gigpo,
        {"preset": "paper", "gamma": 0.95, **_PENALTY},
        "GRPO plus discounted returns compared among visits of the same state.",
    ),
    Recipe(
        "hgpo",
        hgpo,
        {"preset": "paper", "k": 2, "alpha": 1.0, "gamma": 0.95, **_PENALTY},
        "Discounted returns compared among visits of the same state, and of the same state after the same states.",
    ),
    Recipe(
        "rewardflow",
        rewardflow,
        {"preset": "paper", "gamma": 0.9, **_PENALTY},
        "GRPO plus the gain in discounted distance to success on the group's state graph.",
    ),
    Recipe(
        "graphgpo",
        graphgpo,
        {"preset": "paper", "omega": 0.8, **_PENALTY},
        "GRPO plus the discounted distance to success behind each edge of the group's state graph.",
    ),
    Recipe(
        "graphgpo_filled",
        graphgpo_filled,
        {"preset": "paper", "omega": 0.8, **_PENALTY},
        "GraphGPO, with attribution as step credit where the state graph has none.",
    ),
    Recipe(
        "frontier",
        frontier,
        {"preset": "default", **_PENALTY},
        "GRPO plus the best way on that the group saw, optimistic at time limits; gains or attribution fill in.",
    ),
    Recipe(
        "g2po",
        potential,
        {"preset": "g2po", **_PENALTY},
        "GRPO plus the gain in mean discounted outcome, compared in the state and over the task.",
    ),
    Recipe(
        "pgpo",
        potential,
        {"preset": "pgpo", **_PENALTY},
        "Returns compared in the state plus, where a task is seldom won, the gain in mean discounted outcome.",
    ),
    Recipe(
        "gated_bepo",
        potential,
        {"preset": "gated_bepo", **_PENALTY},
        "Gains in Bellman values, summed to come, where a state was left in several ways; GRPO elsewhere.",
    ),
    Recipe(
        "gagpo",
        potential,
        {"preset": "gagpo", **_PENALTY},
        "Gains in mean discounted outcome, summed to come and compared over the task.",
    ),
    Recipe(
        "ecpo",
        potential,
        {"preset": "ecpo", **_PENALTY},
        "GRPO plus what an action is worth in its state, little where it was seen seldom or its returns scatter.",
    ),
    Recipe(
        "rtmc",
        potential,
        {"preset": "rtmc", **_PENALTY},
        "What an action is worth above its state, both from first visits.",
    ),
    Recipe(
        "salt",
        salt,
        {"preset": "paper", **_PENALTY},
        "GRPO, averaged over the episodes that took the same step.",
    ),
    Recipe(
        "milegpo",
        milegpo,
        {"preset": "paper", "gamma": 0.8, "omega": 0.8, **_PENALTY},
        "GraphGPO plus, where distances tie, coming nearer to states of won episodes and farther from traps.",
    ),
    Recipe(
        "tigpo",
        scored_steps,
        {"preset": "paper", "compare": "state", "outcome": "won", **_PENALTY},
        "GraphGPO with the distances of all that was ever seen of the task.",
        scored="turn",
        scorer=TaskDistanceConfig(),
    ),
    Recipe(
        "empg",
        empg,
        {"preset": "paper", **_PENALTY},
        "GRPO, more where the policy was sure of its reply, and a little for leading to sure replies.",
    ),
    Recipe(
        "aem",
        aem,
        {"preset": "paper", **_PENALTY},
        "GRPO, more where the policy was sure of its reply, as replies of the task go.",
    ),
    Recipe(
        "ragen2",
        ragen2,
        {"preset": "paper", **_PENALTY},
        "GRPO in the groups whose returns spread the most; the others are left out.",
    ),
    Recipe(
        "vine",
        vine,
        {"preset": "paper", "pool": "state", **_PENALTY},
        "What each step gained in value, values being mean returns of 4 continuations of each state of the group.",
        training={"rollout.branches": 4, "rollout.branch_at": "distinct"},
    ),
    Recipe(
        "bpo",
        bpo,
        {"preset": "default", **_PENALTY},
        "Siblings played from each episode's least certain step against each other, plus the episode's outcome.",
        training={"rollout.branches": 1, "rollout.branch_at": "entropy 1", "rollout.common_numbers": False},
    ),
    Recipe(
        "tree_grpo",
        tree_grpo,
        {"preset": "paper", **_PENALTY},
        "GRPO inside trees that part at random steps, plus GRPO over the trees of a task.",
        training={"rollout.branches": 1, "rollout.branch_at": "random 1", "rollout.common_numbers": False},
    ),
    Recipe(
        "attribution",
        spa_ridge,
        {"preset": "paper", "grounding_weight": 0.0, **_PENALTY},
        "GRPO plus what each state and action contributed to the group's outcomes, fitted by ridge regression.",
    ),
    Recipe(
        "spa",
        spa_ridge,
        {"preset": "paper", "grounding": "penalty"},
        "GRPO plus SPA's step rewards: contributions by ridge regression, less a half for a refused action.",
    ),
    Recipe(
        "spa_network",
        spa_steps,
        {"preset": "paper", "grounding": "penalty"},
        "GRPO plus SPA's step rewards, with contributions that a network learns to sum to the outcome.",
        scored="turn",
        scorer=ContributionConfig(),
    ),
    Recipe(
        "hisr",
        scored_steps,
        {"preset": "paper", "horizon": "to_go", "gamma": 0.99, "alpha_trajectory": 0.0},
        "HISR's segment rewards still to come: contributions that a network learns, weighed by a hindsight model.",
        scored="turn",
        scorer=SegmentedRewardConfig(),
    ),
    Recipe(
        "hcapo",
        hcapo_steps,
        {"preset": "paper", **_PENALTY},
        "GRPO plus returns, larger where the policy finds its reply more likely once it reads how the episode ended.",
        scored="turn",
        scorer=ReplyInHindsightConfig(),
    ),
    Recipe(
        "igpo",
        igpo_steps,
        {"preset": "paper", **_PENALTY},
        "What each step added to the policy's belief in the right answer, and the outcome, summed to come.",
        scored="turn",
        scorer=AnswerBeliefConfig(),
    ),
    Recipe(
        "agentprm",
        scored_steps,
        {"preset": "paper", "compare": "state", **_PENALTY},
        "GRPO plus the value of the action, learned from how rollouts went on, compared inside the state.",
        scored="turn",
        scorer=ActionValueConfig(),
    ),
    Recipe(
        "istar",
        scored_steps,
        {"preset": "paper", **_PENALTY},
        "GRPO plus the log-ratio of a reward model, which learns from pairs of won and lost episodes, to the policy.",
        scored="turn",
        scorer=ImplicitRewardConfig(),
    ),
    Recipe(
        "prime",
        scored_tokens,
        {"preset": "paper", "whiten": True, **_PENALTY},
        "Per token, the log-ratio to come of a reward model, which learns from outcomes, to the start, plus RLOO.",
        scored="token",
        scorer=ImplicitRewardConfig(loss="ce", reduce="sum", reference="start", order="before"),
    ),
    Recipe(
        "judge",
        scored_steps,
        {"preset": "paper", **_PENALTY},
        "GRPO plus a judge's scores of the steps, compared inside the group; the judge is given to the trainer.",
        scored="turn",
    ),
)

#: Methods for any environment; those of `baselines.recipes.search_rows` are for Search-QA alone.
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}

# For a policy of 0.2 million parameters on one CPU core (about half a second per iteration), chosen on validation
# levels and the same for every method. Rollouts at temperature 1 because a clone is sure of itself: at 0.5 its eight
# episodes of a level are nearly the same. The learning rate falls to 0 because the last updates' noise costs points.
SOKOBAN_TINY = TrainerConfig(
    iterations=300,
    groups=16,
    group_size=8,
    temperature=1.0,
    learning_rate=4e-4,
    schedule=Schedule(shape="linear"),
    optimiser=Optimiser(minibatch_rows=64, epochs=1),
    loss=Loss(kl=0.01),
    validation=Validation(every=25),
    checkpoint=Checkpoints(every=25),
)

# For a pretrained language model: the papers' step size and mini-batch. The rate above would wreck it within a few
# updates.
SOKOBAN_PRETRAINED = SOKOBAN_TINY.changed(
    learning_rate=1e-6,
    schedule={"shape": "constant"},
    optimiser={"minibatch_rows": 256},
    memory={"microbatch_rows": 16},
)


def recipe(name: str) -> Recipe:
    """Return a recipe by its name, with options where some follow, or one of a function of one's own.

    Args:
        name: "gigpo", or a row of `baselines.recipes.search_rows`; "gigpo:gamma=.9:std=none", options as in
            `wrappers.credit.options.read_options`;
            "my_module:credit" or "my_module:credit:k=2", a function `credit(table, **options) -> float64 (N,)` or a
            `Recipe` of a module that can be imported. The recipe's name then is this text, values written out.

    Raises:
        ValueError: there is none of this name, or an option is no option of it or cannot have this value.

    >>> recipe("rewardflow").options["gamma"], recipe("rewardflow:gamma=.8").options["gamma"]
    (0.9, 0.8)
    >>> recipe("gigpo:gamma=.9:std=none").name
    'gigpo:gamma=0.9:std=none'
    """
    first, *words = name.split(":")
    named = RECIPES | SEARCH_ROWS
    if first in named:
        found = named[first]
    elif words and "=" not in words[0]:
        found = _imported(first, words.pop(0))
    else:
        raise ValueError(f"unknown method {first!r}; {suggest(first, named)}, or a function of your own: module:name")
    given: dict[str, str] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if not equals or option in given:
            raise ValueError(f"{name!r}: expected {found.name}:option=value, each option once, got {word!r}")
        given[option] = value
    try:
        options = read_options(found.credit, given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name!r}: {error}") from None
    written = {key: "+".join(value) if isinstance(value, tuple) else value for key, value in options.items()}
    full = ":".join([found.name, *(f"{key}={value}" for key, value in written.items())])
    return dataclasses.replace(found.with_options(**options), name=full) if options else found


def _imported(module: str, name: str) -> Recipe:
    """Return the recipe of a function (or the `Recipe`) of a module."""
    try:
        there = vars(importlib.import_module(module))
    except ImportError as error:
        known = suggest(module, RECIPES | SEARCH_ROWS)
        raise ValueError(
            f"unknown method {module!r}; {known}, and no module of this name can be imported "
            f"({error}): is it in the current folder or installed?"
        ) from error
    if not callable(there.get(name)):
        functions = [key for key, value in there.items() if callable(value) and not key.startswith("_")]
        raise ValueError(f"module {module!r} has no function {name!r}; {suggest(name, functions)}")
    found = there[name]
    full = f"{module}:{name}"
    return dataclasses.replace(found, name=full) if isinstance(found, Recipe) else Recipe(full, found)
