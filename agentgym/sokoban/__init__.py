"""Sokoban: rules, generator, level files, exact solver, pictures and the environments (`agentgym.sokoban.env`)."""
