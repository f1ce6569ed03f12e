"""All trials, in the order in which they are told."""

from tests.robustness import crashes, files, network, pages, parsers, playing, tables

TRIALS = [
    *playing.TRIALS,
    *files.TRIALS,
    *parsers.TRIALS,
    *network.TRIALS,
    *tables.TRIALS,
    *crashes.TRIALS,
    *pages.TRIALS,
]
