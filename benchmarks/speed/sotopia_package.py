"""Twenty-turn dialogues per second of the `sotopia` package, for an interpreter that has it and little else.

    SOTOPIA_PYTHON=/path/to/python python -m benchmarks.run speed throughput

The package (0.1.5) and what it needs cannot be installed beside this project, so its interpreter runs this file as a
script. Two scripted people take turns in its own environment; its judge is left out, since it asks a model.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Any

VARIABLE = "SOTOPIA_PYTHON"
TURNS = 20


def package_rate(quick: bool) -> float | None:
    """Return the package's dialogues per processor second; None where no interpreter is named."""
    from benchmarks.speed.peers import in_interpreter  # not where this file is a script

    found = in_interpreter(
        VARIABLE, __file__, 2 if quick else 6, needs="sotopia==0.1.5", environment={"SOTOPIA_STORAGE_BACKEND": "local"}
    )  # fmt: skip
    return None if found is None else found[-1]


class _Person:
    """What the package asks of an agent besides its acts, which are given here."""

    def __init__(self, profile: Any) -> None:
        self.profile, self.goal = profile, ""
        self.agent_name = f"{profile.first_name} {profile.last_name}"


class _NoJudge:
    """A judge that says nothing."""

    prompt = ""

    async def __acall__(self, *_: object, **__: object) -> list[object]:
        return []


async def _play(scene: Any, people: list[Any]) -> int:
    from sotopia.agents import Agents
    from sotopia.envs.evaluators import RuleBasedTerminatedEvaluator
    from sotopia.envs.parallel import ParallelSotopiaEnv
    from sotopia.messages import AgentAction

    ends = RuleBasedTerminatedEvaluator(max_turn_number=TURNS, max_stale_turn=TURNS)
    env = ParallelSotopiaEnv(
        env_profile=scene, action_order="round-robin", evaluators=[ends], terminal_evaluators=[_NoJudge()]
    )
    agents = Agents({person.agent_name: person for person in map(_Person, people)})
    env.reset(agents=agents)
    turn, over = 0, False
    while not over:
        acts = {
            name: AgentAction(action_type="speak", argument=f"What about ${100 + turn}?")
            if i == turn % 2
            else AgentAction(action_type="none", argument="")
            for i, name in enumerate(agents)
        }
        over = all((await env.astep(acts))[2].values())
        turn += 1
    return turn


def main(repeats: int) -> float:
    """Return the best rate of several repetitions of 40 dialogues."""
    from sotopia.database import AgentProfile, EnvironmentProfile

    logging.disable(logging.CRITICAL)
    none = dict.fromkeys(("age_constraint", "occupation_constraint"), "")
    scene = EnvironmentProfile(
        pk="e", codename="sale", source="", scenario="Two people meet.", agent_goals=["sell", "buy"], relationship=0,
        agent_constraint=None, **none,
    )  # fmt: skip
    people = [
        AgentProfile(
            pk=name, first_name=name, last_name="Lund", age=30, occupation="cook", gender="Man",
            gender_pronoun="He/him", public_info="He likes tea.",
        )
        for name in ("Ann", "Ben")
    ]  # fmt: skip
    best = 0.0
    for _ in range(repeats + 1):
        begin = time.process_time()
        turns = [asyncio.run(_play(scene, people)) for _ in range(40)]
        best = max(best, len(turns) / (time.process_time() - begin))
        if set(turns) != {TURNS}:
            raise RuntimeError(f"dialogues of {sorted(set(turns))} turns were measured, not of {TURNS}")
    return best


if __name__ == "__main__":
    print(main(int(sys.argv[1])))
