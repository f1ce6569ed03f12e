"""SOTOPIA's published scenarios, characters and pairings."""
