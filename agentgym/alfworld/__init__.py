"""ALFWorld: the text household, its rules, games, experts and the environments (`agentgym.alfworld.env`)."""
