"""The corridor as a setting of imitation, and one round in it."""

from typing import Any

from agentgym.trajectory import Reply
from baselines.imitation.cloning import imitate
from baselines.imitation.method import Round, Setting
from policies.huggingface import HuggingFacePolicy
from policies.training import frozen
from tests.baselines.corridor_learning import CONFIG, TASKS, babbling_policy
from tests.corridor import CorridorVectorEnv
from wrappers import VectorPromptWindow, VectorReplyParser


def setting(seed: int = 0) -> Setting:
    envs = CorridorVectorEnv(12, max_episode_steps=6, autoreset_mode="Disabled", expert=True)
    envs = VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)
    return Setting(envs, TASKS, CONFIG, {"learning_rate": 1e-2, "warmup": 0}, seed)


def a_round(policy: Any) -> Round:
    return Round(policy, frozen(policy), setting(), 0, 0)


def seen(cell: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"cell {cell}"}]


def losing_policy() -> HuggingFacePolicy:
    """A policy that goes left, away from the goal."""
    policy = babbling_policy()
    learn_word(policy, "left")
    return policy


def said(policy: Any, cell: int, word: str) -> Reply:
    """A word in a cell, in the policy's tokens."""
    reply: Reply = policy.demonstrate(seen(cell), f"<action>{word}</action>")
    return reply


def learn_word(policy: Any, word: str) -> None:
    """Teach a policy to say a word in every cell."""
    rows = [said(policy, cell, word) for cell in range(5)]
    imitate(policy, rows, epochs=40, seed=0, learning_rate=3e-2, warmup=0)
