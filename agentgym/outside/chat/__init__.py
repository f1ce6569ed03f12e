"""Language models behind OpenAI-compatible endpoints; needs the extra `chat` to be used."""
