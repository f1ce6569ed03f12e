"""The generated encyclopaedia."""
