"""Text environments as plain Gymnasium; `import agentgym` registers every `AgentRL/*` id.

>>> import gymnasium as gym, agentgym
>>> observation, info = gym.make("AgentRL/Sokoban-v0").reset(seed=0)
>>> info["admissible_actions"] != ()
True
"""

from agentgym.outside.packages import explain_missing, warn_of_hidden
from agentgym.registry import register_all

__version__ = "0.2.0"

register_all()
warn_of_hidden()
explain_missing()
