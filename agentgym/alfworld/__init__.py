"""ALFWorld: the text household, its rules, games, expert and the environments (`agentgym.alfworld.env`)."""
