"""Learning from what others did."""
