"""Serve an environment: `python -m wrappers.serving.openenv ID`."""

from __future__ import annotations

import argparse
import json

import uvicorn
from gymnasium.error import Error

from wrappers.serving.openenv.server import application


def main() -> None:
    """Serve from the command line, until Ctrl-C."""
    parser = argparse.ArgumentParser("python -m wrappers.serving.openenv")
    parser.add_argument("env", help="a registered id, such as AgentRL/Sokoban-v0")
    parser.add_argument("--env_options", type=json.loads, default={}, help="arguments of the environment, as JSON")
    parser.add_argument("--replies", action="store_true", help="commands are whole replies, with <action> tags")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen at; whoever reaches it can play: there are no passwords"
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--sessions", type=int, default=32, help="at most so many episodes at a time")
    parser.add_argument("--idle", type=float, default=3600.0, help="seconds without a message that close a session")
    parser.add_argument("--snapshots", type=int, default=1000, help="so many are kept")
    parser.add_argument("--most_bytes", type=int, default=1 << 20, help="longest request, or message of a session")
    parser.add_argument(
        "--allow_host", "--allow-host", action="append", default=[], metavar="NAME",
        help="a host by which clients reach this machine, beside its own, and whose pages may ask; may be repeated; "
        "* allows all",
    )  # fmt: skip
    given = parser.parse_args()
    limits = {name: getattr(given, name) for name in ("replies", "sessions", "idle", "snapshots", "most_bytes")}
    try:
        app = application(given.env, hosts=(given.host, *given.allow_host), **limits, **given.env_options)
    except (ValueError, TypeError, Error) as error:
        parser.error(str(error))
    uvicorn.run(app, host=given.host, port=given.port, ws_max_size=given.most_bytes)


if __name__ == "__main__":
    main()
