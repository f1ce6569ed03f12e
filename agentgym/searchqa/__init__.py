"""Search-QA: questions over a search index, retrievers, scores and the environment (`agentgym.searchqa.env`)."""
