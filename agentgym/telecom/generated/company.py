"""A company of our own: plans, customers, lines, devices and bills."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from agentgym.telecom.state import TABLES, World, make_table, make_world


@cache
def company() -> World:
    """Return the company with an ordinary phone beside it, before any fault."""
    rows = json.loads(Path(__file__).with_name("company.json").read_text("utf-8"))
    return make_world({kind: make_table(kind, rows[kind]) for kind in TABLES}, {}, {})
