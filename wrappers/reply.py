"""Parse a model's raw reply into a command or an error.

A reply has any number of blocks `<think>...</think>` and one block `<action>...</action>`, which holds the command:

    <think>The box is left of me.</think><action>left</action>

* a block whose tag is one of the environment's `command_tags` (such as `<search>...</search>`) is an action block,
  and its command is the whole block;
* a block ends at the first closing tag of its kind; inside a think block every other tag is plain text;
* another tag inside an action block, or a closing tag without an opening one, makes the reply malformed;
* text outside the blocks is ignored unless `outside="error"`;
* several action blocks are malformed unless `several` is "first" (parsing stops after the first) or "last".

`form="labels"` parses ReAct's labelled lines (`read_labels`), `form="tool_calls"` a thought and calls of the
environment's tools (`wrappers.tools.read_tool_reply`). Parsing is one pass, linear in the reply's length. A malformed
reply never raises: its command is `""`, which no environment accepts, and a `ReplyError` holds the reason.
"""

import re
import warnings
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import gymnasium as gym
import numpy as np

from agentgym.adapter import AdaptedVectorEnv
from agentgym.core import TextSpace
from agentgym.outside.text import clean
from wrappers.tools import Tools, checks_calls, listed_tools, read_tool_reply
from wrappers.vector_wrapper import Alone, Array, Shown, SingleForm, Step, SubEnvWrapper, objects

Form = Literal["tags", "labels", "tool_calls"]

#: Bounded repetitions keep the time linear in the length of the reply.
_LABEL = re.compile(
    r"^[ \t>#*-]{0,8}(thought|action|observation)[ \t]{0,3}\d{0,4}[ \t*]{0,8}:[ \t*]{0,8}", re.IGNORECASE | re.MULTILINE
)


class ReplyError(StrEnum):
    """Error of a reply, the first that applies in this order; the values go into `info["reply_error"]`."""

    OK = ""
    UNCLOSED_THINK = "unclosed_think"
    """A think block is never closed, so whatever follows is thought, not action."""
    UNCLOSED_ACTION = "unclosed_action"
    """The action block is never closed: the reply was probably cut off."""
    NESTED_TAG = "nested_tag"
    """A think tag or a second opening tag inside an action block."""
    STRAY_TAG = "stray_tag"
    """A closing tag that closes nothing."""
    NO_ACTION = "no_action"
    """No action block outside the thoughts."""
    SEVERAL_ACTIONS = "several_actions"
    """More than one action block (unless `several` allows it)."""
    EMPTY_ACTION = "empty_action"
    """The action block holds only white space."""
    TOO_LONG = "too_long"
    """The command has more than `max_length` characters."""
    NO_THINK = "no_think"
    """No think block before the action, though `require_think` asks for one."""
    TEXT_OUTSIDE = "text_outside"
    """Text outside the blocks, with `outside="error"`."""
    UNREADABLE_CALL = "unreadable_call"
    """With `form="tool_calls"`: a tool call that cannot be read."""
    WRONG_CALL = "wrong_call"
    """With `form="tool_calls"`: there is no such tool, or the arguments do not fit it."""


class ParsedReply(NamedTuple):
    """Result of `parse_reply`: `command` is `""` exactly when `error` is not `OK`; `thought` may be set in any case."""

    command: str
    error: ReplyError
    thought: str


class _Scan(NamedTuple):
    error: ReplyError
    actions: list[str]
    thoughts: list[str]
    thought_first: bool
    outside: bool


@lru_cache(maxsize=64)
def _tags(action_tag: str, think_tag: str, ignore_case: bool, command_tags: tuple[str, ...] = ()) -> re.Pattern[str]:
    names = (action_tag, think_tag, *command_tags)
    for name in names:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            raise ValueError(f"a tag name is a letter followed by letters, digits, '-' or '_'; got {name!r}")
    if len({name.lower() for name in names}) < len(names):
        raise ValueError(f"action_tag, think_tag and command_tags must differ, got {names}")
    flags = re.ASCII | (re.IGNORECASE if ignore_case else re.NOFLAG)
    commands = "".join(f"|({name})" for name in command_tags)
    return re.compile(f"<(/?)(?:({action_tag})|{think_tag}{commands})>", flags)


def _scan(text: str, tags: re.Pattern[str], first_only: bool) -> _Scan:
    actions: list[str] = []
    thoughts: list[str] = []
    error = ReplyError.OK
    thought_first = outside = False
    block = ""  # "", "action", "think" or the name of a command tag
    begin = 0  # end of the last tag that opened or closed a block
    for match in tags.finditer(text):
        # Group 2 is the action tag, the groups after it are the command tags.
        kind = "think" if match.lastindex == 1 else "action" if match[2] else match[match.lastindex or 0].lower()
        closing = bool(match[1])
        if block == "think":
            if not (closing and kind == "think"):
                continue
            thoughts.append(text[begin : match.start()].strip())
            thought_first = thought_first or not actions
            block = ""
        elif block:
            if not (closing and kind == block):
                if block == "action" and kind in ("action", "think"):
                    error = error or ReplyError.NESTED_TAG
                continue
            written = text[begin : match.start()]
            actions.append(written.strip() if block == "action" else f"<{block}>{written}</{block}>")
            block = ""
            if first_only:
                begin = len(text)
                break
        else:
            outside = outside or bool(text[begin : match.start()].strip())
            if closing:
                error = error or ReplyError.STRAY_TAG
            else:
                block = kind
        begin = match.end()
    if block:
        error = ReplyError.UNCLOSED_THINK if block == "think" else ReplyError.UNCLOSED_ACTION
    else:
        outside = outside or bool(text[begin:].strip())
    return _Scan(error, actions, thoughts, thought_first, outside)


def read_labels(text: str) -> tuple[str, str | None]:
    r"""Return thought and command of a reply with labels (Yao et al. 2023); without `Action:` the command is None.

        Thought: The mug is dirty, so the sink comes first.
        Action: clean mug 1 with sinkbasin 1

    * The first `Action:` counts: the rest of its line, or the next non-empty line. A command that opens a brace
      ends at the last closing one before the next label. Later text is ignored, since models invent
      observations.
    * Labels start a line, in any case; they may be numbered (`Action 2:`) or in asterisks, closed after the command or
      before. A command may be in backticks. Text before a thinking model's `</think>` is ignored.

    >>> read_labels("Thought: a wall.\nAction: up\nObservation: you won")
    ('a wall.', 'up')
    >>> read_labels("I go up.")
    ('', None)
    """
    text = text.rpartition("</think>")[2]
    labels = list(_LABEL.finditer(text))
    if not labels:
        return "", None
    ends = [label.start() for label in labels[1:]] + [len(text)]
    thoughts: list[str] = []
    for label, end in zip(labels, ends, strict=True):
        written = text[label.end() : end].strip()
        kind = label[1].lower()
        if kind == "action":
            return "\n".join(thoughts), _command(written, emphasis="*" in label[0])
        if kind == "thought":
            thoughts.append(written)
    return "\n".join(thoughts), None


def _command(written: str, emphasis: bool) -> str:
    if written.startswith("{") and "}" in written:
        return written[: written.rindex("}") + 1]
    command = written.partition("\n")[0].strip()
    if emphasis:
        command = command.rstrip("* \t")
    bare = command.strip("`")
    quoted = command.startswith("`") and command.endswith("`") and "`" not in bare
    return bare.strip() if quoted else command


def _labelled(text: str) -> _Scan:
    thought, command = read_labels(text)
    actions, thoughts = ([] if command is None else [command]), ([thought] if thought else [])
    return _Scan(ReplyError.OK, actions, thoughts, thought_first=bool(thought), outside=False)


def check_reply(text: Any) -> None:
    """Raise a TypeError unless a reply is a string."""
    if not isinstance(text, str):
        raise TypeError(f"parse_reply: expected a str reply, got {type(text).__name__} ({text!r:.200})")


def parse_reply(
    text: str, *, require_think: bool = False, several: Literal["error", "first", "last", "all"] = "error",
    outside: Literal["ignore", "error"] = "ignore", max_length: int = 1000, action_tag: str = "action",
    think_tag: str = "think", command_tags: Sequence[str] = (), ignore_case: bool = True, form: Form = "tags",
    tools: Tools | None = None,
) -> ParsedReply:  # fmt: skip
    """Parse a reply.

    Args:
        text: the reply, cleaned and cut as by `agentgym.outside.text.clean`.
        require_think: a think block must precede the action.
        several: several action blocks are an error, or the first or last counts; "all" (tool calls): all, in lines.
        outside: text outside the blocks is ignored or an error.
        max_length: longest accepted command, in characters.
        command_tags: lower-case names of tags whose whole block is a command; the wrappers take the environment's.
        ignore_case: also accept `<Action>` and the like (the command's case is unchanged).
        form: blocks in "tags"; "labels" `Thought:` and `Action:` (`several`, `outside` and tag names have no effect);
            or "tool_calls" (`outside` and tag names have no effect).
        tools: JSON schemas that a tool call must fit; the wrappers take the environment's.

    Raises:
        TypeError: when `text` is not a string.
        ValueError: on an unknown option value or an invalid tag name.

    >>> parse_reply("<think>a wall</think> <action> up </action>")
    ParsedReply(command='up', error=<ReplyError.OK: ''>, thought='a wall')
    >>> parse_reply("<think>Who?</think><search>Ada</search>", command_tags=["search"]).command
    '<search>Ada</search>'
    >>> parse_reply("I go <action>up").error, parse_reply("up").error
    (<ReplyError.UNCLOSED_ACTION: 'unclosed_action'>, <ReplyError.NO_ACTION: 'no_action'>)
    """
    check_reply(text)
    if several not in ("error", "first", "last") and not (several == "all" and form == "tool_calls"):
        raise ValueError(
            f"parse_reply: several must be 'error', 'first' or 'last' ('all' with form='tool_calls'), got {several!r}"
        )
    if outside not in ("ignore", "error"):
        raise ValueError(f"parse_reply: outside must be 'ignore' or 'error', got {outside!r}")
    if max_length < 1:
        raise ValueError(f"parse_reply: max_length must be at least 1, got {max_length!r}")
    if form not in get_args(Form):
        raise ValueError(f"parse_reply: form must be one of {', '.join(map(repr, get_args(Form)))}, got {form!r}")
    if form == "tool_calls":
        called = read_tool_reply(
            text, several=several, max_length=max_length, require_think=require_think, tools=tools
        )  # fmt: skip
        return ParsedReply(called.command, ReplyError(called.error), called.thought)
    tags = _tags(action_tag, think_tag, ignore_case, tuple(command_tags))
    scan = _labelled(clean(text)) if form == "labels" else _scan(clean(text), tags, several == "first")
    thought = "\n".join(scan.thoughts)
    command = scan.actions[-1] if scan.actions else ""
    error = scan.error
    if error is ReplyError.OK:
        if not scan.actions:
            error = ReplyError.NO_ACTION
        elif len(scan.actions) > 1 and several == "error":
            error = ReplyError.SEVERAL_ACTIONS
        elif not command:
            error = ReplyError.EMPTY_ACTION
        elif len(command) > max_length:
            error = ReplyError.TOO_LONG
        elif require_think and not scan.thought_first:
            error = ReplyError.NO_THINK
        elif outside == "error" and scan.outside:
            error = ReplyError.TEXT_OUTSIDE
    return ParsedReply(command if error is ReplyError.OK else "", error, thought)


def _with_command_tags(env: Any, options: dict[str, Any]) -> dict[str, Any]:
    tags = getattr(env.unwrapped, "command_tags", None)
    if tags is None:  # a vector environment
        tags = getattr(getattr(env.unwrapped, "env_class", None), "command_tags", ())
    return {"command_tags": tuple(tags), **options} if tags else options


def reads_tool_calls(env: Any) -> bool:
    """Say whether a reply parser with `form="tool_calls"` is among the wrappers of an environment, single or vector."""
    while isinstance(env, (gym.Wrapper, gym.vector.VectorWrapper, Alone)):
        if isinstance(env, (ReplyParser, VectorReplyParser)):
            parser = env.vector if isinstance(env, ReplyParser) else env
            return bool(parser.options.get("form") == "tool_calls")
        env = env.env
    return False


def parses_replies(env: Any) -> bool:
    """Return whether a reply parser is among the wrappers of an environment or of its sub-environments.

    >>> import agentgym
    >>> env = gym.make("AgentRL/Sokoban-v0")
    >>> parses_replies(env), parses_replies(gym.wrappers.TimeLimit(ReplyParser(env), 5))
    (False, True)
    """
    while isinstance(env, (gym.Wrapper, gym.vector.VectorWrapper, Alone)):
        if isinstance(env, (ReplyParser, VectorReplyParser)):
            return True
        env = env.env
    stock = isinstance(env, (AdaptedVectorEnv, gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv))
    return stock and all(env.call("has_wrapper_attr", "parses_replies"))


def _reply_space(commands: gym.Space[Any], action_tag: str = "action", form: str = "tags", **_: Any) -> TextSpace:
    samples = commands.samples if isinstance(commands, TextSpace) else ()
    frames = {"labels": ("Action: ", ""), "tool_calls": ("", "")}
    before, after = frames.get(form, (f"<{action_tag}>", f"</{action_tag}>"))
    return TextSpace(samples=[f"{before}{command}{after}" for command in samples])


class _Parsed(NamedTuple):
    command: str = ""
    error: str = ""
    shown: Any = None
    tools: Tools | None = None


class VectorReplyParser(SubEnvWrapper[_Parsed]):
    """Vector form of `ReplyParser`: `infos["command"]` and `infos["reply_error"]` are object arrays of strings.

    Under `SAME_STEP` the command that ended an episode is in `final_info`, and the sub-environment's own entry is `""`,
    as after every reset. Replies of sub-environments that ignore their action are not parsed: finished ones under
    `DISABLED` keep their entries, resetting ones under `NEXT_STEP` have `""`.

    Args:
        env: a vector environment whose actions are commands.
        **options: as `parse_reply`. With `form="tool_calls"`, `tools` are listed by the environment in `info["tools"]`
            or its attribute `tools`. Errors of a reply are shown in place of the observation, `Error: ...`; calls that
            do not fit the tools are checked here unless the environment `checks_calls`.
    """

    frozen = True

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], **options: Any) -> None:
        super().__init__(env)
        env = self.env
        if parses_replies(env):
            warnings.warn(
                f"{env} reads replies already: the parser inside finds no tags in the commands of the one outside, and "
                "every action is invalid; leave one out",
                stacklevel=2 + isinstance(env, Alone),
            )
        options = _with_command_tags(env, options)
        self._calls = options.get("form") == "tool_calls"
        self._fixed = frozenset(options)  # tools that were given are not asked for
        if self._calls and "tools" not in options and not checks_calls(env):
            options["tools"] = listed_tools(env) or None
        parse_reply("", **options)  # a wrong option fails here, not in the first step
        self.options = options
        # What is wrong with a call takes the observation's place.
        self._says = self._calls and not isinstance(env.single_observation_space, gym.spaces.Dict)
        self.single_action_space = _reply_space(env.single_action_space, **options)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, env.num_envs)

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        for i in indices:
            self.states[i] = _Parsed(shown=shown.observation(i) if self._says else None, tools=self._tools(shown, i))

    def _tools(self, shown: Shown, i: int) -> Tools | None:
        return shown.entry("tools", i) if self._calls and "tools" not in self._fixed else None

    def sent(self, actions: Sequence[str]) -> tuple[str, ...]:
        if not isinstance(actions, (list, tuple, np.ndarray)):
            raise TypeError(
                f"step expects a list, tuple or array with one reply per sub-environment ({self.num_envs}), got "
                f"{type(actions).__name__} ({actions!r:.200})"
            )
        if len(actions) != self.num_envs:
            raise ValueError(
                f"step expects one reply per sub-environment ({self.num_envs}), got {len(actions)}: {actions!r:.200}"
            )
        playing = np.flatnonzero(~self.idle).tolist()
        commands = [""] * self.num_envs
        for i in playing:
            before = self.states[i]
            if self._calls:
                commands[i], error, wrong = self._called(actions[i], before.tools)
                self.states[i] = before._replace(command=commands[i], error=error, shown=wrong and f"Error: {wrong}")
            else:
                commands[i], found, _ = parse_reply(actions[i], **self.options)
                self.states[i] = _Parsed(commands[i], found.value)
        return tuple(commands)

    def _called(self, reply: str, tools: Tools | None) -> tuple[str, str, str]:
        check_reply(reply)
        names = ("several", "max_length", "require_think", "tools")
        known = {name: self.options[name] for name in names if name in self.options}
        return read_tool_reply(reply, **(known if tools is None else known | {"tools": tools}))[:3]

    def advance(self, step: Step) -> None:
        for i in step.played if self._calls else ():
            found = self.states[i]
            shown = (found.shown or step.after.observation(i)) if self._says else None
            self.states[i] = found._replace(shown=shown, tools=self._tools(step.after, i))

    def observed(self) -> tuple[Any, ...] | None:
        """Return the errors of calls, which replace observations; None without errors."""
        return tuple(found.shown for found in self.states) if self._says else None

    def columns(self) -> dict[str, Array]:
        return {
            "command": objects([found.command for found in self.states]),
            "reply_error": objects([found.error for found in self.states]),
        }


class ReplyParser(SingleForm):
    """Accept raw replies in an environment of commands; options as `parse_reply`.

    Every string is an action; all malformed ones are the same invalid command `""`. Info gains `command` (as played)
    and `reply_error` (a `ReplyError` value, `""` for a well-formed reply); both are `""` after a reset.

    >>> import agentgym
    >>> env = ReplyParser(gym.make("AgentRL/Sokoban-v0"))
    >>> _ = env.reset(seed=0)
    >>> info = env.step("Let me think about it")[-1]
    >>> info["command"], info["reply_error"], info["is_action_valid"]
    ('', 'no_action', False)
    """

    form = VectorReplyParser
    parses_replies = True
