"""The server: one session per client, shared snapshots, limits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from gymnasium.error import ResetNeeded
from openenv.core.env_server import ConcurrencyConfig, create_fastapi_app

import agentgym  # noqa: F401  # registers the environments
from agentgym.checks import real, whole
from agentgym.outside.http import OwnHosts
from agentgym.outside.text import clean
from wrappers.reply import ReplyParser
from wrappers.serving.openenv.client import EpisodeState, TextAction, TextObservation
from wrappers.serving.openenv.environment import GymEnvironment

#: Most characters of an error message.
_WORDS = 1000


def application(
    env: str, *, replies: bool = False, sessions: int = 32, idle: float = 3600.0, snapshots: int = 1000,
    most_bytes: int = 1 << 20, hosts: Iterable[str] = (), **options: Any,
) -> FastAPI:  # fmt: skip
    """Return the server; an invalid request is answered with the reason and status 400, 403, 411 or 413.

    Args:
        replies: actions are whole replies, parsed by `wrappers.reply`.
        sessions: most sessions at a time; a further one is refused.
        idle: seconds (above 0) without a message after which a session is closed.
        hosts: further names of this machine, whose pages may ask; "*": all. See `agentgym.outside.http.OwnHosts`.
        **options: arguments of the environment.

    Raises:
        ValueError: a limit below 1, or an environment that shows more than text.
    """
    for name, value in (("sessions", sessions), ("snapshots", snapshots), ("most_bytes", most_bytes)):
        whole(name, value, 1)
    if real("idle", idle, 0.0, expected="a number of seconds above 0") == 0.0:
        raise ValueError(f"idle must be a number of seconds above 0, got {idle!r}")
    saved: dict[str, Any] = {}

    def make() -> GymEnvironment:
        made = gym.make(env, **options)
        return GymEnvironment(ReplyParser(made) if replies else made, saved, snapshots)

    with contextlib.closing(gym.make(env, **options)) as first:  # wrong arguments fail here
        if getattr(first.observation_space.dtype, "kind", "") != "U":
            raise ValueError(f"{env} shows {first.observation_space}: clients are sent text alone")
    app = create_fastapi_app(
        make, TextAction, TextObservation, env_name=env.rpartition("/")[2], state_cls=EpisodeState,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=float(idle)),
    )  # fmt: skip
    for kind in (ValueError, ResetNeeded, TypeError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refused)
    app.add_middleware(_Door, most=most_bytes, hosts=OwnHosts(hosts))
    return app


async def _refused(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, TypeError) and request.url.path != "/reset":
        raise error  # only names of reset's arguments are foreign
    status, words = 400, str(error)
    if isinstance(error, ResetNeeded):
        words += "; HTTP has no episodes: use the WebSocket /ws"
    elif isinstance(error, RequestValidationError):
        words = _wrong(error.errors())
    elif isinstance(error, HTTPException):
        # What FastAPI makes of such a list holds the values themselves, which JSON may not be able to.
        refused = isinstance(error.detail, list)
        status, words = (400, _wrong(error.detail)) if refused else (error.status_code, str(error.detail))
    return JSONResponse({"detail": clean(words, _WORDS)}, status)


def _wrong(found: Iterable[Any]) -> str:
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)


class _Door:
    """Refuse requests for other hosts or from foreign pages, and bodies that are too long or of unknown length, unread.

    A WebSocket handshake is refused in the same way.
    """

    def __init__(self, app: Any, most: int, hosts: OwnHosts) -> None:
        self._app, self._most, self._hosts = app, most, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status, detail = self._refusal(scope["headers"]) if scope["type"] in ("http", "websocket") else (0, "")
        if status:
            await JSONResponse({"detail": detail}, status)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str]:
        given: dict[bytes, list[str]] = {}
        for name, value in headers:
            given.setdefault(name, []).append(value.decode("latin-1"))
        if foreign := self._hosts.refusal(given.get(b"host", ()), given.get(b"origin", ())):
            return 403, foreign
        length, *more = given.get(b"content-length", ["0"])
        if more or not (length.isascii() and length.isdigit()):
            return 400, "a request has one Content-Length, a number"
        if b"transfer-encoding" in given:
            return 411, f"a body has a Content-Length of at most {self._most} bytes, got none"
        if len(length) > 18 or int(length) > self._most:
            return 413, f"a body has a Content-Length of at most {self._most} bytes, got {length:.20}"
        return 0, ""
