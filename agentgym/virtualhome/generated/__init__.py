"""The generator of activities: houses, what stands and lies in them, and what is to be done there."""
