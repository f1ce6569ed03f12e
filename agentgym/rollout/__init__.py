"""Play episodes and record them: groups, trees, lanes."""

from agentgym.rollout.groups import Policy, act_each, collect
from agentgym.rollout.tree import collect_tree

__all__ = ["Policy", "act_each", "collect", "collect_tree"]
