"""Add step scores (a rule, a reward model, a judge) to the rewards of any environment, for any RL code.

| kind | meaning of a score | added |
|---|---|---|
| "contribution" | a share of the outcome | `weight * score` |
| "advantage" | a difference, such as a log-ratio | `weight * score`, for learners without a discount |
| "value" | quality of the state after the step | `weight * (gamma * s' - s)` |

With "value", s' is this step's score and s the previous one: s is 0 in the first step, s' is 0 after a termination and
the score after a truncation; without a score s' = s. The discounted sum over T steps is `weight * gamma^T * s_T`, 0
after a termination, so the optimal policy is unchanged (Ng, Harada and Russell 1999; Devlin and Kudenko 2012; Grzes
2017). The other kinds can change it.
"""

import copy
import math
import numbers
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agentgym.checks import Range, check_value
from wrappers.prompt import MessageSpace
from wrappers.vector_wrapper import Alone, Array, Shown, SingleForm, Step, SubEnvWrapper

Kind = Literal["contribution", "value", "advantage"]

# Number of sub-environments that an error names.
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class ScoredStep:
    """One step to be scored.

    Attributes:
        task_id: `info["task_id"]` of the episode's reset, "" without one.
        messages: observation before the step, a text or chat messages (of other environments, anything); read only.
        reply: the raw action given to the wrapper.
        action: `info["command"]` if a reply parser is inside ("" for a malformed reply), else the reply.
        observation: observation after the step; the last one of its episode if the step ended it.
        terminated: whether the episode terminated (a time limit only truncates).
    """

    task_id: Hashable
    messages: Any
    reply: Any
    action: Any
    observation: Any
    terminated: bool


#: One score per step, in order; None or nan where it has no opinion.
Scorer = Callable[[Sequence[ScoredStep]], Sequence[float | None]]


@dataclass(slots=True)
class _Episode:
    task: Hashable = ""
    shown: Any = None
    steps: int = 0
    potential: float = 0.0
    score: float = math.nan
    env_reward: float = 0.0


class VectorProcessReward(SubEnvWrapper[_Episode]):
    """Vector form of `ProcessReward`: one call of the scorer per step, with the steps of all that played, in order.

    `infos["process_reward"]` and `infos["env_reward"]` are float64 (num_envs,); the first is nan for sub-environments
    that ignored their action. Under `SAME_STEP` the numbers of an episode's last step are in `final_info`.

    Args:
        env: an environment of any kind; a time limit belongs inside (as in `gym.make`).
        scorer: non-empty list of `ScoredStep` -> sequence of one finite number each, None or nan for no score.
        weight: finite factor, in units of reward; 0 scores without a change of rewards.
        kind: "contribution", "value" or "advantage".
        gamma: the learner's discount, in (0, 1]; used by "value" only.

    Raises:
        RuntimeError: by `step`, when the scorer raises; the steps (named in the message) have been played: reset.
        TypeError: by `step`, when the scorer returns no sequence, or something that is not a number.
        ValueError: by `step`, on another number of scores, or an infinite one.
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        scorer: Scorer,
        weight: float = 1.0,
        kind: Kind = "contribution",
        gamma: float = 1.0,
    ) -> None:
        super().__init__(env)
        if not callable(scorer):
            raise TypeError(f"scorer must be a function from steps to scores, got {scorer!r:.200}")
        check_value("weight", weight, float)
        check_value("gamma", gamma, float, Range(above=0, high=1))
        check_value("kind", kind, Kind)
        self.scorer, self.weight, self.kind, self.gamma = scorer, float(weight), kind, float(gamma)
        # An environment may reuse its arrays; conversations only grow, and are expensive to copy.
        self._constant = isinstance(self.env.single_observation_space, MessageSpace)
        self.states = [_Episode() for _ in range(self.num_envs)]

    @property
    def potential(self) -> NDArray[np.float64]:
        """float64 (num_envs,), the level s of kind "value" before each next step."""
        return np.array([episode.potential for episode in self.states])

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        for i in indices:
            self.states[i] = _Episode(shown.info(i).get("task_id", ""), self._kept(shown.observation(i)))

    def advance(self, step: Step) -> NDArray[np.float64] | None:
        for episode, reward in zip(self.states, step.rewards.tolist(), strict=True):
            episode.score, episode.env_reward = math.nan, float(reward)
        if not step.played:
            return None
        made = [self._made(self.states[i], i, step) for i in step.played]
        of = (
            "step {} of the episode" if isinstance(self.env, Alone) else "sub-environment {1} (step {0} of its episode)"
        )
        gains = np.zeros(self.num_envs)
        scores = self._ask(made, [of.format(self.states[i].steps, i) for i in step.played])
        for i, one, score in zip(step.played, made, scores, strict=True):
            gains[i] = self._gain(self.states[i], score, one.terminated)
        return gains if self.weight else None

    def copied(self, state: _Episode) -> _Episode:
        return replace(state)

    def columns(self) -> dict[str, Array]:
        return {
            "process_reward": np.array([episode.score for episode in self.states]),
            "env_reward": np.array([episode.env_reward for episode in self.states]),
        }

    def _made(self, episode: _Episode, i: int, step: Step) -> ScoredStep:
        reply, before = step.actions[i], episode.shown
        episode.shown, episode.steps = self._kept(step.after.observation(i)), episode.steps + 1
        command = step.after.info(i).get("command", reply)
        return ScoredStep(episode.task, before, reply, command, episode.shown, bool(step.terminated[i]))

    def _ask(self, steps: Sequence[ScoredStep], names: Sequence[str]) -> list[float]:
        try:
            answer: Any = self.scorer(steps)
        except Exception as error:
            named = ", ".join(names[:_MOST_NAMED])
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            raise RuntimeError(f"the scorer failed on {named}{more}: {type(error).__name__}: {error}") from error
        answer = _plain(answer)
        if not isinstance(answer, Sequence) or isinstance(answer, (str, bytes)):
            raise TypeError(
                f"the scorer must answer a sequence of {len(steps)} scores, one per step, got {type(answer).__name__} "
                f"({answer!r:.200})"
            )
        if len(answer) != len(steps):
            raise ValueError(
                f"the scorer must answer one score per step, {len(steps)} (None where it has no opinion), got "
                f"{len(answer)}: {answer!r:.200}"
            )
        return [_number(score, name) for score, name in zip(answer, names, strict=True)]

    def _gain(self, episode: _Episode, score: float, terminated: bool) -> float:
        episode.score = score
        silent = math.isnan(score)
        if self.kind != "value":
            return 0.0 if silent else self.weight * score
        left = episode.potential
        episode.potential = 0.0 if terminated else left if silent else score
        return self.weight * (self.gamma * episode.potential - left)

    def _kept(self, observation: Any) -> Any:
        return observation if self._constant else copy.deepcopy(observation)


class ProcessReward(SingleForm):
    r"""Add a scorer's scores to the rewards; arguments as `VectorProcessReward`, kinds in the module's docstring.

    Put it outside `ReplyParser` and `PromptWindow`, so that the scorer gets the policy's observations and raw replies.
    Info gains `process_reward` (nan without a score and after a reset) and `env_reward` (0 after a reset).

    >>> import agentgym
    >>> def crossed(steps):
    ...     return [0.5 if step.action == "right" else None for step in steps]
    >>> env = ProcessReward(gym.make("AgentRL/Sokoban-v0"), crossed)
    >>> _ = env.reset(options={"level": "######\n#P_XO#\n######"})
    >>> for command in ("right", "left"):
    ...     _, reward, _, _, info = env.step(command)
    ...     print(reward, info["env_reward"], info["process_reward"])
    0.4 -0.1 0.5
    -0.1 -0.1 nan
    """

    form = VectorProcessReward

    @property
    def potential(self) -> float:
        """The level s of kind "value" before the next step; 0 for the other kinds."""
        return float(self.vector.states[0].potential)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _number(score: Any, name: str) -> float:
    score = _plain(score)
    if score is None:
        return math.nan
    if not isinstance(score, numbers.Real):
        raise TypeError(
            f"the scorer must answer numbers, or None where it has no opinion, got {type(score).__name__} "
            f"({score!r:.200}) for {name}"
        )
    number = float(score)
    if math.isinf(number):
        raise ValueError(
            f"the scorer must answer finite numbers, or None where it has no opinion, got {number} for {name}"
        )
    return number
