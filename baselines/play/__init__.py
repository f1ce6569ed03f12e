"""What a trainer plays: groups of episodes, drawn, continued and costed, and a policy as the second player."""
