"""All trials, in the order in which they are printed."""

from tests.robustness import disks, files, growing, network, pages, playing, trees

TRIALS = [trial for each in (playing, trees, files, growing, network, disks, pages) for trial in each.TRIALS]
