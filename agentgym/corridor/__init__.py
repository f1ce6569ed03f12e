"""Corridor: rooms in a row; the only difficulty is to assign credit to the steps of a long episode."""
