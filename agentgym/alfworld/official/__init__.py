"""The published games: folders, files, import cache."""
