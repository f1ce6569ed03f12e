# %% [markdown]
# # Credit on your own rollouts
#
# You have episodes from any trainer. What was each step worth? The methods only need a table of columns.

# %%
from agentgym.trajectory import StepTable
from wrappers.credit import StateGraph, gigpo, graphgpo, grpo, rewardflow

episodes = {  # one task, four episodes of (state, action); the first wins
    "a": ["hall/north", "kitchen/open fridge", "fridge/take egg"],
    "b": ["hall/north", "kitchen/go down", "cellar/wait"],
    "c": ["hall/go down", "cellar/wait", "cellar/wait"],
    "d": ["hall/go down", "cellar/go up", "hall/north"],
}
ends = {"a": "done", "b": "cellar", "c": "cellar", "d": "kitchen"}
columns: dict[str, list] = {
    name: [] for name in ("group", "trajectory", "t", "state", "action", "next_state", "reward", "won")
}
for name, steps in episodes.items():
    states = [step.split("/")[0] for step in steps] + [ends[name]]
    for t, step in enumerate(steps):
        paid = float(name == "a" and t == 2)
        row = ("egg", name, t, states[t], step.split("/")[1], states[t + 1], paid, name == "a")
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
table = StepTable.from_arrays(**columns)
print(table)

# %% [markdown]
# GRPO uses whole episodes: all steps of a lost one get the same negative advantage. GiGPO compares the returns of
# visits of the same state. RewardFlow and GraphGPO use the distance to success after a step, on the graph of all four
# episodes.

# %%
methods = {method.__name__: method(table) for method in (grpo, gigpo, rewardflow, graphgpo)}
print(f"{'':24}", *(f"{name:>11}" for name in methods))
for row in range(len(table)):
    step = f"{columns['trajectory'][row]}: {columns['state'][row]} / {columns['action'][row]}"
    print(f"{step:24}", *(f"{values[row]:11.2f}" for values in methods.values()))

# %% [markdown]
# Episode **d** lost, but its last step went from the hall to the kitchen, as in the won episode. GRPO gives it the same
# negative advantage as the others; GraphGPO gives it credit:

# %%
last = len(table) - 1
assert methods["grpo"][last] < 0 < methods["graphgpo"][last]
print("d's last step:", {name: round(float(values[last]), 2) for name, values in methods.items()})

# %% [markdown]
# The state graph can be inspected: fewest steps to success from every visited state.

# %%
graph = StateGraph.from_table(table)
print(graph.by_state(graph.hop_distance()))

# %% [markdown]
# These numbers take the place of the advantages in your loss: one per step, for every token of its reply. How well
# each method ranks actions where the truth is known: [the league](../results/league.md).
