"""Panels of tasks, and who plays them: players, prompted models, searches."""
