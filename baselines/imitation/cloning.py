"""Behaviour cloning: the warm start, supervised learning of an expert's actions in the policy's own tokens.

`clone` plays the expert and learns what it does. `imitate` learns any replies.
"""

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch

from agentgym.rollout import Policy, collect
from agentgym.rollout.groups import Infos
from agentgym.trajectory import Reply, StepTable
from baselines.config import Memory
from baselines.imitation.updates import Updates
from baselines.scorers.privileged import PrivilegedConfig
from baselines.update import Limits
from policies.huggingface import HuggingFacePolicy
from policies.scripted import SILENT, ExpertPolicy
from policies.training import check_trainable, memory_explained, recomputed_activations


@dataclass
class CloneResult:
    """What happened while cloning.

    Attributes:
        history: one dict per epoch: `epoch` (from 1), `loss` (mean cross-entropy of the tokens in nats, while
            learning), `accuracy` (share of tokens that were the most probable one) and `seconds` since the first
            update.
    """

    history: list[dict[str, float]] = field(default_factory=list)
    rows: int = 0
    collect_seconds: float = 0.0


class Demonstrator:
    """A player that answers in the student's tokens: plugged into `collect`, it records rows to learn.

    Args:
        student: whose chat template, prefix, suffix and tokenizer are used; its weights are not.
        player: chooses the actions that are played; default: the expert.
    """

    def __init__(self, student: HuggingFacePolicy, player: Policy | None = None) -> None:
        self._student = student
        self._player = ExpertPolicy() if player is None else player

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        replies = self._player.act(observations, infos, rng)
        return [
            reply if reply.text == SILENT else self._student.demonstrate(observation, reply.text)
            for observation, reply in zip(observations, replies, strict=True)
        ]


def demonstrations(
    policy: HuggingFacePolicy,
    envs: gym.vector.VectorEnv[Any, Any, Any],
    tasks: Sequence[Mapping[str, Any]],
    *,
    seed: int,
) -> list[Reply]:
    """Return expert steps as (prompt ids, token ids) of the policy, episode by episode.

    Raises:
        KeyError: the environments were not made with `expert=True`.
        ValueError: the expert had no answer anywhere, or an answer the policy cannot write.
    """
    table = collect(envs, Demonstrator(policy), tasks=tasks, seed=seed)
    # At a dead end the expert has no answer, and there is nothing to learn.
    replies = () if table.replies is None else table.replies
    found = [reply for reply in replies if reply is not None and reply.token_ids]
    if not found:
        raise ValueError(f"the expert had no answer in any of the {len(tasks)} tasks: are they solvable?")
    return found


def informed_demonstrations(
    policy: HuggingFacePolicy, envs: gym.vector.VectorEnv[Any, Any, Any], tasks: Sequence[Mapping[str, Any]],
    shares: Mapping[Any, float], *, seed: int, swapped: float = 0.5,
) -> list[Reply]:  # fmt: skip
    """Return expert steps with contexts in front of their prompts: what makes a clone that reads contexts.

    Some prompts get context and reply of another step, so that a clone reads what is in a block.

    Args:
        envs: the same; their expert may be another than the one that is cloned.
        shares: by name of the context, see `wrappers.privileged`, how many rows it gets, in multiples of the expert's
            steps. For "sibling" every task is played twice.
        seed: of the environments, and of the choice of steps.
        swapped: share of these rows with the context and the reply of another step.
    """
    rng, found = np.random.default_rng(seed), list[Reply]()
    for context, share in shares.items():
        config = PrivilegedConfig(context=context)
        noted = config.around(envs)
        with warnings.catch_warnings(category=RuntimeWarning, action="ignore"):  # episodes of a task may be alike here
            size = 1 + (context == "sibling")
            table = collect(noted, Demonstrator(policy), tasks=tasks, group_size=size, seed=seed)
        scorer, replies = config.make_in(policy, noted), table.replies
        assert replies is not None
        texts = scorer.contexts(table).right
        rows = np.array([i for i, text in enumerate(texts) if text is not None and replies[i].token_ids])
        count = round(share * len(rows) / size)
        chosen = rng.permuted(np.tile(rows, -(-count // len(rows))))[:count] if len(rows) else rows
        sources = np.where(rng.random(len(chosen)) < swapped, rng.permutation(chosen), chosen)
        for row, source in zip(chosen.tolist(), sources.tolist(), strict=True):
            [prompt] = scorer.prompts(table, [texts[source]], [row])
            if prompt:
                found.append(dataclasses.replace(replies[source], prompt_ids=prompt))
    return found


def won_steps(table: StepTable) -> list[Reply]:
    """Return the replies of won episodes whose actions were accepted, with their tokens, in the table's order.

    Args:
        table: from `collect`, or from `agentgym.rollout.hindsight.relabel_goals` with the policy's `demonstrate`. Of an
            episode that was cut from another one, only its own rows count.

    Raises:
        ValueError: such a row has no tokens.
    """
    found: list[Reply] = []
    for row in np.flatnonzero(table.won & table.valid).tolist():
        reply = None if table.replies is None else table.replies[row]
        if reply is None or not reply.token_ids:
            raise ValueError(
                f"row {row} of the table has no reply tokens: relabel with demonstrate=policy.demonstrate, or collect "
                "with a policy that returns token ids"
            )
        found.append(reply)
    return found


def clone(
    policy: HuggingFacePolicy, envs: gym.vector.VectorEnv[Any, Any, Any], tasks: Sequence[Mapping[str, Any]], *,
    seed: int, microbatch_rows: int | None = None, microbatch_tokens: int | Literal["auto"] | None = "auto",
    beside: Sequence[Reply] = (), **options: Any,
) -> CloneResult:  # fmt: skip
    """Train the policy, in place, to write what the expert does: `demonstrations`, and `imitate`.

    Args:
        envs: with autoreset `DISABLED`, made with `expert=True` and wrapped as for the student.
        tasks: reset options of the demonstrated tasks.
        beside: further replies to train on.
        **options: the other arguments, the result and the errors are those of `imitate`.

    Raises:
        KeyError: the environments were not made with `expert=True`.
        ValueError: the policy cannot write the expert's actions, or as `imitate`.
    """
    updates, memory = Updates(seed=seed, **options), Memory(microbatch_rows, microbatch_tokens)
    check_trainable(policy.model)
    started = time.perf_counter()
    rows = demonstrations(policy, envs, tasks, seed=seed)
    collect_seconds = time.perf_counter() - started
    result = _imitate(policy, [*rows, *beside], updates, memory)
    result.collect_seconds = collect_seconds
    return result


def imitate(
    policy: HuggingFacePolicy,
    rows: Sequence[Reply],
    *,
    microbatch_rows: int | None = None,
    microbatch_tokens: int | Literal["auto"] | None = "auto",
    **options: Any,
) -> CloneResult:
    """Train the policy, in place, to write these replies.

    Minimises the mean of -log p(token) over the tokens of the replies, at temperature 1. The result depends on the
    arguments and the initial weights alone.

    Args:
        rows: replies with the policy's own prompt ids and token ids, as `HuggingFacePolicy.demonstrate` makes them.
        microbatch_rows: rows per forward and backward pass; None: a batch at once. Changes memory only.
        microbatch_tokens: tokens per pass, see `baselines.config.Memory`.
        **options: fields of `baselines.imitation.updates.Updates`; `epochs` and `seed` are required.

    Returns:
        Loss and accuracy per epoch. The last epoch may be incomplete.

    Raises:
        TypeError: an unknown option, or a value of the wrong type.
        ValueError: a number is out of range, there are no rows, a row has no tokens, or a trainable weight of the
            policy has fewer than 32 bits.
        FloatingPointError: the gradient is not finite; the weights are those of the last good update.
        torch.OutOfMemoryError: a pass did not fit; the message names the setting to lower.
    """
    updates, memory = Updates(**options), Memory(microbatch_rows, microbatch_tokens)
    check_trainable(policy.model)
    return _imitate(policy, rows, updates, memory)


def _imitate(policy: HuggingFacePolicy, rows: Sequence[Reply], updates: Updates, memory: Memory) -> CloneResult:
    empty = next((i for i, row in enumerate(rows) if not row.token_ids or not row.prompt_ids), None)
    if empty is not None or not len(rows):
        what = "there are no rows" if empty is None else f"row {empty} has no tokens ({rows[empty]!r:.80})"
        raise ValueError(f"nothing can be learned, {what}: imitate needs replies as policy.demonstrate makes them")
    limits = Limits.of(policy, memory, [row.prompt_ids for row in rows], [row.token_ids for row in rows])
    longest = max(len(row.prompt_ids) + len(row.token_ids) for row in rows)
    with (
        memory_explained(lambda: limits.advice(f"an update of {updates.batch_size} rows", longest)),
        recomputed_activations(policy.model) if limits.recompute else contextlib.nullcontext(),
    ):
        return _fitted(policy, rows, updates, limits)


def _fitted(policy: HuggingFacePolicy, rows: Sequence[Reply], updates: Updates, limits: Limits) -> CloneResult:
    result = CloneResult(rows=len(rows))
    started = time.perf_counter()
    # Cross-entropy and number of correct tokens are summed on the device: one transfer per update.
    sums, tokens = torch.zeros(2, dtype=torch.float64, device=policy.device), 0
    for batch in updates.batches(policy.model, len(rows)):
        if batch.epoch > len(result.history):
            sums, tokens = torch.zeros_like(sums), 0
            result.history.append({})
        chosen = [rows[i] for i in batch.items]
        count = sum(len(row.token_ids) for row in chosen)
        prompts, replies = [row.prompt_ids for row in chosen], [row.token_ids for row in chosen]
        for few in limits.passes(prompts, replies, np.arange(len(chosen))):
            scores = policy.score(
                [prompts[i] for i in few], [replies[i] for i in few], temperature=1.0, entropy=None, **limits.scoring
            )
            loss = -scores.logprobs.sum() / count
            loss.backward()
            sums += torch.stack([loss.detach().double() * count, scores.top.sum().double()])
        tokens += count
        summed, right = sums.tolist()
        result.history[-1] = {
            "epoch": batch.epoch,
            "loss": summed / tokens,
            "accuracy": right / tokens,
            "seconds": time.perf_counter() - started,
        }
    return result
