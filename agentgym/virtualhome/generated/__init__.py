"""The activity generator: houses, their fixtures and things, and activities."""
