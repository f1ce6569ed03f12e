"""Benchmarks that train."""
