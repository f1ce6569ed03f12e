"""A scorer with given scores; it counts the calls that ask it to learn."""

from typing import Any

import numpy as np

from agentgym.trajectory import Floats, StepTable
from baselines.scorers.scorer import StepScorer


class Fixed(StepScorer):
    """Says 1 in a trajectory that was won, else 0, as an ideal judge would."""

    def __init__(self, order: Any = "after") -> None:
        self.order = order
        self.seen: list[tuple[str, Any]] = []

    def scores(self, table: StepTable) -> Floats:
        self.seen.append(("scores", None))
        return table.won.astype(np.float64)

    def update(
        self, table: StepTable, scores: Floats, targets: Any, generator: np.random.Generator, learning_rate: float
    ) -> dict[str, float]:
        self.seen.append(("update", targets))
        return {"asked": float(len(self.seen))}

    def state_dict(self) -> dict[str, Any]:
        return {"count": len(self.seen)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = [("loaded", None)] * state["count"]

    def describe(self) -> dict[str, Any]:
        return {"kind": "fixed", "order": self.order}
