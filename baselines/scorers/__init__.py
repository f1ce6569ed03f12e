"""Learned scores of states and steps, which credit functions take as arrays."""
