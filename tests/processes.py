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
#: the code and writes what that printed, or its error, also that of a thread.
_SERVER = """
import contextlib, importlib, io, json, os, sys, traceback
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    child = os.fork()
    if not child:
        text, said, error = io.StringIO(), io.StringIO(), ""
        try:
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(said):
                exec(json.loads(line), {"__name__": "__main__"})
        except BaseException:
            error = traceback.format_exc()
        error = error or said.getvalue() * ("Traceback" in said.getvalue())
        print(json.dumps([text.getvalue(), error]), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(json.dumps(["", "the process died"]), flush=True)
"""
#: Libraries of others that take seconds to load.
LEARNING = ("torch", "transformers.models.qwen2.modeling_qwen2")


@cache
def _server(hash_seed: str, loaded: tuple[str, ...]) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, *loaded], cwd=ROOT, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    atexit.register(server.kill)
    return server


def printed(code: str, hash_seed: Literal["0", "1"] = "0", loaded: tuple[str, ...] = ("agentgym",)) -> str:
    """Return what a process prints that runs this code under this hash seed; it has loaded these modules already."""
    server = _server(hash_seed, loaded)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(code) + "\n")
    server.stdin.flush()
    text, error = json.loads(server.stdout.readline())
    assert not error, error
    return str(text)
