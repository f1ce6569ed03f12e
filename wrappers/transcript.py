"""Turn an episode into one growing conversation: observations are user messages, raw replies assistant messages.

The papers show a window (`wrappers.prompt`): a new prompt at every step. A transcript only ever grows, so that each
prompt begins with the one before and its reply, and a model can read a whole episode in one pass.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from agentgym.branching.single import BranchingWrapper
from agentgym.outside.text import clean
from wrappers.prompt import Episode, Message, Messages, MessageSpace, PromptStyle, text_of
from wrappers.vector_wrapper import Shown, Step, SubEnvWrapper


class Transcript(BranchingWrapper, gym.Wrapper[Messages, str, Any, str], RecordConstructorArgs):
    """Show the whole episode as chat messages that are only ever appended to.

    Put it outside `ReplyParser`, in the place of `PromptWindow`: the conversation holds whole replies, thoughts
    included, as the policy wrote them. `HuggingFacePolicy` continues the token ids of such a conversation instead of
    cutting its text anew.

    Args:
        env: an environment with text observations, or `Dict(text, image)`; pictures stay in the conversation.
        **style: `instructions`, `reply_format`, `admissible` and `facts` of `PromptStyle`.

    >>> import agentgym
    >>> env = Transcript(gym.make("AgentRL/Sokoban-v0"), instructions=False)
    >>> first, _ = env.reset(seed=0)
    >>> second, *_ = env.step("left")
    >>> [message["role"] for message in second], second[:1] == first, second[1]["content"]
    (['user', 'assistant', 'user'], True, 'left')
    """

    def __init__(self, env: gym.Env[Any, str], **style: Any) -> None:
        RecordConstructorArgs.__init__(self, **style)
        gym.Wrapper.__init__(self, env)
        self.style = _style(style).settled(env, env.observation_space)
        self.observation_space = MessageSpace()
        self._messages: Messages = ()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Start a conversation."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._messages = self._shown(observation, info)
        return copy.deepcopy(self._messages), info

    def step(self, action: str) -> tuple[Messages, SupportsFloat, bool, bool, dict[str, Any]]:
        """Append the reply and what is seen after it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._messages = (*self._messages, _reply(action), self._shown(observation, info)[-1])
        # Gymnasium's checker asks for observations that share nothing with earlier ones.
        return copy.deepcopy(self._messages), reward, terminated, truncated, info

    def get_state(self) -> Messages:
        """Return the conversation, which only ever grows by another one."""
        return self._messages

    def set_state(self, state: Messages) -> None:
        """Load what `get_state` returned."""
        self._messages = state

    def shown(self, observation: Any, info: dict[str, Any]) -> tuple[Messages, dict[str, Any]]:
        """Return the conversation."""
        return copy.deepcopy(self._messages), info

    def _shown(self, observation: Any, info: dict[str, Any]) -> Messages:
        text, commands = text_of(observation), info.get("admissible_actions", ())
        return self.style.messages(Episode(text, text), observation, commands, self.style.known(info))


class VectorTranscript(SubEnvWrapper[Messages]):
    """Vector form of `Transcript`: a tuple with one conversation per sub-environment.

    `final_obs` is the whole conversation of the episode that ended. A finished sub-environment under `DISABLED` keeps
    its conversation. Successive observations share their messages: do not write into them.

    Args:
        env: a vector environment.
        **style: as for `Transcript`.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], **style: Any) -> None:
        super().__init__(env)
        self.style = _style(style).settled(env, env.single_observation_space)
        self.single_observation_space = MessageSpace()
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, env.num_envs)

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        """Start conversations."""
        for i in indices:
            self.states[i] = self._shown(i, shown)

    def advance(self, step: Step) -> None:
        """Append what was replied and what is seen after it."""
        for i in step.played:
            self.states[i] = (*self.states[i], _reply(step.actions[i]), self._shown(i, step.after)[-1])

    def copied(self, state: Messages) -> Messages:
        """Return a conversation as it is: it only ever grows by another one."""
        return state

    def observed(self) -> tuple[Messages, ...]:
        """Return the conversations."""
        return tuple(self.states)

    def _shown(self, i: int, shown: Shown) -> Messages:
        text = text_of(shown.observation(i))
        return self.style.messages_of(i, Episode(text, text), shown)


def _style(options: dict[str, Any]) -> PromptStyle:
    if windowed := sorted(options.keys() & {"history", "keep_first", "max_chars", "shown"}):
        raise TypeError(f"a transcript shows the whole episode and takes no {windowed[0]!r}: use PromptWindow")
    return PromptStyle(history=0, **options)


def _reply(action: str) -> Message:
    return {"role": "assistant", "content": clean(action)}
