"""The published games: their folders, their files, the import cache."""
