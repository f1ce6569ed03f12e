"""The tables of options on the pages are made of the code; `WRITE_DOCS=1 pytest` on this file writes them."""

import importlib
import inspect
import os
import re
from pathlib import Path

import pytest

import wrappers.credit
from wrappers.credit import options
from wrappers.credit.options import option_table

PAGES = Path(__file__).parents[3] / "docs" / "credit"
#: Function, page, its `TypedDict` and its presets.
METHODS = [
    ("aem", "aem", "AEMOptions", "PRESETS"),
    ("empg", "empg", "EMPGOptions", "PRESETS"),
    ("frontier", "frontier", "FrontierOptions", "PRESETS"),
    ("hcapo", "hcapo", "HCAPOOptions", "PRESETS"),
    ("igpo", "igpo", "IGPOOptions", "PRESETS"),
    ("milegpo", "milegpo", "MileGPOOptions", "PRESETS"),
    ("potential", "potential", "PotentialOptions", "PRESETS"),
    ("ragen2", "ragen2", "RAGEN2Options", "PRESETS"),
    ("salt", "salt", "SALTOptions", "PRESETS"),
    ("tigpo", "tigpo", "TIGPOOptions", "PRESETS"),
    ("action_targets", "agentprm", "ActionTargetOptions", "PRESETS"),
    ("attribution", "attribution", "AttributionOptions", "PRESETS"),
    ("bpo", "bpo", "BPOOptions", "PRESETS"),
    ("dapo", "dapo", "DAPOOptions", "PRESETS"),
    ("gae", "gae", "GAEOptions", "PRESETS"),
    ("gigpo", "gigpo", "GiGPOOptions", "PRESETS"),
    ("graphgpo", "graphgpo", "GraphGPOOptions", "PRESETS"),
    ("grpo", "grpo", "StatisticsOptions", "PRESETS"),
    ("hgpo", "hgpo", "HGPOOptions", "PRESETS"),
    ("hisr", "hisr", "HISROptions", "PRESETS"),
    ("istar", "istar", "ProcessRewardOptions", "PRESETS"),
    ("prime", "prime", "PRIMEOptions", "PRESETS"),
    ("process_reward", "process_reward", "ProcessRewardOptions", "PRESETS"),
    ("reinforce_plus_plus", "reinforce_plus_plus", "ReinforcePlusPlusOptions", "PRESETS"),
    ("reinforce_plus_plus_baseline", "reinforce_plus_plus", "ReinforcePlusPlusBaselineOptions", "BASELINE_PRESETS"),
    ("rewardflow", "rewardflow", "RewardFlowOptions", "PRESETS"),
    ("rloo", "rloo", "EpisodeOptions", "PRESETS"),
    ("spa", "spa", "SPAOptions", "PRESETS"),
    ("tree_grpo", "tree_grpo", "TreeGRPOOptions", "PRESETS"),
    ("vine", "vine", "VineOptions", "PRESETS"),
]


def _options(page: str, options_type: str, presets: str):
    module = importlib.import_module(f"wrappers.credit.{page}")
    return getattr(module, options_type), getattr(module, presets)


@pytest.mark.parametrize(("function", "page", "options_type", "presets"), METHODS)
def test_the_page_holds_the_table_of_the_code(function: str, page: str, options_type: str, presets: str) -> None:
    path = PAGES / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    block = re.compile(rf"(<!-- options of {function}:[^\n]*-->\n\n).*?(\n<!-- end -->)", re.DOTALL)
    assert len(block.findall(text)) == 1
    table = option_table(*_options(page, options_type, presets))
    right = block.sub(lambda match: match[1] + table + match[2], text)
    if os.environ.get("WRITE_DOCS"):
        path.write_text(right, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == right


@pytest.mark.parametrize(("function", "page", "options_type", "presets"), METHODS)
def test_the_documentation_of_the_function_lists_every_option(
    function: str, page: str, options_type: str, presets: str
) -> None:
    kind, known = _options(page, options_type, presets)
    text = inspect.getdoc(getattr(wrappers.credit, function))
    listed = re.findall(r"^    (\w+) \(", text[text.index("\nOptions:") :], re.MULTILINE)
    assert sorted(listed) == sorted(kind.__annotations__)
    assert all(sorted(values) == sorted(listed) for values in known.values())
    assert max(map(len, inspect.getdoc(getattr(wrappers.credit, function)).splitlines())) <= 116


def test_a_table_by_hand() -> None:
    presets = options.presets(options.OutcomeOptions, paper={"outcome": "won"})
    rows = option_table(options.OutcomeOptions, presets).splitlines()
    assert rows[:2] == ["| option | paper | authors | values | meaning |", "|---|---|---|---|---|"]
    assert rows[2] == (
        "| `invalid_penalty` | `0.0` | `0.1` | number at least 0 | Taken off for every step whose action was not "
        "valid; 0 for none. |"
    )
    assert rows[4].startswith("| `outcome` | `'won'` | `'return'` | 'return' or 'won' | What an episode is worth: ")
