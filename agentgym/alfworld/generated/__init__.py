"""The game generator: rooms, their objects and feasible tasks."""
