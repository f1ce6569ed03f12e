"""How well step credit ranks actions by their true worth."""
