"""ALFWorld in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

from agentgym.alfworld.player import ALFWorldPlayer
from agentgym.alfworld.things import OBJECT_TYPES, RECEPTACLE_TYPES
from baselines.environments.settings import limit_of_steps, read


def _words() -> list[str]:
    kinds = sorted({kind.lower() for kind in (*RECEPTACLE_TYPES, *OBJECT_TYPES)})
    numbers = [f" {number}{mark} bed 1" for number in range(1, 31) for mark in ("", ", a", ", and a")]
    return [*(f" {kind}" for kind in kinds), *numbers]


ALFWORLD = read(
    __file__,
    papers_options={"steps": limit_of_steps, "success_reward": lambda reward: {"reward": reward}},
    words=_words,
    advisers={"explorer": ALFWorldPlayer},
)
