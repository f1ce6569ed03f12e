"""Telecom without any file: a company of our own, and tasks without end."""
