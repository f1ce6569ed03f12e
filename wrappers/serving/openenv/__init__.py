"""Environments behind OpenEnv 0.10, with episodes that can be saved and continued; and a client.

    python -m wrappers.serving.openenv AgentRL/Sokoban-v0 --env_options '{"size": 6}' --port 8000

A session lasts as long as the client's WebSocket, unless nothing is sent for an hour. What is new travels in OpenEnv's
own messages, so that any client of it can do it: `step` with `snapshot=True` plays nothing and answers the name of a
snapshot, `reset` with `snapshot=NAME` continues there, in this session or in another one. Needs the extra `openenv`.
"""
