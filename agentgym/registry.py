"""The table of environment ids; `import agentgym` registers all of them with Gymnasium."""

import importlib
from dataclasses import dataclass

import gymnasium as gym

from agentgym.checks import suggest


@dataclass(frozen=True)
class Row:
    """One registered id: module and classes, imported on first `make`, and the default time limit in steps."""

    id: str
    module: str
    single: str
    vector: str
    max_episode_steps: int


ROWS: tuple[Row, ...] = (
    Row("AgentRL/Sokoban-v0", "agentgym.sokoban.env", "SokobanEnv", "SokobanVectorEnv", 20),
    Row("AgentRL/VisualSokoban-v0", "agentgym.sokoban.env", "VisualSokobanEnv", "VisualSokobanVectorEnv", 20),
    Row("AgentRL/ALFWorld-v0", "agentgym.alfworld.env", "ALFWorldEnv", "ALFWorldVectorEnv", 50),
    Row("AgentRL/VirtualHome-v0", "agentgym.virtualhome.env", "VirtualHomeEnv", "VirtualHomeVectorEnv", 40),
    Row("AgentRL/WebShop-v0", "agentgym.webshop.env", "WebShopEnv", "WebShopVectorEnv", 15),
    # The environment ends an episode, by default after five turns; the limit is for longer settings.
    Row("AgentRL/SearchQA-v0", "agentgym.searchqa.env", "SearchQAEnv", "SearchQAVectorEnv", 50),
    Row("AgentRL/Telecom-v0", "agentgym.telecom.env", "TelecomEnv", "TelecomVectorEnv", 100),
    # Dialogues are cut by the environment, by default after 20 turns; the limit is for longer settings.
    Row("AgentRL/SOTOPIA-v0", "agentgym.sotopia.env", "SotopiaEnv", "SotopiaVectorEnv", 100),
    # Episodes are cut by the environment, by default after 1.5 times the rooms; the limit is for longer settings.
    Row("AgentRL/Corridor-v0", "agentgym.corridor.env", "CorridorEnv", "CorridorVectorEnv", 1000),
)


def register_all() -> None:
    """Register every row that is not registered yet."""
    for row in ROWS:
        if row.id not in gym.registry:
            gym.register(
                row.id,
                entry_point=f"{row.module}:{row.single}",
                vector_entry_point=f"{row.module}:{row.vector}",
                max_episode_steps=row.max_episode_steps,
            )


def short_name(env: str) -> str:
    """Return what an id is called on command lines.

    >>> short_name("AgentRL/VisualSokoban-v0")
    'visualsokoban'
    """
    return env.rpartition("/")[2].partition("-v")[0].lower()


def known_env(env: str) -> str:
    """Return the id from an environment's name (in any case), its id, or "my_module:Env-v0", whose module is imported.

    Raises:
        ValueError: the environment is unknown; the message suggests one.

    >>> known_env("sokoban")
    'AgentRL/Sokoban-v0'
    """
    short = {short_name(row.id): row.id for row in ROWS}
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
    if env.lower() in short or env in gym.registry:
        return short.get(env.lower(), env)
    known = [*short, *short.values()]
    raise ValueError(f"unknown environment {env!r}; {suggest(env, known)}; or one of your own: my_module:Env-v0")
