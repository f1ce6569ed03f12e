# %% [markdown]
# # Branch and compare credit
#
# What is a step worth? Methods estimate it from the episodes of a group. If the environment can be continued from a
# state, it can also be estimated from continuations before and after the step. Here both are compared with the exact
# distance to the solution.

# %%
import gymnasium as gym
import numpy as np
from scipy.stats import spearmanr

import agentgym  # noqa: F401  registers the AgentRL/* ids
from agentgym.rollout import collect
from agentgym.rollout.tree import TreeCost, collect_tree
from policies.scripted import RandomPolicy
from wrappers import VectorReplyParser
from wrappers.credit import gigpo, graphgpo, grpo, vine
from wrappers.distance import Distances, distance_gains


def make():
    """Boards with one box, 32 at a time; how far each is from its solution is noted."""
    boards = gym.make_vec("AgentRL/Sokoban-v0", num_envs=32, autoreset_mode="Disabled", boxes=1, max_length=6)
    return Distances(VectorReplyParser(boards))


tasks = [{"split": "train", "index": index} for index in range(8)]

# %% [markdown]
# ## A fork
#
# `fork` copies the exact state of one sub-environment into others: the same action leads to the same board.

# %%
envs = make()
envs.reset(seed=0)
observations, _ = envs.fork(0, range(1, 32))
print(len(set(observations)), "board in", len(observations), "sub-environments")

# %% [markdown]
# ## Episodes or continuations
#
# Sixteen episodes per task, or four with continuations of every state at its first visit.

# %%
one, other = make(), make()
episodes = collect(one, RandomPolicy(), tasks=tasks, group_size=16, seed=0)
tree = collect_tree(other, RandomPolicy(), tasks=tasks, group_size=4, branches=4, select="distinct", seed=0)
print(episodes)
print(tree)
print(TreeCost.of(tree))

# %% [markdown]
# ## Which ranks actions better?
#
# Spearman's correlation of credit and the true gain of a step in moves, over all scored steps. A step into a dead end,
# which loses the level, counts as a loss of ten moves.


# %%
def rank(table, credit):
    """Correlation with the exact change of distance, over scored rows."""
    truth = np.maximum(distance_gains(table, {**one.found, **other.found}), -10)
    scored = np.isfinite(credit)
    return spearmanr(credit[scored], truth[scored]).statistic


for method in (grpo, gigpo, graphgpo):
    print(f"{method.__name__:9} of episodes  {rank(episodes, method(episodes)):.2f}")
counted = vine(tree, pool="state", outcome="won", gamma=0.95)
print(f"vine      of branches  {rank(tree, counted):.2f}")

# %% [markdown]
# Branches cost steps, and their benefit depends on the player: [the page of vine](../credit/vine.md) has the comparison
# at equal cost, with intervals; [the league](../results/league.md) has it in six environments.
