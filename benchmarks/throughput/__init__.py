"""Speeds of environments, searches and credit, beside peers and limits."""
