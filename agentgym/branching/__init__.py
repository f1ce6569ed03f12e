"""Snapshots and forks of environments, single and vector ones, through the wrappers around them."""

from agentgym.branching.stack import Branching, BranchingWrapper, Saved, reseed, restore, resume, snapshot

__all__ = ["Branching", "BranchingWrapper", "Saved", "reseed", "restore", "resume", "snapshot"]
