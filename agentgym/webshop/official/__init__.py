"""The published products, requests and recorded goals."""
