"""Whether the graph of earlier episodes helps a learner that knows nothing of it."""
