"""Product search: Lucene's BM25 in numpy, and Lucene itself."""
