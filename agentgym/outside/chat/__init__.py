"""Language models behind OpenAI-compatible endpoints (extra `chat`)."""
