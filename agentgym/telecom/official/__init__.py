"""Telecom as it was published: tables, tasks and texts of tau2-bench."""
