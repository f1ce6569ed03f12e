"""Task panels: play them, compare what was reached, and grade the logs of other programs."""
