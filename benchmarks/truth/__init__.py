"""Benchmarks that hold credit against the truth."""
