"""One run, from an environment's name to a trained policy: settings, environments, tasks, data, start, training."""
