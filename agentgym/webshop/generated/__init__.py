"""The generated shop."""
