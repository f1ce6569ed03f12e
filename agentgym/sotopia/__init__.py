"""SOTOPIA: two people with private goals talk, and a judge scores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym.sotopia.pettingzoo import SotopiaAECEnv, SotopiaParallelEnv


def parallel_env(**kwargs: Any) -> SotopiaParallelEnv:
    """Return the PettingZoo form in which both agents act at once, see `pettingzoo.SotopiaParallelEnv`."""
    from agentgym.sotopia.pettingzoo import SotopiaParallelEnv

    return SotopiaParallelEnv(**kwargs)


def aec_env(**kwargs: Any) -> SotopiaAECEnv:
    """Return the PettingZoo form in which the agents take turns, see `pettingzoo.SotopiaAECEnv`."""
    from agentgym.sotopia.pettingzoo import SotopiaAECEnv

    return SotopiaAECEnv(**kwargs)
