"""`speed rollouts`: transcripts played by a language model that reads no text twice, and by others that do.

Sokoban's episodes as one growing conversation each, all side by side. transformers' `generate` writes as many tokens to
the prompts of each turn. Processor seconds, so that neighbours on the machine count little.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import torch
import typer

import agentgym  # noqa: F401  registers the environments
from agentgym.rollout import collect
from agentgym.trajectory import Reply
from benchmarks.speed.record import Measurement, Part, SpeedConfig, speed_study
from policies.decode.kept import TokenCounts
from policies.huggingface import HuggingFacePolicy
from policies.smollm2 import TEMPLATE, smollm2_folder
from policies.tiny import tiny_policy
from wrappers import VectorReplyParser, VectorTranscript

PARTS = {
    "kept": "keys and values are kept between turns (reuse=True)",
    "whole": "every prompt is read from its beginning (reuse=False)",
    "generate": "transformers' generate",
}
COST, TOKENS = "processor seconds of the same episodes", "tokens"


def policy_of(model: str, new_tokens: int, reuse: bool) -> HuggingFacePolicy:
    """Return the policy that plays: "tiny", "smollm2", or a model's folder."""
    if model == "tiny":
        words = ["up", "down", "left", "right", "#_PSXO\n"]
        tiny: HuggingFacePolicy = tiny_policy(
            words, seed=0, prefix="", suffix="", max_new_tokens=new_tokens, reuse=reuse
        )
        return tiny
    given: dict[str, Any] = {"template": {"chat_template": TEMPLATE}} if model == "smollm2" else {}
    folder = smollm2_folder() if model == "smollm2" else model
    return HuggingFacePolicy.from_pretrained(folder, max_new_tokens=new_tokens, reuse=reuse, **given)


def play(policy: HuggingFacePolicy, transcripts: int, turns: int) -> tuple[list[list[Reply]], float, TokenCounts]:
    """Play an episode of each task; return the replies of each turn, processor seconds, and counts of tokens."""
    envs = gym.make_vec("AgentRL/Sokoban-v0", transcripts, max_episode_steps=turns, autoreset_mode="Disabled")
    tasks = [{"split": "train", "index": index} for index in range(transcripts)]
    begin = time.process_time()
    table = collect(VectorTranscript(VectorReplyParser(envs)), policy, tasks=tasks, group_size=1, seed=0)
    seconds = time.process_time() - begin
    found = () if table.replies is None else table.replies
    turns_of = [[reply for reply in found[table.t == turn] if reply is not None] for turn in range(turns)]
    counts: TokenCounts = policy.sampler.counts  # type: ignore[attr-defined]
    return [replies for replies in turns_of if replies], seconds, counts


def distinct_tokens(replies: list[Reply]) -> int:
    """Return how many tokens are in a tree of the prompts and replies: what has to be read or written once."""
    found = set()
    for reply in replies:
        ids, node = (*reply.prompt_ids, *reply.token_ids), 0
        for token in ids:
            node = hash((node, token))
            found.add(node)
    return len(found)


@torch.no_grad()
def generate(policy: HuggingFacePolicy, turns: list[list[Reply]]) -> float:
    """Return the processor seconds of `generate` for the same prompts, turn by turn."""
    begin = time.process_time()
    for turn in turns:
        prompts = [torch.tensor(reply.prompt_ids) for reply in turn]
        ids = torch.nn.utils.rnn.pad_sequence(prompts, batch_first=True, padding_side="left")
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        policy.model.generate(
            ids, attention_mask=(torch.arange(ids.shape[1]) >= ids.shape[1] - lengths[:, None]).long(), do_sample=True,
            max_new_tokens=max(len(reply.token_ids) for reply in turn), pad_token_id=0,
        )  # fmt: skip
    return time.process_time() - begin


def measure(config: SpeedConfig, part: str, folder: Path) -> Part:
    """Measure one way to write the replies."""
    model, transcripts, turns, new = (config.options[name] for name in ("model", "transcripts", "turns", "new_tokens"))
    policy = policy_of(model, new, part != "whole")
    what = PARTS[part]
    played, seconds, counts = play(policy, transcripts, turns)
    replies = [reply for turn in played for reply in turn]
    written, ours = sum(len(reply.token_ids) for reply in replies), part != "generate"
    if not ours:
        seconds = generate(policy, played)
    found = [
        Measurement(f"{part}_seconds", COST, what, ours, seconds, "s", column="seconds"),
        Measurement(f"{part}_rate", COST, what, ours, written / seconds, "1/s", column="reply tokens a second"),
    ]
    if ours:
        columns = {
            "of all prompts": counts.prompts, "distinct": distinct_tokens(replies),
            "read, padding included": counts.read, "written": counts.written,
        }  # fmt: skip
        found += [
            Measurement(f"{part}_{name.split(',')[0].replace(' ', '_')}", TOKENS, what, True, value, "", column=name)
            for name, value in columns.items()
        ]
    return Part(found)


def configure(
    model: Annotated[str, typer.Option(help="smollm2, tiny, or a model's folder.")] = "smollm2",
    transcripts: Annotated[int, typer.Option(min=1, help="Episodes side by side.")] = 8,
    turns: Annotated[int, typer.Option(min=1, help="Turns of an episode.")] = 12,
    new_tokens: Annotated[int, typer.Option(min=2, help="Longest reply.")] = 12,
    quick: Annotated[bool, typer.Option("--quick", help="Two short episodes of the tiny model; for CI.")] = False,
) -> SpeedConfig:
    """Compare rollouts that read no text twice with rollouts that read whole prompts."""
    if quick:
        model, transcripts, turns, new_tokens = "tiny", 2, 3, 4
    options = {"model": model, "transcripts": transcripts, "turns": turns, "new_tokens": new_tokens}
    return SpeedConfig([*PARTS], options)


STUDY = speed_study("rollouts", "Rollouts and the text they read", configure, measure)
