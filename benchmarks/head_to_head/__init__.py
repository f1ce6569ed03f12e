"""The study `head-to-head`: credit methods at the same number of generated tokens, each with the same search."""
