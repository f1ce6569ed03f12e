"""All trials, in the order in which they are printed."""

from tests.robustness import disks, files, growing, network, playing, tables

TRIALS = [trial for each in (playing, files, growing, network, tables, disks) for trial in each.TRIALS]
