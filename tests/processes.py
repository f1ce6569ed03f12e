"""Code that runs in a process of its own: what it prints must not depend on the order of hashes."""

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
#: Has loaded what takes long and no test asks about. For every line of code that it reads, it forks a process that runs
#: the code and writes what that printed, or its error.
_SERVER = """
import contextlib, io, json, os, sys, traceback
import agentgym
for line in sys.stdin:
    child = os.fork()
    if not child:
        text, error = io.StringIO(), ""
        try:
            with contextlib.redirect_stdout(text):
                exec(json.loads(line), {"__name__": "__main__"})
        except BaseException:
            error = traceback.format_exc()
        print(json.dumps([text.getvalue(), error]), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(json.dumps(["", "the process died"]), flush=True)
"""


@cache
def _server(hash_seed: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER], cwd=ROOT, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    atexit.register(server.kill)
    return server


def printed(code: str, hash_seed: Literal["0", "1"] = "0") -> str:
    """Return what a process prints that runs this code under this hash seed; agentgym is imported already."""
    server = _server(hash_seed)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(code) + "\n")
    server.stdin.flush()
    text, error = json.loads(server.stdout.readline())
    assert not error, error
    return str(text)
