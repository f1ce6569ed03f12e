"""Exact solver: distances of all states of a room, shortest solutions, optimal moves."""
