"""Telecom: a technical support desk, worked by tool calls; the telecom domain of tau2-bench.

`agentgym.telecom.env` is the environment for the desk, alone or with a customer; `parallel_env` and `aec_env` make
PettingZoo's environments for both.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym.telecom.pettingzoo import TelecomAECEnv, TelecomParallelEnv


def parallel_env(**kwargs: Any) -> TelecomParallelEnv:
    """Return the form in which both are asked at once; an ImportError says that PettingZoo is not installed."""
    env: TelecomParallelEnv = _two_agents().TelecomParallelEnv(**kwargs)
    return env


def aec_env(**kwargs: Any) -> TelecomAECEnv:
    """Return the form in which both take turns; an ImportError says that PettingZoo is not installed."""
    env: TelecomAECEnv = _two_agents().TelecomAECEnv(**kwargs)
    return env


def _two_agents() -> Any:
    try:
        return importlib.import_module("agentgym.telecom.pettingzoo")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pettingzoo":
            raise
        message = "the two-agent forms of Telecom need PettingZoo: pip install 'stepcredit[multiagent]'"
        raise ImportError(message) from error
