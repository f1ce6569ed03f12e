"""Scenarios whose outcome is computed from what was said (`agentgym.sotopia.games.game`)."""
