"""The published scenes, programs and goals."""
