"""What an iteration learns from: groups of episodes, drawn, played, continued and costed."""
