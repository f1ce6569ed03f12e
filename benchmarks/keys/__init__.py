"""What counts as the same state: how often state keys mix states."""
