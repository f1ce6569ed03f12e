# %% [markdown]
# # Environments
#
# Every environment is a Gymnasium environment whose observations and actions are text. Here one episode is played by
# hand, sixteen at once by a policy, and each of six environments is shown.

# %%
import gymnasium as gym

import agentgym  # noqa: F401  registers the AgentRL/* ids
from agentgym.rollout import collect
from policies.scripted import RandomPolicy
from wrappers import VectorReplyParser

env = gym.make("AgentRL/Sokoban-v0", boxes=1, expert=True)
observation, info = env.reset(options={"split": "train", "index": 3})
print(observation)

# %% [markdown]
# `info` has the task, the key of the state (steps with equal keys can be compared), the admissible commands, and, with
# `expert=True`, the solver's command.

# %%
for key in ("task_id", "state_key", "admissible_actions", "expert_action"):
    print(f"{key:20} {info[key]!r}")

# %% [markdown]
# A refused command changes nothing and raises no exception, because language models often write wrong commands.

# %%
_, reward, *_, after = env.step("fly to the moon")
print(
    "accepted:", after["is_action_valid"], "  reward:", reward, "  same state:", after["state_key"] == info["state_key"]
)

# %% [markdown]
# The expert solves the level:

# %%
terminated = truncated = False
info = env.reset(options={"split": "train", "index": 3})[1]
while not (terminated or truncated):
    observation, reward, terminated, truncated, info = env.step(info["expert_action"])
print(observation, "\nwon:", info["won"])

# %% [markdown]
# ## Vector environments
#
# A vector environment plays several episodes in parallel, and `collect` writes them into one table: a row per step.
# `VectorReplyParser` extracts the command from a model's reply.

# %%
envs = VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=16, autoreset_mode="Disabled"))
table = collect(envs, RandomPolicy(), tasks=[{"split": "train", "index": 17}], group_size=16, seed=0)
print(table)

# %% [markdown]
# ## Six environments
#
# All have the same interface. Generated tasks need no download; official data are named by a path.

# %%
for name in ("ALFWorld", "VirtualHome", "WebShop", "SearchQA", "SOTOPIA"):
    env = gym.make(f"AgentRL/{name}-v0")
    observation, info = env.reset(seed=0)
    lines = [line for line in observation.splitlines() if line.strip()]
    print(f"--- {name}: task {info['task_id']}, {len(info['admissible_actions'])} commands", *lines[:4], sep="\n    ")
    env.close()
