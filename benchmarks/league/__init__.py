"""Every credit method in every environment, held against the true advantage of every step."""
