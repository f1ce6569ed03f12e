"""What counts as the same state or the same task: state keys that mix, keys that merge, tasks done in hindsight."""
