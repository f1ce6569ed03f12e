"""Methods by name: credit recipes and methods of imitation, with their options."""

import pytest

pytest.importorskip("torch")

from baselines.recipes.methods import IMITATION, method
from tests.cases import cases
from tests.refusals import refuses


def test_names_read_their_options():
    found = method("ipr:continuations=2:span=step:threshold=.25")
    assert (found.continuations, found.span, found.threshold) == (2, "step", 0.25)
    assert found.name == "ipr:continuations=2:span=step:threshold=0.25"
    assert method("gigpo:gamma=.9").name == "gigpo:gamma=0.9"
    assert set(IMITATION) == {"sft", "rft", "hindsight", "dpo", "eto", "ipr", "stepagent", "spear"}


@cases(
    "name, words",
    ("rft:sample=4", "sample"), ("rft:samples=0", "at least 1"), ("rft:samples=many", "an integer"),
    ("ipr:span=all", "'rest' and 'step'|rest"), ("rft:samples", "option=value"), ("rtf", "unknown method"),
)  # fmt: skip
def test_a_wrong_name_or_option_says_what_is_expected(name, words):
    refuses(ValueError, words, method, name)
