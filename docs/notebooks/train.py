# %% [markdown]
# # Train a tiny policy and read the graph
#
# A language model of 0.2 million parameters is cloned from an expert, trained by GraphGPO, and the graph behind its
# credit is drawn. All of it runs on a CPU in seconds.

# %%
import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import agentgym  # noqa: F401  registers the AgentRL/* ids
from baselines.config import TrainerConfig, Validation
from baselines.imitation.cloning import clone
from baselines.recipes import recipe
from baselines.trainer import Trainer
from policies.tiny import tiny_policy
from wrappers import VectorPromptWindow, VectorReplyParser
from wrappers.credit import StateGraph, graphgpo


def make(**options):
    """Boards shown as chat messages, played by replies."""
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=32, autoreset_mode="Disabled", boxes=1, max_length=8, **options)
    return VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)


levels = [{"split": "train", "index": index} for index in range(4)]
messages, _ = make().reset(seed=0)
policy = tiny_policy([message[-1]["content"] for message in messages], seed=0)
cloned = clone(
    policy, make(expert=True), [{"split": "train", "index": index} for index in range(8, 56)], epochs=3, seed=0
)
print(f"the clone predicts {100 * cloned.history[-1]['accuracy']:.0f} % of the expert's tokens")

# %% [markdown]
# After every iteration the trainer calls a function with the table that it trained on; the last one is kept.

# %%
tables = []
config = TrainerConfig(iterations=5, groups=4, group_size=8, learning_rate=1e-3, validation=Validation(every=0))
trainer = Trainer(policy, make(), recipe("graphgpo"), levels, config)
rows = trainer.run(lambda trainer, table, row: tables.append(table))
print("success by iteration:", *(f"{row['success']:.2f}" for row in rows[1:]))

# %% [markdown]
# ## The graph of the first batch
#
# Nodes are states, coloured by the fewest observed steps to success in the group; grey ones did not lead to success.

# %%
table = next(found for found in tables if found is not None)
graph = StateGraph.from_table(table)
distance = graph.hop_distance()
won = np.bincount(table.trajectory_group, table.trajectory_won, table.n_groups)
group = int(np.argmax(np.bincount(graph.node_group) * (won > 0)))  # the largest that was won at all
nodes = np.flatnonzero(graph.node_group == group)
known = nodes[np.isfinite(distance[nodes])]
print(f"task {table.groups[group]}: {len(nodes)} states, {len(known)} with a way to success")

# %%
figure, panel = plt.subplots(figsize=(7, 3.6), layout="constrained")
far = int(distance[known].max()) + 1 if len(known) else 1
x = np.where(np.isfinite(distance), distance, far + 1)
level = np.zeros(graph.n_nodes)
for step in np.unique(x[nodes]):
    here = nodes[x[nodes] == step]
    level[here] = np.arange(len(here)) - (len(here) - 1) / 2
own = np.flatnonzero(table.group == group)
for source, target in {(graph.source[row], graph.target[row]) for row in own}:
    panel.plot(x[[source, target]], level[[source, target]], color="#b4bac3", lw=0.8, zorder=0)
panel.scatter(x[known], level[known], c=distance[known], cmap="viridis", s=60)
lost = np.setdiff1d(nodes, known)
panel.scatter(x[lost], level[lost], color="#8a939e", s=25)
panel.set_xlabel("fewest steps to success (last column: no way was seen)")
panel.invert_xaxis()
panel.set_yticks([])
plt.show()

# %% [markdown]
# ## Credit at the start
#
# All episodes of the task begin in the same state. GraphGPO compares the edges out of it by their next states:

# %%
advantages = graphgpo(table)
start = own[table.t[own] == 0]
for action in np.unique(table.action[start]):
    taken = start[table.action[start] == action]
    togo, credit = distance[graph.target[taken]].min(), advantages[taken].mean()
    print(f"{table.actions[action]:8} taken {len(taken)} times, then {togo:3.0f} steps to go: {credit:+.2f}")
