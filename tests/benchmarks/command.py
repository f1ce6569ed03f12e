"""The command line, as the tests of its commands ask it."""

import re
from typing import Any

from typer.testing import CliRunner

from benchmarks.run import app


def run(*options: object, status: int | None = 0, of: Any = app) -> str:
    """Run a command that ends with a status (None: any); return its words, without boxes, colours and line breaks."""
    result = CliRunner().invoke(of, [str(option) for option in options], env={"COLUMNS": "200", "TERM": "dumb"})
    assert status is None or result.exit_code == status, result.output
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│┃║╭╮╰╯─]", " ", result.output).split())
