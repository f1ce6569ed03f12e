"""Ask an adviser in every state and show its answer as the expert's action.

An environment's own expert may use hidden state; an adviser gets observation and admissible commands, as a player.
"""

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym

from wrappers.prompt import text_of
from wrappers.vector_wrapper import Array, Shown, Step, SubEnvWrapper, objects


class Adviser(Protocol):
    """The adviser of one sub-environment, such as `agentgym.alfworld.player.ALFWorldPlayer`."""

    def act(self, observation: str, admissible: Collection[str]) -> str: ...


class _Advised(NamedTuple):
    adviser: Adviser
    advice: str


class VectorAdvice(SubEnvWrapper[_Advised]):
    """Put an adviser's commands into `infos["expert_action"]`, in place of the environment's expert.

    Put it directly around the environment. `adviser()` makes an adviser for every episode; "" is the advice at its end.

    >>> import agentgym
    >>> from agentgym.alfworld.player import ALFWorldPlayer
    >>> envs = VectorAdvice(gym.make_vec("AgentRL/ALFWorld-v0", num_envs=2, data="generated"), ALFWorldPlayer)
    >>> infos = envs.reset(seed=0)[1]
    >>> [advice in known for advice, known in zip(infos["expert_action"], infos["admissible_actions"])]
    [True, True]
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], adviser: Callable[[], Adviser]) -> None:
        super().__init__(env)
        if not callable(adviser):
            raise TypeError(f"adviser must make an adviser when it is called, got {adviser!r}")
        self.adviser = adviser

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        for i in indices:
            self._ask(i, self.adviser(), shown)

    def advance(self, step: Step) -> None:
        for i in step.played:
            if step.terminated[i] or step.truncated[i]:
                self.states[i] = self.states[i]._replace(advice="")
            else:
                self._ask(i, self.states[i].adviser, step.after)

    def copied(self, state: _Advised) -> _Advised:
        return _Advised(copy.deepcopy(state.adviser), state.advice)

    def columns(self) -> dict[str, Array]:
        return {"expert_action": objects([state.advice for state in self.states])}

    def _ask(self, i: int, adviser: Adviser, shown: Shown) -> None:
        advice = adviser.act(text_of(shown.observation(i)), shown.entry("admissible_actions", i))
        self.states[i] = _Advised(adviser, advice)
