"""Language models behind OpenAI-compatible endpoints; needs the package openai (the extra `chat`) to be used."""
