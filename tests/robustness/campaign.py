"""All trials, in the order in which they are played."""

from tests.robustness import files, pages, playing

TRIALS = [*playing.TRIALS, *files.TRIALS, *pages.TRIALS]
