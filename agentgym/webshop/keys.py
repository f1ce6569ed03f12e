"""Chosen options as text, and state keys of pages."""

from collections.abc import Mapping
from typing import Any


def chosen(options: Mapping[str, str]) -> str:
    """Return the chosen options independent of their order ("color: red; size: small"), "nothing" if there are none."""
    return "; ".join([f"{name}: {value}" for name, value in sorted(options.items())]) or "nothing"


def option_key(options: Mapping[str, str]) -> str:
    """Return the chosen options in their order, unambiguously: "'size': 'small'; 'color': 'red'"."""
    return "; ".join([f"{name!r}: {value!r}" for name, value in options.items()])


def page_key(observation: Any, info: Mapping[str, Any]) -> str:
    """Return page and choice as a node of a state graph, independent of the path: a key for `CanonicalStates`.

    >>> page_key("WebShop [SEP] ...", {"page": "item B01", "options": "color: red"})
    'item B01 | color: red'
    """
    page, options = str(info["page"]), str(info["options"])
    return page if options == "nothing" else f"{page} | {options}"
