"""SOTOPIA: two people with private goals talk, and a judge scores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentgym.outside.packages import install, needed

if TYPE_CHECKING:
    from agentgym.sotopia.pettingzoo import SotopiaAECEnv, SotopiaParallelEnv


def parallel_env(**kwargs: Any) -> SotopiaParallelEnv:
    """Return the PettingZoo form in which both agents act at once, see `pettingzoo.SotopiaParallelEnv`."""
    needed("pettingzoo", _NEEDED)
    from agentgym.sotopia.pettingzoo import SotopiaParallelEnv

    return SotopiaParallelEnv(**kwargs)


def aec_env(**kwargs: Any) -> SotopiaAECEnv:
    """Return the PettingZoo form in which the agents take turns, see `pettingzoo.SotopiaAECEnv`."""
    needed("pettingzoo", _NEEDED)
    from agentgym.sotopia.pettingzoo import SotopiaAECEnv

    return SotopiaAECEnv(**kwargs)


_NEEDED = f"the two-agent forms of SOTOPIA need PettingZoo: {install('multiagent')}"
