"""Finding products: BM25 as Lucene computes it, and Lucene itself."""
