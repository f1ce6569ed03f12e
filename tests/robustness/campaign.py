"""All trials, in the order in which they are told."""

from tests.robustness import (
    crashes,
    disks,
    files,
    growing,
    homes,
    linear,
    network,
    pages,
    paired,
    playing,
    preferring,
    tables,
    trees,
)

TRIALS = [
    *playing.TRIALS,
    *paired.TRIALS,
    *trees.TRIALS,
    *preferring.TRIALS,
    *files.TRIALS,
    *homes.TRIALS,
    *linear.TRIALS,
    *growing.TRIALS,
    *network.TRIALS,
    *tables.TRIALS,
    *crashes.TRIALS,
    *disks.TRIALS,
    *pages.TRIALS,
]
