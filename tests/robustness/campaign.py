"""All trials, in the order in which they are printed."""

from tests.robustness import disks, files, growing, network, playing, tables, trees

TRIALS = [trial for each in (playing, trees, files, growing, network, tables, disks) for trial in each.TRIALS]
