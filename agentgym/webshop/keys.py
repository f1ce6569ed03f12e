"""Chosen options as text, and a page with them as a node of a state graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def chosen(options: Mapping[str, str]) -> str:
    """Return the chosen options, whatever their order, "nothing" when there are none.

    >>> chosen({"size": "small", "color": "red"}), chosen({})
    ('color: red; size: small', 'nothing')
    """
    return "; ".join([f"{name}: {value}" for name, value in sorted(options.items())]) or "nothing"


def option_key(options: Mapping[str, str]) -> str:
    """Return the chosen options in their order, so that no two choices give the same text.

    >>> option_key({"size": "small", "color": "red"})
    "'size': 'small'; 'color': 'red'"
    """
    return "; ".join([f"{name!r}: {value!r}" for name, value in options.items()])


def page_key(observation: Any, info: Mapping[str, Any]) -> str:
    """Return page and choice as one node of a state graph, however it was come by: a key for `CanonicalStates`.

    >>> page_key("WebShop [SEP] ...", {"page": "item B01", "options": "color: red"})
    'item B01 | color: red'
    >>> page_key("WebShop [SEP] ...", {"page": "index", "options": "nothing"})
    'index'
    """
    page, options = str(info["page"]), str(info["options"])
    return page if options == "nothing" else f"{page} | {options}"
