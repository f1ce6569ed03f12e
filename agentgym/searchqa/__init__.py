"""Search-QA: questions over a search index (`agentgym.searchqa.env`)."""
