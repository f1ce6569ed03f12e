"""SOTOPIA: two people with private goals talk, and a judge scores them.

`agentgym.sotopia.env` is the environment for one agent and a partner; `parallel_env` and `aec_env` make PettingZoo's
environments for two agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym.sotopia.pettingzoo import SotopiaAECEnv, SotopiaParallelEnv

_MISSING = "the two-agent forms of SOTOPIA need PettingZoo: pip install 'stepcredit[multiagent]'"


def parallel_env(**kwargs: Any) -> SotopiaParallelEnv:
    """Return the form in which both agents are asked at once, see `pettingzoo.SotopiaParallelEnv` for the arguments.

    Raises:
        ImportError: when PettingZoo is not installed.
    """
    try:
        from agentgym.sotopia.pettingzoo import SotopiaParallelEnv
    except ModuleNotFoundError as error:
        raise _explained(error) from error
    return SotopiaParallelEnv(**kwargs)


def aec_env(**kwargs: Any) -> SotopiaAECEnv:
    """Return the form in which the agents take turns, see `pettingzoo.SotopiaAECEnv` for the arguments.

    Raises:
        ImportError: when PettingZoo is not installed.
    """
    try:
        from agentgym.sotopia.pettingzoo import SotopiaAECEnv
    except ModuleNotFoundError as error:
        raise _explained(error) from error
    return SotopiaAECEnv(**kwargs)


def _explained(error: ModuleNotFoundError) -> ImportError:
    return ImportError(_MISSING) if (error.name or "").partition(".")[0] == "pettingzoo" else error
