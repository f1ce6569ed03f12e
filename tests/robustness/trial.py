"""A trial: hostile input drawn by hypothesis, and a check of what the code makes of it."""

import hashlib
import importlib.util
import json
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

#: Inputs that failed once; `test_robustness.py` tries each of them again.
FAILURES = Path(__file__).parent / "failures"


@dataclass(frozen=True)
class Trial:
    """Something that must hold whatever comes in.

    Attributes:
        name: "<area>/<what is tried>".
        inputs: draws values that JSON can hold (bytes as text in latin-1), so that one that fails can be kept.
        check: raises when the input does harm.
        examples: inputs that the short form draws; the long form draws rounds of them.
        cheap: a failing input may be made smaller by trying many more.
        needs: modules, or programs as "program:name", without which the trial is left out.
        long: takes too long for the short form, or asks a clock.
    """

    name: str
    inputs: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    examples: int = 10
    cheap: bool = True
    needs: tuple[str, ...] = ()
    long: bool = False

    @property
    def missing(self) -> str:
        """What is needed and not here, or ""."""
        for name in self.needs:
            kind, _, program = name.partition(":")
            there = shutil.which(program) if kind == "program" else importlib.util.find_spec(name)
            if not there:
                return name
        return ""


@dataclass
class Round:
    """What a round of a trial came to: how many inputs were tried, and the smallest one that failed."""

    cases: int = 0
    failing: Any = None
    reason: str = ""
    error: str = ""


def play(trial: Trial, examples: int, number: int | None = None) -> Round:
    """Try some inputs, drawn with a number (None: the same ones every time), until one fails."""
    found = Round()

    def attempt(value: Any) -> None:
        found.cases += 1
        try:
            trial.check(value)
        except Exception as error:
            found.failing, found.error = value, traceback.format_exc(limit=-6)
            found.reason = f"{type(error).__name__}: {error}"[:300]
            raise

    phases = (Phase.generate, Phase.shrink) if trial.cheap else (Phase.generate,)
    run = settings(
        max_examples=examples, deadline=None, database=None, derandomize=number is None, phases=phases,
        suppress_health_check=list(HealthCheck), verbosity=Verbosity.quiet, print_blob=False,
    )(given(trial.inputs)(attempt))  # fmt: skip
    if number is not None:
        run = seed(number)(run)
    try:
        run()
    except Exception as error:  # whatever the code under trial raises
        found.error = found.error or "".join(traceback.format_exception(error))
    return found


def keep(trial: Trial, found: Round, folder: Path = FAILURES) -> Path:
    """Write a failing input as a file that becomes a test."""
    text = json.dumps({"trial": trial.name, "input": found.failing, "error": found.reason})
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{trial.name.replace('/', '-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
    path.write_text(text, encoding="utf-8")
    return path


#: What parsers here look for, and what hurts encoders, loggers, pages and terminals.
FRAGMENTS = (
    "", " ", "\n", "\r\n", "\t", "\u2028", "\x00", "\x1b[2J", "\x7f", "\ud800", "\udfff", "\u202e", "e\u0301",
    "\U0001f600", "a", "up", "Right ", "look", "go to ", "take ", "fridge 1", "search[", "click[", "[", "]", "buy now",
    "{", "}", '"', "'", "\\", "\\u", ":", ",", "<", ">", "/", "<search>", "</search>", "<answer>", "</answer>",
    "<action>", "</action>", "<think>", "</think>", "<information>", "</information>", "<|", "```json\n", "```", "$1",
    ",111", "1", "-", ".", "e9", "9" * 30, "1e400", "NaN", '{"action_type": "speak", "argument": "', '"}', "speak",
    "leave", "Turn #1: Bob said: ",
    "</script><img src=x onerror=alert(1)>", "{{7*7}}", "%s", "../../", "price lower than ",
    "I take all ", "deal",
)  # fmt: skip

fragments = st.sampled_from(FRAGMENTS) | st.text(st.characters(), max_size=8)
#: A text as pieces that are repeated, so that a million characters are a short input.
pieces = st.lists(st.tuples(fragments, st.sampled_from([1, 1, 1, 1, 2, 3, 50, 3_000, 60_000])), max_size=6).map(
    lambda made: [list(piece) for piece in made]
)


def record(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a dict with these keys."""
    return st.fixed_dictionaries(fields)


def text_of(made: list[Any], most: int = 1_000_000) -> str:
    """Return the text that pieces stand for."""
    return "".join(unit * count for unit, count in made)[:most]


_numbers = st.integers(-3, 9) | st.sampled_from([-1, 10**9, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, 1e308, -0.0])
#: Any JSON value, with numbers and nesting that few expect.
json_values = st.recursive(
    st.none() | st.booleans() | _numbers | fragments,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fragments, inner, max_size=3),
    max_leaves=6,
)
