"""The step table: columns, episodes, forks and file form."""

from agentgym.trajectory.episode import Ending, Reply, Step, Trajectory
from agentgym.trajectory.table import Bools, Floats, Ints, StepTable

__all__ = ["Bools", "Ending", "Floats", "Ints", "Reply", "Step", "StepTable", "Trajectory"]
