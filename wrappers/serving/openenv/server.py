"""The server: a session for each client, snapshots that all sessions share, limits."""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium as gym
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from gymnasium.error import ResetNeeded
from openenv.core.env_server import create_fastapi_app

import agentgym  # noqa: F401  # registers the environments
from agentgym.checks import whole
from wrappers.reply import ReplyParser
from wrappers.serving.openenv.client import EpisodeState, TextAction, TextObservation
from wrappers.serving.openenv.environment import GymEnvironment


def application(
    env: str, *, replies: bool = False, sessions: int = 32, snapshots: int = 1000, most_bytes: int = 1 << 20,
    **options: Any,
) -> FastAPI:  # fmt: skip
    """Return the server; a wrong request is answered with what is wrong, status 400, 411 or 413.

    The limits are integers of at least 1.

    Args:
        env: a registered id.
        replies: commands are whole replies, which `wrappers.reply` reads.
        sessions: at most so many at a time.
        snapshots: so many are kept.
        most_bytes: longest body of an HTTP request.
        **options: arguments of the environment.

    Raises:
        ValueError: a limit below 1, or an environment that shows more than text.
    """
    for name, value in (("sessions", sessions), ("snapshots", snapshots), ("most_bytes", most_bytes)):
        whole(name, value, 1)
    saved: dict[str, Any] = {}

    def make() -> GymEnvironment:
        made = gym.make(env, **options)
        return GymEnvironment(ReplyParser(made) if replies else made, saved, snapshots)

    with contextlib.closing(gym.make(env, **options)) as first:  # what is wrong with the arguments is said here
        if getattr(first.observation_space.dtype, "kind", "") != "U":
            raise ValueError(f"{env} shows {first.observation_space}: clients are sent text alone")
    app = create_fastapi_app(
        make, TextAction, TextObservation, max_concurrent_envs=sessions, env_name=env.rpartition("/")[2],
        state_cls=EpisodeState,
    )  # fmt: skip
    app.add_exception_handler(ValueError, _refused)
    app.add_exception_handler(ResetNeeded, _refused)
    app.add_middleware(_Bodies, most=most_bytes)
    return app


async def _refused(request: Request, error: Exception) -> JSONResponse:
    hint = "; HTTP has no episodes: use the WebSocket /ws" if isinstance(error, ResetNeeded) else ""
    return JSONResponse({"detail": f"{error}{hint}"}, 400)


class _Bodies:
    """Answers requests whose body is longer than `most` bytes, or of unknown length, before anybody reads them."""

    def __init__(self, app: Any, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope["headers"]) if scope["type"] == "http" else {}
        length = int(given.get(b"content-length", b"0"))
        if status := 411 if b"transfer-encoding" in given else 413 if length > self._most else 0:
            detail = f"a body has a Content-Length of at most {self._most} bytes, got {length or 'none'}"
            await JSONResponse({"detail": detail}, status)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
