"""The long form of the campaign: every trial in turn with fresh inputs, until the time is up.

    ./do fuzz --minutes 30

A table at the end says what was tried. An input that failed is made as small as it gets and written to
`tests/robustness/failures/`; from then on it is a test of the short form. Ctrl-C ends the run after the table.
"""

import argparse
import fnmatch
import os
import random
import resource
import signal
import sys
import time
import warnings
from dataclasses import dataclass, field

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["HF_HUB_OFFLINE"] = "1"

from tests.robustness.campaign import TRIALS
from tests.robustness.trial import FAILURES, Trial, keep, play


@dataclass
class Tally:
    """What a trial came to in this run."""

    cases: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)


def main(arguments: list[str] | None = None) -> int:
    """Play the trials and return 1 when one failed."""
    parser = argparse.ArgumentParser(prog="./do fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="how long to go on (default 30)")
    parser.add_argument("--only", default="*", help="names of trials, such as 'files/*'")
    parser.add_argument("--seed", type=int, default=None, help="draws the seeds of all rounds; default: a new one")
    given = parser.parse_args(arguments)
    trials = [trial for trial in TRIALS if fnmatch.fnmatch(trial.name, given.only)]
    if not trials:
        parser.error(f"no trial is named {given.only!r}; there are {', '.join(trial.name for trial in TRIALS)}")
    number = random.SystemRandom().randrange(2**32) if given.seed is None else given.seed
    print(f"seed {number}, {len(trials)} trials, {given.minutes:g} minutes", flush=True)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits an ignored Ctrl-C
    tallies = {trial.name: Tally() for trial in trials if not trial.missing}
    try:
        run(trials, tallies, time.monotonic() + 60 * given.minutes, random.Random(number))
    except KeyboardInterrupt:
        print("\nstopped", flush=True)
    print_table(trials, tallies)
    return int(any(tally.failures for tally in tallies.values()))


def run(trials: list[Trial], tallies: dict[str, Tally], until: float, numbers: random.Random) -> None:
    """Play rounds until the time is up; the trial that has had the least time is next."""
    printed = 0.0
    while time.monotonic() < until:
        left = [trial for trial in trials if trial.name in tallies and goes_on(trial, tallies[trial.name])]
        if not left:
            return
        trial = min(left, key=lambda each: (tallies[each.name].seconds, each.name))
        tally = tallies[trial.name]
        start = time.monotonic()
        found = play(trial, trial.examples, numbers.randrange(2**32))
        tally.seconds += time.monotonic() - start
        tally.cases += found.cases
        if found.error:
            tally.failures.append(found.reason or found.error.splitlines()[-1])
            kept = f"kept as {keep(trial, found)}" if found.reason else "its own input could not be drawn"
            print(f"\n{trial.name}: {tally.failures[-1]}\n  {kept}", flush=True)
        if time.monotonic() - printed > 60:
            printed = time.monotonic()
            cases = sum(each.cases for each in tallies.values())
            print(f"{max(until - printed, 0) / 60:6.1f} minutes left, {cases:,} inputs, now {trial.name}", flush=True)


def goes_on(trial: Trial, tally: Tally) -> bool:
    """Three failures are enough of one trial, and one round of one without inputs."""
    return len(tally.failures) < 3 and not (trial.examples == 1 and tally.cases)


def print_table(trials: list[Trial], tallies: dict[str, Tally]) -> None:
    """Print what was tried, as Markdown."""
    print("\n\n| trial | inputs | seconds | failures |\n|---|---|---|---|")
    for trial in trials:
        if trial.missing:
            print(f"| {trial.name} | left out: needs {trial.missing} | | |")
            continue
        tally = tallies[trial.name]
        print(f"| {trial.name} | {tally.cases:,} | {tally.seconds:.0f} | {len(tally.failures)} |")
    cases, failures = sum(t.cases for t in tallies.values()), sum(len(t.failures) for t in tallies.values())
    print(f"| all | {cases:,} | {sum(t.seconds for t in tallies.values()):.0f} | {failures} |")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    kept = f"failing inputs are kept in {FAILURES}" if failures else "nothing failed"
    print(f"\nmost memory {memory:.1f} GiB; {kept}")


if __name__ == "__main__":
    sys.exit(main())
