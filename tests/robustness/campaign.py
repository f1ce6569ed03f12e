"""All trials, in the order in which they are printed."""

from tests.robustness import disks, files, growing, network, pages, playing, tables, trees

TRIALS = [trial for each in (playing, trees, files, growing, network, tables, disks, pages) for trial in each.TRIALS]
