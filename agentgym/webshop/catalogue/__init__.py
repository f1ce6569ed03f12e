"""Products, in memory and on the disk."""
