"""Policies that see."""
