"""Our own scenarios, generated without end."""
