"""A page as an observation: plain text, or text that marks what can be clicked."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache

from agentgym.webshop.pages import BUTTON, LINK, OPTION, Node, Nodes, Page

SEPARATOR = " [SEP] "


def text(nodes: Iterable[Node]) -> str:
    """Return the nodes as one line.

    >>> text([Node(BUTTON, "Search"), Node("text", " red "), Node("text", " ")])
    'Search [SEP] red [SEP] '
    """
    return SEPARATOR.join([node.text.strip() for node in nodes])


@lru_cache(2048)
def _body(page: Page) -> str:
    return text(page.body)


@lru_cache(2048)
def _request(request: Nodes, lead: Nodes) -> str:
    return text([*lead, *request])


def page_text(page: Page, request: Nodes) -> str:
    """Return `text(page.nodes(request))`, from what is known of the page."""
    body = _body(page)
    return f"{_request(request, page.lead)}{SEPARATOR}{body}" if page.lead else body


def text_rich(nodes: Iterable[Node], url: str, visited: Collection[str]) -> str:
    """Return the nodes line by line with marks.

    Args:
        nodes: of the page.
        url: of the page; an option is marked as clicked when it stands in the URL between double quotes.
        visited: asins of the products that were opened, marked as clicked too.
    """
    lines = []
    chosen = []
    for kind, content in nodes:
        if kind == BUTTON:
            line = f"[button] {content} [button_]"
        elif kind == LINK:
            clicked = "clicked " if content in visited else ""
            line = f"\n[{clicked}button] {content} [{clicked}button_]"
        elif kind == OPTION:
            clicked = "clicked " if f'"{content}"' in url else ""
            line = f"  [{clicked}button] {content} [{clicked}button_]"
            if clicked:
                chosen.append(f"You have clicked {content}.\n")
        else:
            line = content
        lines.append(line + "\n")
    return "".join([*reversed(chosen), *lines])
