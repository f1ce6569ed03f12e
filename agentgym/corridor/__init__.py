"""Corridor: rooms in a row, each with a word that names the way on; nothing is hard but the credit."""
