"""Episodes of a trainer: drawing groups, continuing steps, costs of replies, and a policy as the second player."""
