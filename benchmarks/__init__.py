"""Measurements of this project: learning curves, throughput and the report they are shown in.

`python -m benchmarks.run --help` explains the commands.
"""
