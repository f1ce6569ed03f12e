"""Stable-Baselines3 on environments of numbers; needs the extra `sb3`."""
