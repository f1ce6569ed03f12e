"""An informed teacher: the log-probabilities of a policy's own replies, with a context in front of their prompts.

    gap       log p(token | block, prompt) - log p(token | prompt)
    contrast  log p(token | right) - log mean_k p(token | wrong_k)
    gates     1 if a step has a context; the loss uses its informed prompt

Of a turn: the mean of its gaps, and AgentOPSD's belief in success, which adds them up.

The block is a leading system message in the tokens of the policy's chat template. The recorded prompt and reply follow
it token by token: nothing is decoded and encoded again. A prompt that would not fit is dropped, not cut, and counted.
Contexts, wrong twins and controls are in `wrappers.privileged`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from agentgym.checks import Share, Size, fields_checked
from agentgym.outside.text import clean
from agentgym.rollout.groups import unnumbered
from agentgym.trajectory import Floats, Reply, StepTable
from baselines.off_policy import rescored
from baselines.play.dynamic_sampling import task_of
from baselines.scorers.replies import OwnLikelihood, OwnLikelihoodConfig, sampled_logprobs
from baselines.scorers.scorer import ScoreLevel
from policies.training import frozen, trained_beside
from wrappers.credit.rlcsd import contrasts_of
from wrappers.credit.scores import reply_lengths, written_tokens
from wrappers.privileged import FRAME, NOTED, Context, Contexts, Control, Privileged, contexts

_ACTION = re.compile(r"<action>(.*?)(?:</action>|\Z)", re.DOTALL)


@fields_checked
@dataclass(frozen=True)
class PrivilegedConfig(OwnLikelihoodConfig):
    """Settings of the scorer, in addition to those of `baselines.scorers.replies.OwnLikelihoodConfig`.

    Attributes:
        level: "token" for gaps and contrasts, "turn" for gates.
        control: replacement of the context.
        contrast: whether scores are contrasts; they need a right context and a wrong one.
        wrongs: most wrong contexts of a contrast.
        tokens: "all" tokens of a reply, or only those of the "action"; a reply without an action has no score.
        teacher: weights of the teacher: those of the "rollout" (at level "turn" in a copy, because the policy changes
            while the teacher is used), of the "start", an "averaged" copy, or a "snapshot".
        average: weight of the policy in an averaged teacher's update after each iteration.
        frame: text around every context, with {} in place of the context.
    """

    level: ScoreLevel = "token"  # type: ignore[assignment]
    context: Context = "expert"
    control: Control = "right"
    contrast: bool = False
    wrongs: Size = 4
    tokens: Literal["all", "action"] = "all"
    teacher: Literal["rollout", "start", "averaged", "snapshot"] = "rollout"
    average: Share = 0.05
    every: Size = 10
    frame: str = FRAME

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame.count("{}") != 1:
            raise ValueError(f"PrivilegedConfig.frame must be a text with one {{}}, got {self.frame!r}")

    def check_envs(self, make: Callable[[], Any]) -> None:
        """Raise ValueError if contexts cannot be recorded in the environments that `make` returns."""
        envs = make()
        if self.context in NOTED and not hasattr(getattr(envs, "unwrapped", None), "envs"):
            raise ValueError(
                f"the context {self.context!r} is noted in the environments, and {envs!r} does not hold them in this "
                "process: make them with gymnasium.make_vec of this library, or take context='sibling' or 'outcome'"
            )

    def around(self, envs: Any) -> Any:
        if self.context not in NOTED:
            return envs
        return Privileged(envs, demonstrations=self.context == "demonstration")

    def make_in(self, policy: Any, envs: Any) -> PrivilegedScorer:
        return PrivilegedScorer(policy, self, envs if isinstance(envs, Privileged) else None)

    def make(self, policy: Any) -> PrivilegedScorer:
        return PrivilegedScorer(policy, self)


class PrivilegedScorer(OwnLikelihood):
    """Scores of an informed teacher, see the module.

    Args:
        policy: see `baselines.scorers.replies.OwnLikelihood`.
        notes: recorder around the environments that the policy plays in; None: the context needs none.

    Attributes:
        dropped: rows of the last table whose informed prompt did not fit.
    """

    config: PrivilegedConfig

    def __init__(self, policy: Any, config: PrivilegedConfig | None = None, notes: Privileged | None = None) -> None:
        super().__init__(policy, config or PrivilegedConfig())
        if self.config.context in NOTED and notes is None:
            contexts(self.config.context, StepTable.from_trajectories(()), None)
        self.level = self.config.level
        self.dropped, self._share, self._updates, self._read, self._notes = 0, 0.0, 0, 0, notes
        kind = self.config.teacher
        self._follows = kind == "rollout" and self.level == "turn"
        own = self._follows or kind in ("averaged", "snapshot")
        self.teacher = trained_beside(policy) if own else frozen(policy) if kind == "start" else policy
        self._blocks: dict[str, tuple[int, ...]] = {}
        self._texts: dict[int, str] = {}
        # Contexts of the previous table, which belong to another task if the table has only one group.
        self._elsewhere: list[str] = []
        self._last: list[str] = []

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N, K), or (N,) at level "turn"; nan: no context, or no token of the action.

        Raises:
            ValueError: the table has no replies, a reply no tokens, or no log-probabilities.
        """
        found = self.contexts(table)
        if self.level == "turn":
            return np.where([bool(prompt) for prompt in self.informed(table, found)], 1.0, np.nan)
        right = self.informed_likelihoods(table, self.prompts(table, self._under(found, table)))
        if self.config.contrast:
            wrong = self.wrong(table, found)
            scores = contrasts_of(right, wrong) if len(wrong) else np.full(right.shape, np.nan)
        else:
            scores = right - sampled_logprobs(table, written_tokens(table))
        scored = ~np.isnan(scores)
        self._share = float(scored.any(axis=1).mean()) if len(scores) else 0.0
        if self.config.tokens == "action":
            scored &= self.action_tokens(table)
        return np.where(written_tokens(table), np.where(scored, scores, np.nan), 0.0)

    def informed(self, table: StepTable, found: Contexts | None = None) -> list[tuple[int, ...]]:
        """Return every row's prompt with its block in front; () for a row without a block."""
        found = found or self.contexts(table)
        prompts = self.prompts(table, self._under(found, table))
        self._share = sum(map(bool, prompts)) / max(len(prompts), 1)
        self._read += sum(map(bool, prompts))
        return prompts

    def prompts(
        self, table: StepTable, texts: Sequence[str | None], rows: Sequence[int] | None = None
    ) -> list[tuple[int, ...]]:
        """Return prompts of rows, None: all, with a text's block in front; () without one, or if it is too long."""
        first = getattr(self._tokenizer, "bos_token_id", None)
        found, self.dropped = list[tuple[int, ...]](), 0
        replies: Any = table.replies if rows is None else table.replies[list(rows)]  # type: ignore[index]
        for reply, text in zip(replies, texts, strict=True):
            special = int(first is not None and reply.prompt_ids[:1] == (first,))
            prompt = () if text is None else (
                reply.prompt_ids[:special] + self.block(text) + reply.prompt_ids[special:]
            )  # fmt: skip
            if self.positions is not None and len(prompt) + len(reply.token_ids) > self.positions:
                prompt, self.dropped = (), self.dropped + 1
            found.append(prompt)
        return found

    def block(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a leading system message that holds a context in the frame."""
        if text not in self._blocks:
            words, template = clean(self.config.frame.format(text)), dict(self._policy.settings.template)
            if template.get("chat_template", self._tokenizer.chat_template):
                message = [{"role": "system", "content": words}]
                words = self._tokenizer.apply_chat_template(message, tokenize=False, **template)
            ids, first = self.encode(words), getattr(self._tokenizer, "bos_token_id", None)
            self._blocks[text] = ids[int(first is not None and ids[:1] == (first,)) :]
        return self._blocks[text]

    def action_tokens(self, table: StepTable) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return bool (N, K), True = the token has text of the command, between <action> and </action>."""
        kept, settings = np.zeros(written_tokens(table).shape, np.bool_), self._policy.settings
        for row, reply in enumerate(table.replies):  # type: ignore[arg-type]
            texts = [self._text(token) for token in reply.token_ids]
            ends = np.cumsum([len(settings.prefix), *map(len, texts)])
            spans = [match.span(1) for match in _ACTION.finditer(settings.prefix + "".join(texts))]
            for low, high in spans[-1:]:
                kept[row, : len(texts)] = (ends[:-1] < high) & (ends[1:] > low)
        return kept

    def update(
        self, table: StepTable, scores: Floats, targets: Floats | None, rng: np.random.Generator, learning_rate: float
    ) -> dict[str, float]:
        """Move a separate teacher towards the policy; return shares of rows with a context, and of dropped ones."""
        self._updates, self._elsewhere = self._updates + 1, self._last
        share = {"averaged": self.config.average, "snapshot": float(self._updates % self.config.every == 0)}
        self._move(1.0 if self._follows else share.get(self.config.teacher, 0.0))
        read, self._read = self._read, 0
        return {
            "context_share": self._share, "context_dropped": self.dropped / max(len(table), 1),
            "teacher_replies": float(read),
        }  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        own = self.config.teacher in ("averaged", "snapshot")
        teacher = self.teacher.model.state_dict() if own else {}
        return {"updates": self._updates, "elsewhere": self._elsewhere, "teacher": teacher}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._updates, self._elsewhere = state["updates"], state.get("elsewhere", [])
        if state["teacher"]:
            self.teacher.model.load_state_dict(state["teacher"])
        elif self._follows:
            self._move(1.0)

    @torch.no_grad()
    def _move(self, share: float) -> None:
        if share:
            for own, new in zip(self.teacher.model.parameters(), self._policy.model.parameters(), strict=True):
                if own is not new:
                    own.copy_(new if share == 1 else torch.lerp(own, new, share))

    def contexts(self, table: StepTable) -> Contexts:
        """Return the contexts of a table's rows, see `wrappers.privileged.contexts`."""
        reply_lengths(table)
        # The label of a group is its task id, plus a suffix that distinguishes groups of one task.
        named = tuple(str(unnumbered(str(task_of(label)))) for label in table.groups)
        return contexts(self.config.context, replace(table, groups=named), self._notes, self.config.wrongs)

    def _under(self, found: Contexts, table: StepTable) -> list[str | None]:
        self._last = [text for text in found.right if text is not None] or self._last
        return found.under(self.config.control, table, elsewhere=self._elsewhere)

    def wrong(self, table: StepTable, found: Contexts) -> Floats:
        """Return log-probabilities with every wrong twin, float64 (W, N, K)."""
        deepest = max(map(len, found.wrong), default=0)
        layers = [[texts[k] if k < len(texts) else None for texts in found.wrong] for k in range(deepest)]
        return np.array([self.informed_likelihoods(table, self.prompts(table, layer)) for layer in layers])

    def informed_likelihoods(self, table: StepTable, prompts: Sequence[tuple[int, ...]]) -> Floats:
        """Return log-probabilities of the reply tokens behind prompts, float64 (N, K); nan without a prompt."""
        replies: Any = table.replies
        moved = [replace(one, prompt_ids=new or one.prompt_ids) for one, new in zip(replies, prompts, strict=True)]
        known = np.array([bool(prompt) for prompt in prompts], np.bool_)
        self._read += int(known.sum())
        found = rescored(
            self.teacher, replace(table, replies=np.fromiter(moved, np.object_, len(table))), rows=known,
            temperature=self.temperature, tokens_per_pass=self.config.microbatch_tokens or "auto",
        )  # fmt: skip
        return np.where(known[:, None], sampled_logprobs(found, written_tokens(table)), np.nan)

    def _text(self, token: int) -> str:
        if token not in self._texts:
            self._texts[token] = self._tokenizer.decode([token])
        return self._texts[token]


class InformedPolicy:
    """A policy with a context in front of every prompt of messages.

    Args:
        context_of: returns the context of a task and a state key; None: without.
    """

    def __init__(self, policy: Any, context_of: Callable[[str, str], str | None]) -> None:
        self._policy, self._context_of = policy, context_of

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        given, keys = [], infos["canonical_key"] if "canonical_key" in infos else infos["state_key"]
        for messages, task, key in zip(observations, infos["task_id"], keys, strict=True):
            text = self._context_of(str(task), str(key))
            block = () if text is None else ({"role": "system", "content": FRAME.format(text)},)
            given.append((*block, *messages))
        return self._policy.act(given, infos, rng)


def beliefs(gaps: Floats, start: float = 0.5) -> Floats:
    """Return AgentOPSD's belief in success before the first turn and after each, float64 (turns + 1,).

    V_k = sigmoid(logit(V_0) + sum of the gaps of turns 1 to k), cut at 1e-6. The mean of its gaps is -KL per token, so
    V falls to 0 after any actions: centre the gaps over the episode first.
    """
    logits = np.log(start / (1 - start)) + np.concatenate(([0.0], np.cumsum(gaps)))
    return np.clip(1 / (1 + np.exp(-np.clip(logits, -700, 700))), 1e-6, 1 - 1e-6)


def turn_gaps(table: StepTable, scores: Floats) -> Floats:
    """Return the mean over the tokens of each reply, float64 (N,); nan: not scored."""
    kept = written_tokens(table) & ~np.isnan(scores)
    count = kept.sum(axis=1)
    return np.where(count > 0, np.where(kept, scores, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)


def belief_gains(table: StepTable, gaps: Floats) -> Floats:
    """Return by how much each turn raised the belief, gaps centred over the episode, float64 (N,)."""
    found = np.full(len(table), np.nan)
    for i in range(table.n_trajectories):
        rows = table.order[table.offsets[i] : table.offsets[i + 1]]
        known = rows[~np.isnan(gaps[rows])]
        if len(known):
            found[known] = np.diff(beliefs(gaps[known] - gaps[known].mean()))
    return found
