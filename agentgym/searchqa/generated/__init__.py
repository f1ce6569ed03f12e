"""The generated encyclopaedia: a made-up world, its passages and questions about it."""
