"""Trials of time: it grows as the text does, for everything that reads text from outside, whatever the text.

The one place where parsers are timed, each with every family of `tests.growth`. A clock says nothing on a machine that
others use as well, so the long form alone asks one; the short form reads all texts and asks that nothing is raised.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.growth import FAMILIES, MOST_GROWTH, Family, growth, text_of
from tests.robustness.parsers import PARSERS
from tests.robustness.trial import FRAGMENTS, Trial

#: Characters of the shorter text; for eight times as much, quadratic time is tens of milliseconds, whatever is done.
SMALL = 10_000
#: And for those that take long for each character, where less text shows as much.
SLOW = dict.fromkeys(
    (
        "redact", "score", "researcher", "row", "visitor", "terms", "index", "alike", "shopper", "phrases", "bargain",
        "divide", "friend", "schedule", "judge", "step of WebShop-v0",
    ),
    4_000,
) | dict.fromkeys(("log, steps", "log, verl, rows", "log, ragen"), 2_000)  # fmt: skip


def check(given: dict[str, Any]) -> None:
    run, family = PARSERS[given["parser"]], given["family"]
    small = SLOW.get(given["parser"], SMALL)
    run(text_of(family, 100))
    ratio = growth(run, *(text_of(family, length) for length in (small, 8 * small)))
    assert ratio < MOST_GROWTH, f"{family}: {ratio:.1f} times as long for 8 times {small:,} characters"


def check_all(parser: str) -> None:
    """Try every family."""
    for family in FAMILIES.values():
        check({"parser": parser, "family": family})


def read_all(parser: str) -> None:
    """Read a text of every family, whatever time it takes."""
    for family in FAMILIES.values():
        PARSERS[parser](text_of(family, SLOW.get(parser, SMALL)))


def family(begin: str, units: list[str], end: str) -> Family:
    return begin, "".join(units), end


_fragments = st.sampled_from([fragment for fragment in FRAGMENTS if fragment])
_ends = st.sampled_from(FRAGMENTS)
TRIALS = [
    *(Trial(f"read/{parser}", st.just(parser), read_all, 1, cheap=False) for parser in PARSERS),
    *(Trial(f"time/{parser}", st.just(parser), check_all, 1, cheap=False, long=True) for parser in PARSERS),
    Trial(
        "time/any",
        st.fixed_dictionaries(
            {
                "parser": st.sampled_from(list(PARSERS)),
                "family": st.builds(family, _ends, st.lists(_fragments, min_size=1, max_size=3), _ends).map(list),
            }
        ),
        check,
        40,
        cheap=False,
        long=True,
    ),
]
