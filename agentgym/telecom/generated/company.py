"""A company of our own: plans, customers, lines, devices and bills."""

from functools import cache

from agentgym.outside.text import tables_beside
from agentgym.telecom.state import TABLES, World, make_table, make_world


@cache
def company() -> World:
    """Return the company with an ordinary phone beside it, before any fault."""
    rows = tables_beside(__file__, "company.json")
    return make_world({kind: make_table(kind, rows[kind]) for kind in TABLES}, {}, {})
