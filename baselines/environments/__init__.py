"""How the learning benchmark plays each environment, one file each."""
