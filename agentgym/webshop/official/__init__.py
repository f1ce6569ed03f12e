"""The published files: products, requests, and recorded goals."""
