"""SOTOPIA: two people with private goals talk, and a judge scores them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentgym.outside.packages import install

if TYPE_CHECKING:
    from agentgym.sotopia.pettingzoo import SotopiaAECEnv, SotopiaParallelEnv


def parallel_env(**kwargs: Any) -> SotopiaParallelEnv:
    """Return the PettingZoo form in which both agents act at once, see `pettingzoo.SotopiaParallelEnv`."""
    env: SotopiaParallelEnv = _two_agents().SotopiaParallelEnv(**kwargs)
    return env


def aec_env(**kwargs: Any) -> SotopiaAECEnv:
    """Return the PettingZoo form in which the agents take turns, see `pettingzoo.SotopiaAECEnv`."""
    env: SotopiaAECEnv = _two_agents().SotopiaAECEnv(**kwargs)
    return env


def _two_agents() -> Any:
    try:
        return importlib.import_module("agentgym.sotopia.pettingzoo")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pettingzoo":
            raise
        message = f"the two-agent forms of SOTOPIA need PettingZoo: {install('multiagent')}"
        raise ImportError(message) from error
