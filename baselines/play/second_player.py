"""A policy as the partner in SOTOPIA, for self-play with one or two models."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from agentgym.checks import check_name
from agentgym.outside.dialogue import Act, Failure, View, parse, turn_line, write
from agentgym.rollout import Policy
from agentgym.sotopia.dialogue import COMMANDS, INSTRUCTIONS
from agentgym.sotopia.rules import ORDERS
from wrappers.prompt import Episode, Messages, PromptStyle
from wrappers.reply import parse_reply
from wrappers.vector_wrapper import ShownAlone


class PolicyPartner:
    """Plays the other side with a policy, which sees what it would see as the agent.

    Prompts and replies are those of `wrappers.VectorPromptWindow` and `wrappers.VectorReplyParser`; give the agent's
    wrappers the same options. A policy in training plays with its current weights. An unreadable reply is a turn
    without an act.

    There is no state between calls. The random generator is made from `seed` and the dialogues of the call (task, role,
    turn, draw).

    Args:
        order: order of turns in the environment; it determines which turns were the partner's own.
        **style: options of `wrappers.PromptStyle`.
    """

    def __init__(
        self, policy: Policy, *, order: str = "round-robin", reply: dict[str, Any] | None = None, seed: int = 0,
        **style: Any,
    ) -> None:  # fmt: skip
        self.policy, self.order, self.seed = policy, check_name(order, ORDERS, "order"), int(seed)
        self.style = PromptStyle(**style)
        self.reply = dict(reply or {})
        parse_reply("", **self.reply)  # raises for wrong options

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        if not views:
            return []
        admissible = np.empty(len(views), np.object_)
        admissible[:] = [COMMANDS] * len(views)
        infos = {
            "admissible_actions": admissible,
            "task_id": np.array([view.task_id for view in views], np.object_),
            "role": np.array([view.role for view in views]),
        }
        words = [number for view in views for number in (view.seed % 2**32, view.role, view.turn)]
        words += [view.draw for view in views if view.draw is not None]
        rng = np.random.default_rng([self.seed, *words])
        replies = self.policy.act([self.messages(view) for view in views], infos, rng)
        if len(replies) != len(views):
            raise ValueError(
                f"{type(self.policy).__name__}.act answered {len(replies)} replies to {len(views)} dialogues"
            )
        return [parse(parse_reply(reply.text, **self.reply).command)[0] for reply in replies]

    def messages(self, view: View) -> Messages:
        own = [turn.number for turn in view.turns if self._was_in_turn(view, turn.number)]
        # An observation ends before each own turn and before the current turn.
        ends = [*own, view.turn]
        lines = [turn_line(view.names, turn) for turn in view.turns]
        first = view.opening + "".join(lines[: ends[0]])
        episode = Episode(first, first)
        for start, end in pairwise(ends):
            self.style.remember(episode, "".join(lines[start:end]), write(view.turns[start].acts[view.role]))
        shown = ShownAlone(episode.now, {"admissible_actions": COMMANDS})
        style = self.style
        if style.instructions is True:
            rules = INSTRUCTIONS.format(turns=view.max_turns)
            style = replace(style, instructions=f"{rules}\n\n{style.reply_format}".strip())
        return style.messages_of(0, episode, shown)

    def _was_in_turn(self, view: View, number: int) -> bool:
        if self.order == "random":  # only an act shows whose turn it was
            return view.turns[number].acts[view.role].kind != "none"
        return self.order == "simultaneous" or number % 2 == view.role
