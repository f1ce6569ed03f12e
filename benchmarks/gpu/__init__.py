"""Speed, memory and agreement of generation and training at the sizes people use, with random weights."""
