"""Learned numbers about states and steps, which credit functions take as arrays."""
