"""Environments for other frameworks; each file serves one framework and imports it."""
