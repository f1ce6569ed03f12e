"""What counts as the same state or the same task: state keys that mix states, tasks done in hindsight."""
