"""The published data by path: scenes, programs and goals."""
