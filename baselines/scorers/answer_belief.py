"""The policy's probability of the right answer before each step (IGPO's information).

    belief = exp(mean log p(token | prompt, "<answer>", tokens before))      over the tokens of the golden answer

The policy reads the prompt of the step and then, in place of its reply, the beginning of a command that answers. The
answers come from the environment to the trainer's scorer: no observation, info or prompt holds them.

Source: IGPO's release, see docs/credit/igpo.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from agentgym.checks import fields_checked
from agentgym.rollout.groups import unnumbered
from agentgym.trajectory import Floats, Reply, StepTable
from baselines.config import refuse
from baselines.play.dynamic_sampling import task_of
from baselines.scorers.replies import OwnLikelihood, OwnLikelihoodConfig
from policies.prompts import last_tokens
from wrappers.credit.scores import reply_lengths

#: Golden answers of a task, by its id.
Golds = Callable[[str], Sequence[str]]


@fields_checked
@dataclass(frozen=True)
class AnswerBeliefConfig(OwnLikelihoodConfig):
    """Settings of the scorer, in addition to those of `baselines.scorers.replies.OwnLikelihoodConfig`.

    Attributes:
        form: the reply that gives an answer, with {} in place of the answer; "": the environment's `answer_form`. For a
            policy that thinks first it must contain the end of the thoughts, such as
            "I know it now.</think><answer>{}</answer>".
        golds: which golden answer counts, the "first" (the release), or the "best": the most probable one.
        measure: the "probability", a geometric mean over tokens, or its "log".
    """

    form: str = ""
    golds: Literal["first", "best"] = "first"
    measure: Literal["probability", "log"] = "probability"

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = "'' or a text with one {}, the answer's place"
        refuse(self, "form", not self.form or self.form.count("{}") == 1, expected)

    def check_envs(self, make: Callable[[], Any]) -> None:
        """Raise ValueError if the environments know no answers."""
        envs = make()
        if None in (_attribute(envs, "gold_answers"), _attribute(envs, "answer_form")):
            given = "none was given" if envs is None else f"{envs} has no `gold_answers(task_id)` and `answer_form`"
            raise ValueError(
                f"beliefs in the right answer need an environment that knows it, and {given}: give "
                "yours both, or pass scorer=baselines.scorers.answer_belief.AnswerBelief(policy, golds, config)"
            )

    def make_in(self, policy: Any, envs: Any) -> AnswerBelief:
        """Make the scorer of a policy, with the answers of the environments that it plays in.

        Raises:
            ValueError: there are none.
        """
        self.check_envs(lambda: envs)
        config = self if self.form else replace(self, form=_attribute(envs, "answer_form"))
        return AnswerBelief(policy, lambda task: envs.unwrapped.call("gold_answers", task)[0], config)

    def make(self, policy: Any) -> AnswerBelief:
        return self.make_in(policy, None)


class AnswerBelief(OwnLikelihood):
    """The policy's likelihood of the golden answer before each step.

    Args:
        policy: see `baselines.scorers.replies.OwnLikelihood`; its tokenizer must be a fast one, which returns the
            positions of its tokens.
        golds: golden answers of a task by its id, the label of its group; empty: there are none.
        config: see `AnswerBeliefConfig`, with a `form`.

    Raises:
        ValueError: the settings have no form.
    """

    takes_forks = True
    config: AnswerBeliefConfig

    def __init__(self, policy: Any, golds: Golds, config: AnswerBeliefConfig) -> None:
        if not config.form:
            raise ValueError("AnswerBelief needs the form of an answer: AnswerBeliefConfig(form='<answer>{}</answer>')")
        super().__init__(policy, config)
        self._golds = golds

    def scores(self, table: StepTable) -> Floats:
        """Return the beliefs, float64 (N,).

        Raises:
            ValueError: a task has no golden answer, the table no replies, or a reply no tokens.
        """
        reply_lengths(table)
        answers = [[self._answer(gold) for gold in self.golds_of(label)] for label in table.groups]
        found = np.full(len(table), -np.inf)
        for k in range(max(map(len, answers), default=0)):
            replies = [
                self._asked(reply, *answers[group][min(k, len(answers[group]) - 1)])
                for reply, group in zip(table.replies, table.group.tolist(), strict=True)  # type: ignore[arg-type]
            ]
            found = np.maximum(found, self.likelihoods(table, replies))
        return found if self.config.measure == "log" else np.exp(found)

    def golds_of(self, label: Any) -> Sequence[str]:
        """Return the golden answers of a group that are used.

        Raises:
            ValueError: there is none.
        """
        task = str(task_of(label))
        found = self._golds(task) or self._golds(unnumbered(task))
        if not found:
            raise ValueError(
                f"the task {task!r:.200} has no golden answer: beliefs need one for every task, and groups whose "
                "labels are task ids, as agentgym.rollout.collect makes them"
            )
        return found[:1] if self.config.golds == "first" else found

    def _answer(self, gold: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        before, _, after = self.config.form.partition("{}")
        made = self._tokenizer(before + gold + after, add_special_tokens=False, return_offsets_mapping=True)
        spans, end = made["offset_mapping"], len(before) + len(gold)
        inside = [i for i, (low, high) in enumerate(spans) if high > len(before) and low < end]
        if not inside:
            raise ValueError(f"a golden answer without tokens has no likelihood, got {gold!r:.200}: leave it out")
        first, last = inside[0], inside[-1] + 1
        return tuple(made["input_ids"][:first]), tuple(made["input_ids"][first:last])

    def _asked(self, reply: Reply, before: tuple[int, ...], answer: tuple[int, ...]) -> Reply:
        prompt = reply.prompt_ids + before
        if self.positions is not None:  # if it does not fit, the beginning of the prompt is cut off
            prompt = last_tokens(prompt, max(self.positions - len(answer), 1))
        return Reply("", prompt, answer, (0.0,) * len(answer))


def _attribute(envs: Any, name: str) -> Any:
    """An attribute of the first sub-environment, wrappers included; None if either is missing."""
    if envs is None or not all(envs.unwrapped.call("has_wrapper_attr", name)):
        return None
    return envs.unwrapped.get_attr(name)[0]
