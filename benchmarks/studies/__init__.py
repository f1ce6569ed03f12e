"""Studies of one file each."""
