"""The generator of games: rooms, things that lie around in them, and tasks that can be done."""
