"""Files and records of a run: log, checkpoints, samples, warnings, speed."""
