"""Benchmarks that let players play."""
