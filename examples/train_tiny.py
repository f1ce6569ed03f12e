"""Train a language model of 0.2 million parameters on Sokoban: clone an expert, then reinforcement learning.

A Hugging Face model is `HuggingFacePolicy.from_pretrained(folder)` instead of `tiny_policy`, with a learning rate of
5e-5 or less in place of 1e-3, which random weights need and which ruins pretrained ones. In one to two minutes it
learns the eight levels that it is trained on; levels that it has not seen are what ./do bench measures.
Run: python examples/train_tiny.py
"""

from typing import Any

import gymnasium as gym
import torch

import agentgym  # noqa: F401  registers the AgentRL/* ids
from agentgym.rollout import Policy
from baselines.config import TrainerConfig, Validation
from baselines.evaluation import evaluate
from baselines.imitation.cloning import clone
from baselines.recipes import recipe
from baselines.trainer import Trainer
from policies.scripted import RandomPolicy
from policies.tiny import tiny_policy
from wrappers import VectorPromptWindow, VectorReplyParser


def make(**options: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Return 32 Sokoban boards at a time, shown as chat messages, played by replies."""
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=32, autoreset_mode="Disabled", boxes=1, max_length=8, **options)
    return VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)


def report(name: str, policy: Policy) -> None:
    """Print how many of 64 episodes on the eight levels a policy wins."""
    found = evaluate(make(), policy, levels, repeats=8, seed=1)
    print(f"{name:12} {100 * found.success_rate:5.1f} % won", flush=True)


torch.set_num_threads(1)  # more threads only wait for each other in a model this small
levels = [{"split": "train", "index": index} for index in range(8)]
demonstrated = [{"split": "train", "index": index} for index in range(8, 208)]

messages, _ = make().reset(seed=0)
policy = tiny_policy([message[-1]["content"] for message in messages], seed=0)
report("random", RandomPolicy())
clone(policy, make(expert=True), demonstrated, epochs=4, seed=0)
report("cloned", policy)
config = TrainerConfig(iterations=16, groups=8, group_size=8, learning_rate=1e-3, validation=Validation(every=0))
for row in Trainer(policy, make(), recipe("rewardflow"), levels, config).run()[4::4]:
    print(f"iteration {row['iteration']:2} {100 * row['success']:5.1f} % won")
report("trained", policy)
