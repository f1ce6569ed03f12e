"""Search players at fixed budgets: `python -m benchmarks.run search-players`."""
