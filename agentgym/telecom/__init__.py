"""Telecom: a technical support desk, worked by tool calls; the telecom domain of tau2-bench.

`agentgym.telecom.env` is the environment for the desk, alone or with a customer; `parallel_env` and `aec_env` make
PettingZoo's environments for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym.telecom.pettingzoo import TelecomAECEnv, TelecomParallelEnv


def parallel_env(**kwargs: Any) -> TelecomParallelEnv:
    """Return the form in which both are asked at once; an ImportError says that PettingZoo is not installed."""
    from agentgym.telecom.pettingzoo import TelecomParallelEnv

    return TelecomParallelEnv(**kwargs)


def aec_env(**kwargs: Any) -> TelecomAECEnv:
    """Return the form in which both take turns; an ImportError says that PettingZoo is not installed."""
    from agentgym.telecom.pettingzoo import TelecomAECEnv

    return TelecomAECEnv(**kwargs)
