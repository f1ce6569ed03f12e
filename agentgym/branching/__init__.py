"""Snapshots and forks of environments."""
