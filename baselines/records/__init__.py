"""What a run writes: log, checkpoints, samples, warnings, speed."""
