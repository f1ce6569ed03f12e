"""Environments behind OpenEnv 0.10, with episodes that can be saved and continued; and a client.

    python -m wrappers.serving.openenv AgentRL/Sokoban-v0 --env_options '{"size": 6}' --port 8000

A session lasts as long as the client's WebSocket, or until an hour without a message. Any OpenEnv client can save and
continue: `step` with `snapshot=True` plays nothing and returns a snapshot's name, `reset` with `snapshot=NAME`
continues there, in any session. Needs the extra `openenv`.
"""
