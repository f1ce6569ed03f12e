"""Add the scores of a process reward model to the rewards, step by step: around any environment, for any RL code.

The scorer is any function from steps to numbers: a rule, a reward model, a judge behind an endpoint. It is called once
per step of the environment, in the vector form once for all sub-environments that played, and may be silent about a
step. What is added to the reward:

| kind | what a score is | added |
|---|---|---|
| "contribution" | a share of the outcome | `weight * score` |
| "advantage" | a difference already, such as a log-ratio | `weight * score`, for learners without a discount |
| "value" | a level: how good the state is that the step led to | `weight * (gamma * s' - s)` |

In the last row s' is the score of this step and s that of the step before: 0 in an episode's first step, and s' is 0
where the episode terminates; where it is truncated, s' is what was said. A scorer that is silent leaves the level as it
was, s' = s. Over an episode of T steps the discounted sum of what is added is then `weight * gamma^T * s_T`, which is 0
after a termination, whatever was done and said: the best policy stays the best (Ng, Harada and Russell 1999; potentials
that depend on what happened before: Devlin and Kudenko 2012; their value at an end: Grzes 2017). The other two kinds
reward what the scorer likes, and can change which policy is best.
"""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from wrappers.prompt import MessageSpace
from wrappers.vector_wrapper import Alone, Array, Shown, SingleForm, Step, SubEnvWrapper

Kind = Literal["contribution", "value", "advantage"]

# Sub-environments that an error names; of the others it gives the number.
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class ScoredStep:
    """One step that a scorer is asked about.

    Attributes:
        task_id: `info["task_id"]` of the episode's reset, "" where there is none.
        messages: what the policy was shown when it replied: the observation before the step, a text or chat messages
            (whatever the environment observes, for environments without text). Do not write into it.
        reply: what was given to the wrapper, raw.
        action: the command in the reply, `info["command"]`, where a reply parser is inside ("" for a malformed reply);
            else the reply itself.
        observation: what the step led to, as `messages`; the last one of its episode where the step ended it, never
            the first of the next.
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
    """Where an episode is: its task, what it shows, its steps, the level said last, the last numbers."""

    task: Hashable = ""
    shown: Any = None
    steps: int = 0
    potential: float = 0.0
    score: float = math.nan
    env_reward: float = 0.0


class VectorProcessReward(SubEnvWrapper[_Episode]):
    """Vector form of `ProcessReward`: the scorer is called once per step, with the steps of all that played, in order.

    It is not called where nobody played. `infos["process_reward"]` and `infos["env_reward"]` are float64 (num_envs,);
    of sub-environments that ignored their action the first is nan. Under `SAME_STEP` the numbers of an episode's last
    step are in `final_info`, as its last observation is the one that was scored.

    Args:
        env: an environment of any kind. A time limit belongs inside (`gym.make` puts it there).
        scorer: called with a list of one `ScoredStep` per step of the environment; answers a sequence (or an array)
            of one finite number, or of None or nan for no opinion.
        weight: multiplies what is added, in units of reward; finite. 0 only watches: the scorer is asked and
            `process_reward` shown, and rewards are the very ones from inside.
        kind: what a score is, "contribution", "value" or "advantage".
        gamma: the learner's discount, in (0, 1]; only "value" uses it.

    Raises:
        RuntimeError: by `step`, when the scorer raises; the message names the steps. They have been played: reset.
        TypeError: by `step`, when the scorer answers no sequence, or something that is no number.
        ValueError: by `step`, when it answers another number of scores, or an infinite one.
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
        given: dict[str, Any] = {"weight": weight, "gamma": gamma}
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise TypeError(f"{name} must be a number, got {value!r}")
        if not math.isfinite(weight):
            raise ValueError(f"weight multiplies the scores: pass a finite number, got {weight!r}")
        if not 0 < gamma <= 1:
            raise ValueError(f"gamma is the learner's discount: pass a number in (0, 1], got {gamma!r}")
        if kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {get_args(Kind)}, got {kind!r}")
        self.scorer, self.weight, self.kind, self.gamma = scorer, float(weight), kind, float(gamma)
        # An environment may use its arrays again; conversations only ever grow, and are long to copy.
        self._constant = isinstance(self.env.single_observation_space, MessageSpace)
        self.states = [_Episode() for _ in range(self.num_envs)]

    @property
    def potential(self) -> NDArray[np.float64]:
        """float64 (num_envs,), the level s of kind "value" that each next step is measured against."""
        return np.array([episode.potential for episode in self.states])

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        """Start episodes; what they begin with is not scored."""
        for i in indices:
            self.states[i] = _Episode(shown.info(i).get("task_id", ""), self._kept(shown.observation(i)))

    def advance(self, step: Step) -> NDArray[np.float64] | None:
        """Ask the scorer about the steps that were played, and return what is added."""
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
        """Return an episode that goes on by itself; what was shown is never written into."""
        return replace(state)

    def columns(self) -> dict[str, Array]:
        """Return what was said of the last step, and its reward from inside."""
        return {
            "process_reward": np.array([episode.score for episode in self.states]),
            "env_reward": np.array([episode.env_reward for episode in self.states]),
        }

    def _made(self, episode: _Episode, i: int, step: Step) -> ScoredStep:
        """Move an episode on, and return the step for the scorer."""
        reply, before = step.actions[i], episode.shown
        episode.shown, episode.steps = self._kept(step.after.observation(i)), episode.steps + 1
        command = step.after.info(i).get("command", reply)
        return ScoredStep(episode.task, before, reply, command, episode.shown, bool(step.terminated[i]))

    def _ask(self, steps: Sequence[ScoredStep], names: Sequence[str]) -> list[float]:
        """Return the scores of steps, nan where there is none; `names` say where they were made."""
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
        """Note a step's score in its episode, and return what is added to its reward."""
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
    r"""Add the scores of a scorer to the rewards; see the module for the kinds.

    Put it outside `ReplyParser` and `PromptWindow`: the scorer then sees what the policy saw, and raw replies. Info
    gains `process_reward`, the step's score as it was said (nan where the scorer was silent, and after a reset), and
    `env_reward`, the reward from inside (0 after a reset). Arguments are those of `VectorProcessReward`.

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
        """The level s of kind "value" that the next step is measured against; 0 for the other kinds."""
        return float(self.vector.states[0].potential)


def _plain(value: Any) -> Any:
    """Return numbers of numpy or torch as Python's, arrays of them as lists, and anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def _number(score: Any, name: str) -> float:
    """Return a score as a float, nan for None."""
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
