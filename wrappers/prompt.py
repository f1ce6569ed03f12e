"""Render observations as chat messages: the rules, the last k (observation, action) pairs, the current observation.

The wrapper replaces the observation by a finite history, so that a policy without memory sees more of the state.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from agentgym.checks import Count, Size, check_fields, fields_checked
from agentgym.outside.text import clean
from wrappers.reply import parses_replies, reads_tool_calls
from wrappers.tools import CALL_FORMAT, describe_tools, listed_tools
from wrappers.vector_wrapper import Alone, Shown, SingleForm, Step, SubEnvWrapper

Message = dict[str, Any]
Messages = tuple[Message, ...]

ROLES = ("system", "user", "assistant", "tool")

REPLY_FORMAT = (
    "Think first, inside <think> and </think>. Then give exactly one command, inside <action> and </action>, "
    "and stop there."
)
CUT = " [cut]"
UNREADABLE = "(no readable command)"


@dataclass
class Episode:
    """The history of one episode: texts of the first and the current observation, and the latest pairs."""

    first: str
    now: str
    pairs: list[tuple[str, str]] = field(default_factory=list)
    steps: int = 0


@fields_checked
@dataclass(frozen=True)
class PromptStyle:
    """Content of a prompt; the options of the wrappers.

    Attributes:
        history: number of latest (observation, action) pairs shown; None for all.
        instructions: True: the environment's `instructions`, then `reply_format`; a text in place of both; or False.
        reply_format: the format of replies; default with tool calls: `wrappers.tools.CALL_FORMAT`, in a template none.
        tools: with tool calls, where their schemas are listed: the system message ("text"), or the policy's chat
            template ("template"), by `template={"tools": listed_tools(envs)}`.
        keep_first: show the episode's first observation, which may state the task, after it left the history.
        admissible: list the admissible commands after the observation.
        shown: content of a history step: "pairs", observation and action, or "actions" alone (much shorter).
        facts: info entries shown below the current observation, such as `("location", "inventory")`.
        max_chars: longest user message in characters; None for no limit. The oldest pairs are dropped first, then the
            end of the current observation is cut and marked. The first observation and the commands are never cut.

    Raises:
        ValueError: on a negative `history`, a `max_chars` below 1, or an unknown `shown` or `tools`.
        TypeError: an option is of another type; `facts` is a sequence of names.
    """

    history: Count | None = 2
    instructions: bool | str = True
    reply_format: str = REPLY_FORMAT
    keep_first: bool = False
    admissible: bool = False
    max_chars: Size | None = None
    shown: Literal["pairs", "actions"] = "pairs"
    facts: Sequence[str] = ()
    tools: Literal["text", "template"] = "text"

    def __post_init__(self) -> None:
        check_fields(self)
        if isinstance(self.facts, str) or not all(isinstance(name, str) for name in self.facts):
            raise TypeError(f"facts must be a sequence of names of info entries, got {self.facts!r}")

    def settled(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> PromptStyle:
        """Check the observation space, and replace `instructions=True` by the environment's text."""
        space = env.single_observation_space
        if isinstance(space, gym.spaces.Dict):
            keys = set(space.keys())
            if "text" not in keys or not keys <= {"text", "image"}:
                raise ValueError(f"a Dict observation needs the key 'text' and may have 'image', got {sorted(keys)}")
        if self.instructions is not True:
            return self
        rules = getattr(env.unwrapped, "instructions", "")
        if not isinstance(rules, str) or not rules:
            raise ValueError(f"{env} has no `instructions`: pass a text as instructions=..., or False for none")
        calls = reads_tool_calls(env)
        listed = listed_tools(env) if calls and self.tools == "text" else ()
        form = self.reply_format
        if calls and form == REPLY_FORMAT:
            form = CALL_FORMAT if self.tools == "text" else ""
        if form and not parses_replies(env):
            warnings.warn(
                f"the prompt asks for a reply format that nothing reads: {env} gets whole replies as commands; put "
                "a reply parser inside, PromptWindow(ReplyParser(env)), or pass reply_format='' where replies are "
                "commands",
                stacklevel=3 + isinstance(env, Alone),
            )
        parts = [rules, describe_tools(listed) if listed else "", form]
        return replace(self, instructions="\n\n".join(part for part in parts if part))

    def remember(self, episode: Episode, observation: Any, command: str) -> None:
        episode.steps += 1
        if self.history != 0:
            episode.pairs.append((episode.now, clean(command)))
            if self.history is not None:
                del episode.pairs[: -self.history]
        episode.now = text_of(observation)

    def messages_of(self, i: int, episode: Episode, shown: Shown) -> Messages:
        """Render the prompt of sub-environment i: an optional system message and a user message.

        Raises:
            KeyError: when the infos lack a fact.
        """
        observation, nothing = shown.observation(i), object()
        facts = {name: shown.entry(name, i, nothing) for name in self.facts}
        if missing := [name for name, value in facts.items() if value is nothing]:
            raise KeyError(f"facts: info has no {missing[0]!r}; it has {sorted(shown.info(i))}")
        content: Any = self.user_text(episode, shown.entry("admissible_actions", i, ()), facts)
        if isinstance(observation, dict) and "image" in observation:
            content = [{"type": "image", "image": observation["image"]}, {"type": "text", "text": content}]
        user: Message = {"role": "user", "content": content}
        rules = self.instructions
        if rules and self.tools == "text" and (tools := shown.entry("tools", i)):
            rules = f"{rules}\n\n{describe_tools(tools)}"
        return ({"role": "system", "content": rules}, user) if rules else (user,)

    def user_text(self, episode: Episode, commands: Sequence[str] = (), facts: Mapping[str, Any] | None = None) -> str:
        """Render the text of the user message; without pairs and extras it is the observation."""
        below = ["\n".join(f"{name}: {value}" for name, value in facts.items())] if facts else []
        if self.admissible and commands:
            below.append("Commands you can give now: " + ", ".join(commands))

        def without(dropped: int) -> str:
            return self._layout(episode, episode.pairs[dropped:], episode.now, below)

        text = without(0)
        if self.max_chars is None or len(text) <= self.max_chars:
            return text
        # Only the first pair dropped can make the text longer (`keep_first`); then each one makes it shorter.
        drops = range(1, len(episode.pairs) + 1)
        fewest = bisect_left(drops, -self.max_chars, key=lambda dropped: -len(without(dropped)))
        if fewest < len(drops):
            return without(drops[fewest])
        text = without(len(drops))
        excess = len(text) - self.max_chars + len(CUT)
        return self._layout(episode, (), episode.now[: max(0, len(episode.now) - excess)] + CUT, below)

    def _layout(self, episode: Episode, pairs: Sequence[tuple[str, str]], now: str, below: Sequence[str]) -> str:
        parts = []
        actions = self.shown == "actions"
        if self.keep_first and episode.steps > (0 if actions else len(pairs)):
            parts.append(f"At the start you saw:\n{episode.first}")
        if actions and pairs:
            parts.append("You did: " + "; ".join(command or UNREADABLE for _, command in pairs))
        elif not actions:
            for step, (seen, command) in enumerate(pairs, episode.steps - len(pairs) + 1):
                parts.append(f"Step {step}, you saw:\n{seen}\nStep {step}, you did: {command or UNREADABLE}")
        parts.append(f"Now you see:\n{now}" if parts else now)
        return "\n\n".join([*parts, *below])


def text_of(observation: Any) -> str:
    """Return the text of an observation, bare or in a dict."""
    text: str = observation["text"] if isinstance(observation, dict) else observation
    return text


class MessageSpace(gym.Space[Messages]):
    """Non-empty tuples of messages `{"role": ..., "content": ...}`.

    The content is a string, or for prompts with a picture a list of parts `{"type": "text", "text": str}` and `{"type":
    "image", "image": uint8 array (height, width, 3)}`.

    >>> space = MessageSpace(seed=0)
    >>> ({"role": "user", "content": "hello"},) in space, ({"role": "user"},) in space, space.sample() in space
    (True, False, True)
    """

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: None = None, probability: None = None) -> Messages:
        if mask is not None or probability is not None:
            raise ValueError("MessageSpace.sample takes neither mask nor probability: sample without them")
        return ({"role": "user", "content": str(self.np_random.integers(1 << 32))},)

    def contains(self, x: Any) -> bool:
        return isinstance(x, tuple) and bool(x) and all(_is_message(message) for message in x)

    def __repr__(self) -> str:
        return "MessageSpace()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageSpace)

    __hash__ = None  # type: ignore[assignment]  # as other Gymnasium spaces: mutable through its generator


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict) or message.keys() != {"role", "content"} or message["role"] not in ROLES:
        return False
    content = message["content"]
    return isinstance(content, str) or (isinstance(content, list) and bool(content) and all(map(_is_part, content)))


def _is_part(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    if part.get("type") == "text":
        return part.keys() == {"type", "text"} and isinstance(part["text"], str)
    if part.get("type") == "image":
        return part.keys() == {"type", "image"} and isinstance(part["image"], np.ndarray) and part["image"].ndim == 3
    return False


class VectorPromptWindow(SubEnvWrapper[tuple[Episode, Messages]]):
    """Vector form of `PromptWindow`: a tuple of messages per sub-environment; options as `PromptStyle`.

    `final_obs` has the history of the episode that ended. Under `DISABLED` finished sub-environments keep messages.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], **style: Any) -> None:
        super().__init__(env)
        self.style = PromptStyle(**style).settled(self.env)
        self.single_observation_space = MessageSpace()
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, self.num_envs)

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        for i in indices:
            text = text_of(shown.observation(i))
            self._show(i, Episode(text, text), shown)

    def advance(self, step: Step) -> None:
        for i in step.played:
            episode, _ = self.states[i]
            command = step.after.entry("command", i)
            self.style.remember(episode, step.after.observation(i), step.actions[i] if command is None else command)
            self._show(i, episode, step.after)

    def copied(self, state: tuple[Episode, Messages]) -> tuple[Episode, Messages]:
        return replace(state[0], pairs=state[0].pairs.copy()), state[1]

    def observed(self) -> tuple[Messages, ...]:
        return tuple(messages for _, messages in self.states)

    def _show(self, i: int, episode: Episode, shown: Shown) -> None:
        self.states[i] = episode, self.style.messages_of(i, episode, shown)


class PromptWindow(SingleForm):
    """Show chat messages in place of observations; options as `PromptStyle`.

    Put it outside `ReplyParser`, so that the history shows commands and not whole replies. Observations are texts, or
    `Dict(text, image)`: the current picture becomes a part of the content.

    >>> import agentgym
    >>> env = PromptWindow(gym.make("AgentRL/Sokoban-v0"), history=0, instructions=False)
    >>> messages, _ = env.reset(seed=0)
    >>> [message["role"] for message in messages], messages in env.observation_space
    (['user'], True)
    """

    form = VectorPromptWindow
