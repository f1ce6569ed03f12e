"""A corridor of five cells whose whole MDP is visible here: start in cell `start`, cell 4 wins, cell 0 loses."""

import math
from typing import Any, ClassVar

from agentgym.core import TextEnv, TextSpace
from agentgym.vector import TextVectorEnv


class CorridorEnv(TextEnv[str]):
    instructions = "Walk to the right end. Answer left or right."
    OPTIONS: ClassVar[tuple[str, ...]] = ("index", "task_id")
    answer_form = "{}"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.observation_space = TextSpace()
        self.action_space = TextSpace(samples=("left", "right", "jump"))
        self.cell = self.start = 0

    def begin(self, options: dict[str, Any]) -> None:
        if "task_id" in options:
            options = {"index": int(options["task_id"].removeprefix("start-"))}
        self.cell = self.start = int(options.get("index", self.np_random.integers(1, 4)))

    def num_tasks(self, split: str) -> int:
        return 3

    def act(self, command: str) -> tuple[float, bool, bool]:
        if command not in ("left", "right"):
            return -0.5, False, False
        self.cell += 1 if command == "right" else -1
        return (1.0 if self.cell == 4 else 0.0), self.cell in (0, 4), True

    def observe(self) -> str:
        return f"cell {self.cell}"

    def describe(self, valid: bool) -> dict[str, Any]:
        info = {
            "admissible_actions": ("left", "right"), "is_action_valid": valid, "state_key": str(self.cell),
            "task_id": f"start-{self.start}", "won": self.cell == 4, "score": self.cell / 4,
        }  # fmt: skip
        if self.expert:
            info["expert_action"] = "right"
        return info

    def gold_answers(self, task_id: str) -> tuple[str, ...]:
        return ("right",) if task_id in ("start-1", "start-2", "start-3") else ()

    def distance(self) -> float:
        return 4.0 - self.cell if self.cell else math.inf

    def get_state(self) -> tuple[int, int]:
        return self.cell, self.start

    def set_state(self, state: tuple[int, int]) -> None:
        self.cell, self.start = state


class CorridorVectorEnv(TextVectorEnv):
    env_class = CorridorEnv
