"""Measurements of this project; `python -m benchmarks.run --help` explains the commands."""
