"""Telecom: a technical support desk, worked by tool calls; the telecom domain of tau2-bench."""
