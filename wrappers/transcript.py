"""Show an episode as one growing conversation: observations are user messages, raw replies assistant messages.

The papers show a window (`wrappers.prompt`), a new prompt at every step. A transcript's prompt begins with the previous
one and its reply, so that a model can read a whole episode in one pass.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from agentgym.outside.text import clean
from wrappers.prompt import Episode, Message, Messages, MessageSpace, PromptStyle, text_of
from wrappers.reply import reads_tool_calls
from wrappers.vector_wrapper import Shown, SingleForm, Step, SubEnvWrapper


class VectorTranscript(SubEnvWrapper[Messages]):
    """Vector form of `Transcript`: a tuple with one conversation per sub-environment.

    `final_obs` is the whole conversation of the episode that ended. A finished sub-environment under `DISABLED` keeps
    its conversation. Successive observations share their messages; do not change them.

    Args:
        **style: `instructions`, `reply_format`, `admissible`, `facts` and `tools` of `PromptStyle`.
    """

    frozen = True

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], **style: Any) -> None:
        super().__init__(env)
        if windowed := sorted(style.keys() & {"history", "keep_first", "max_chars", "shown"}):
            raise TypeError(f"a transcript shows the whole episode and takes no {windowed[0]!r}: use PromptWindow")
        self.style = PromptStyle(history=0, **style).settled(self.env)
        self._answer = {"role": "tool"} if reads_tool_calls(self.env) else {}
        self.single_observation_space = MessageSpace()
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, self.num_envs)

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        for i in indices:
            self.states[i] = self._prompt(i, shown)

    def advance(self, step: Step) -> None:
        for i in step.played:
            reply: Message = {"role": "assistant", "content": clean(step.actions[i])}
            self.states[i] = (*self.states[i], reply, self._prompt(i, step.after)[-1] | self._answer)

    def observed(self) -> tuple[Messages, ...]:
        return tuple(self.states)

    def _prompt(self, i: int, shown: Shown) -> Messages:
        text = text_of(shown.observation(i))
        return self.style.messages_of(i, Episode(text, text), shown)


class Transcript(SingleForm):
    """Show the whole episode as an append-only conversation; arguments as `VectorTranscript`.

    Put it outside `ReplyParser`, in the place of `PromptWindow`: the conversation holds whole replies, thoughts
    included, as the policy wrote them. What follows a tool call (`form="tool_calls"`) has the role "tool".
    `HuggingFacePolicy` continues the token ids of such a conversation instead of tokenizing it again. Pictures stay
    in the conversation. Arguments are those of `VectorTranscript`.

    >>> import agentgym
    >>> env = Transcript(gym.make("AgentRL/Sokoban-v0"), instructions=False)
    >>> first, _ = env.reset(seed=0)
    >>> second, *_ = env.step("left")
    >>> [message["role"] for message in second], second[:1] == first, second[1]["content"]
    (['user', 'assistant', 'user'], True, 'left')
    """

    form = VectorTranscript
