"""Snapshots and forks of single and vector environments, through their wrappers."""

from agentgym.branching.stack import Branching, BranchingWrapper, Saved, reseed, restore, resume, snapshot

__all__ = ["Branching", "BranchingWrapper", "Saved", "reseed", "restore", "resume", "snapshot"]
