"""One episode of a text environment: what is shown, what can be done, and what the expert does.

Run: python examples/environment.py [AgentRL/ALFWorld-v0, AgentRL/VirtualHome-v0, AgentRL/WebShop-v0,
    AgentRL/SearchQA-v0, AgentRL/SOTOPIA-v0]
"""

import sys

import gymnasium as gym

import agentgym  # noqa: F401  registers the AgentRL/* ids

env = gym.make(sys.argv[1] if len(sys.argv) > 1 else "AgentRL/Sokoban-v0", expert=True)
observation, info = env.reset(seed=0, options={"split": "train", "index": 17})
print(f"task {info['task_id']}, one of {env.get_wrapper_attr('num_tasks')('train'):,} for training\n")
print(observation)

terminated = truncated = False
total, steps = 0.0, 0
while not (terminated or truncated):
    commands = info["admissible_actions"]
    print(f"\n{len(commands)} commands, for example {', '.join(commands[:4])}")
    observation, reward, terminated, truncated, info = env.step(info["expert_action"])
    total, steps = total + float(reward), steps + 1
    print(f"> step {steps}, reward {float(reward):+.1f}\n{observation}")
print(f"\nwon: {info['won']} after {steps} steps, return {total:.1f}")

# A command that the world does not accept is never an exception.
env.reset(seed=0, options={"split": "train", "index": 17})
_, reward, _, _, info = env.step("fly to the moon")
print(f"'fly to the moon' is accepted: {info['is_action_valid']}, reward {float(reward):+.1f}")
