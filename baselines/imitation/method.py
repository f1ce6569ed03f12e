"""What every method of imitation is: options, and rounds that each collect something and learn from it.

    round = episodes of the expert, of the policy, or continuations -> replies or preferences -> updates

A method is a frozen dataclass of its options. From round to round it keeps what it puts into `Round.state`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from agentgym.checks import Checked, Size
from agentgym.trajectory import Floats, StepTable
from baselines.config import TrainerConfig
from baselines.records.metrics import Row

#: Called with updates or episodes done, their number, and a few words.
Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, words: str) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Setting:
    """Where a method learns, and how an update is made; the same for all methods of a comparison.

    Attributes:
        envs: a vector environment with autoreset `DISABLED`, made with `expert=True` and wrapped as for the policy.
        tasks: reset options of the tasks that the expert shows; methods play these too.
        training: learning rate, memory limits, groups and temperature; its iterations and seed are not used.
        supervised: keyword arguments of `baselines.imitation.cloning.imitate` besides epochs and seed.
    """

    envs: gym.vector.VectorEnv[Any, Any, Any]
    tasks: Sequence[Mapping[str, Any]]
    training: TrainerConfig
    supervised: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0


@dataclass
class Round:
    """One round of a method.

    Attributes:
        policy: trained in place, such as `policies.huggingface.HuggingFacePolicy`.
        start: the policy as it was before the first round, adapter included, frozen; None where a method needs none.
        number: of the round, from 0.
        seed: of what is random in this round.
        state: what the method keeps from round to round: plain values and tensors, nested.
    """

    policy: Any
    start: Any
    setting: Setting
    number: int
    seed: int
    state: dict[str, Any] = field(default_factory=dict)
    progress: Progress = silent

    def telling(self, words: str) -> Callable[[int, int], None]:
        """Return a progress function for updates, with these words."""
        return lambda done, total: self.progress(done, total, words)


@dataclass(frozen=True)
class Imitation(Checked, ABC):
    """A method with its options.

    Attributes:
        rounds: how often it collects and learns.
        needs_start: whether the policy before the first round is looked at; a second model, or adapter, if so.
    """

    needs_start: ClassVar[bool] = False
    name: str = ""
    rounds: Size = 1

    @abstractmethod
    def learn(self, part: Round) -> Row:
        """Do one round: train `part.policy` in place and return figures of it."""

    def __call__(self, table: StepTable) -> Floats:
        """Return nan for every row: these methods learn from episodes, none gives credit to the steps of a table."""
        return np.full(len(table), np.nan)

    def describe(self) -> str:
        options = {key: value for key, value in vars(self).items() if key not in ("name", "rounds")}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in sorted(options.items()))})"
