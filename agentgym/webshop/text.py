"""A page as an observation: plain text, or text that marks what can be clicked."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from agentgym.webshop.pages import BUTTON, LINK, OPTION, SEPARATOR, Node, Page


def page_text(page: Page, request: str | None) -> str:
    """Return a page as plain text: what `pages.text` gives for all its nodes.

    Args:
        page: the page.
        request: `pages.text` of the request's nodes; None when there are none.
    """
    if not page.lead:
        return page.body_text
    between = SEPARATOR if request is None else f"{SEPARATOR}{request}{SEPARATOR}"
    return f"{page.lead_text}{between}{page.body_text}"


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
