"""One row per environment that the learning benchmark knows."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable

import gymnasium as gym

import agentgym.registry
from agentgym.checks import suggest
from baselines.environments.alfworld import ALFWORLD
from baselines.environments.corridor import CORRIDOR
from baselines.environments.searchqa import SEARCHQA
from baselines.environments.settings import EnvSettings, Setup
from baselines.environments.sokoban import SOKOBAN, VISUAL_SOKOBAN
from baselines.environments.sotopia import SOTOPIA
from baselines.environments.virtualhome import VIRTUALHOME
from baselines.environments.webshop import WEBSHOP
from wrappers.advice import Adviser

SETTINGS: tuple[EnvSettings, ...] = (
    SOKOBAN,
    VISUAL_SOKOBAN,
    ALFWORLD,
    VIRTUALHOME,
    WEBSHOP,
    SEARCHQA,
    SOTOPIA,
    CORRIDOR,
)

#: Experts that are cloned in place of an environment's own.
ADVISERS: dict[str, Callable[[], Adviser]] = {
    name: adviser for row in SETTINGS for name, adviser in row.advisers.items()
}


def settings_of(env: str) -> EnvSettings:
    """Return the row of an id or a name; an environment without a row has Sokoban's sizes and nothing to imitate.

    >>> settings_of("alfworld").id
    'AgentRL/ALFWorld-v0'
    """
    for row in SETTINGS:
        if env in (row.id, row.name):
            return row
    full, quick = (dataclasses.replace(sizes, clone_tasks=0) for sizes in (SOKOBAN.full, SOKOBAN.quick))
    return dataclasses.replace(
        SOKOBAN, name=env.rpartition("/")[2].rpartition(":")[2], id=env, full=full, quick=quick, setup=Setup(),
        tiles=None, data={}, scripted=None, is_known=False,
    )  # fmt: skip


def known_env(env: str) -> str:
    """Return the id of an environment from its name, its id, or "my_module:Env-v0", whose module is imported.

    Raises:
        ValueError: there is none; the message suggests one.

    >>> known_env("sokoban")
    'AgentRL/Sokoban-v0'
    """
    short = {row.name: row.id for row in SETTINGS}
    module, colon, name = env.rpartition(":")
    if colon:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # of a package that the module needs
            raise ValueError(
                f"{env!r}: no module {module!r} can be imported ({error}): is it in the current folder or installed?"
            ) from None
        if name not in gym.registry:
            raise ValueError(
                f"{env!r}: {module} registers no such environment; expected it to call "
                f"gymnasium.register({name!r}, entry_point=...)"
            )
        return env
    if env in short or env in gym.registry:
        return short.get(env, env)
    known = [*short, *(row.id for row in agentgym.registry.ROWS)]
    raise ValueError(f"unknown name {env!r}; {suggest(env, known)}; or one of your own: my_module:Env-v0")
