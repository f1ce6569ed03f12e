"""The tables of options on the pages are made of the code; `WRITE_DOCS=1 pytest` on this file writes them."""

import inspect
import os
import re
from pathlib import Path

import pytest

import wrappers.credit
from wrappers.credit import options
from wrappers.credit.options import declaration, declared, option_table

PAGES = Path(__file__).parents[3] / "docs" / "credit"
#: Every method that declares options.
METHODS = {name: find for name, find in vars(wrappers.credit).items() if inspect.isfunction(find) and declared(find)}


def _page(function: str) -> Path:
    """The page of the function's file."""
    return PAGES / f"{METHODS[function].__module__.rpartition('.')[2]}.md"


def test_every_method_with_options_is_tested() -> None:
    assert len(METHODS) >= 31
    assert {"action_targets", "reinforce_plus_plus_baseline", "istar", "aem"} <= set(METHODS)


# Those of `graphgpo_filled` are graphgpo's and a share, which the page on combinations tells of.
@pytest.mark.parametrize("function", sorted(METHODS.keys() - {"graphgpo_filled"}))
def test_the_page_holds_the_table_of_the_code(function: str) -> None:
    path = _page(function)
    text = path.read_text(encoding="utf-8")
    block = re.compile(rf"(<!-- options of {function}:[^\n]*-->\n\n).*?(\n<!-- end -->)", re.DOTALL)
    assert len(block.findall(text)) == 1
    table = option_table(*declaration(METHODS[function]))
    right = block.sub(lambda match: match[1] + table + match[2], text)
    if os.environ.get("WRITE_DOCS"):
        path.write_text(right, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == right


@pytest.mark.parametrize("function", METHODS)
def test_the_documentation_of_the_function_lists_every_option(function: str) -> None:
    kind, known = declaration(METHODS[function])
    text = inspect.getdoc(METHODS[function])
    listed = re.findall(r"^    (\w+) \(", text[text.index("\nOptions:") :], re.MULTILINE)
    assert sorted(listed) == sorted(kind.__annotations__)
    assert all(sorted(values) == sorted(listed) for values in known.values())
    assert max(map(len, text.splitlines())) <= 116


def test_a_table_by_hand() -> None:
    presets = options.presets(options.OutcomeOptions, paper={"outcome": "won"}, authors={})
    rows = option_table(options.OutcomeOptions, presets).splitlines()
    assert rows[:2] == ["| option | paper | authors | values | meaning |", "|---|---|---|---|---|"]
    assert rows[2] == (
        "| `invalid_penalty` | `0.0` | `0.1` | number at least 0 | Taken off for every step whose action was not "
        "valid; 0 for none. |"
    )
    assert rows[4].startswith("| `outcome` | `'won'` | `'return'` | 'return' or 'won' | What an episode is worth: ")
