"""Sokoban: rules, exact solver, level generator, level files, drawing and the environments (`agentgym.sokoban.env`)."""
