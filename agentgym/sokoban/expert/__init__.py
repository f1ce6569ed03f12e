"""What knows the whole board: exact distances of all states of a room, shortest solutions, best moves."""
