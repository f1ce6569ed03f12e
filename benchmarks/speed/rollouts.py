"""`speed rollouts`: episodes of a language model that reads no text twice, and of others that do.

Sokoban's episodes as one growing conversation each, all side by side. transformers' `generate`, and vLLM where it is
installed, write as many tokens to the prompts of each turn. Seconds are the processor's, so that other processes matter
little; on a GPU wall seconds.
"""

import functools
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import torch
import typer

import agentgym  # noqa: F401  registers the environments
from agentgym.rollout import collect
from agentgym.trajectory import Reply, StepTable
from benchmarks.console import option
from benchmarks.speed.record import Measurement, Part, SpeedConfig, speed_study
from policies.decode.kept import TokenCounts
from policies.engines.vllm import VllmSampler, check_version
from policies.huggingface import HuggingFacePolicy
from policies.lora import LoraSettings, add_lora
from policies.smollm2 import TEMPLATE, smollm2_folder
from policies.tiny import tiny_policy
from wrappers import VectorReplyParser, VectorTranscript

PARTS = {
    "kept": "keys and values are kept between turns (reuse=True)",
    "adapter": "the same with an adapter, merged while it plays",
    "whole": "every prompt is read from its beginning (reuse=False)",
    "generate": "transformers' generate",
    "adapter_generate": "the same with an adapter",
    "vllm": "vLLM",
}
#: Of the adapter.
RANK = 16
COST, TOKENS = "seconds of the same episodes: the processor's, or on a GPU the clock's", "tokens"


def checked_names(option: str, given: str, known: Iterable[str]) -> list[str]:
    """Return names that are separated by commas; `typer.BadParameter` where one is not known."""
    if unknown := sorted({*given.split(",")} - {*known}):
        raise typer.BadParameter(f"{option}: expected names out of {', '.join(known)}; got {', '.join(unknown)}")
    return given.split(",")


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


def seconds(device: torch.device) -> float:
    """Return the processor's seconds so far, or where a GPU computes those of the clock, after its work."""
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def play(
    policy: HuggingFacePolicy, tasks: int, turns: int, group_size: int = 1
) -> tuple[StepTable, float, TokenCounts]:
    """Play episodes of each task, all side by side; return their table, seconds, and counts of tokens."""
    envs = gym.make_vec("AgentRL/Sokoban-v0", tasks * group_size, max_episode_steps=turns, autoreset_mode="Disabled")
    given = [{"split": "train", "index": index} for index in range(tasks)]
    begin = seconds(policy.device)
    table = collect(VectorTranscript(VectorReplyParser(envs)), policy, tasks=given, group_size=group_size, seed=0)
    counts: TokenCounts = policy.sampler.counts  # type: ignore[attr-defined]
    return table, seconds(policy.device) - begin, counts


def replies_of(table: StepTable) -> list[Reply]:
    """Return the replies of a table's rows."""
    return [] if table.replies is None else [reply for reply in table.replies if reply is not None]


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
def generate(policy: HuggingFacePolicy, turn: list[Reply]) -> None:
    """Write to the prompts of a turn by `generate`."""
    prompts = [torch.tensor(reply.prompt_ids) for reply in turn]
    ids = torch.nn.utils.rnn.pad_sequence(prompts, batch_first=True, padding_side="left")
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    mask = (torch.arange(ids.shape[1]) >= ids.shape[1] - lengths[:, None]).long()
    policy.model.generate(
        input_ids=ids.to(policy.device), attention_mask=mask.to(policy.device),
        do_sample=True, max_new_tokens=max(len(reply.token_ids) for reply in turn), pad_token_id=0,
    )  # fmt: skip


def vllm_writer(policy: HuggingFacePolicy, folder: Path) -> Callable[[list[Reply]], Any]:
    """Return what writes to the prompts of a turn by vLLM, in this process, whose processor time is counted."""
    for name, value in {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1",
                        "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1"}.items():  # fmt: skip
        os.environ.setdefault(name, value)
    policy.save_pretrained(folder / "model")
    sampler = VllmSampler.start(folder / "model", work=folder / "weights", dtype="float32", max_model_len=2048)
    vllm, engine = sampler._vllm, sampler._engine

    def write(turn: list[Reply]) -> None:
        prompts = [{"prompt_token_ids": list(reply.prompt_ids)} for reply in turn]
        lengths = [len(reply.token_ids) for reply in turn]
        given = [vllm.SamplingParams(max_tokens=n, ignore_eos=True, logprobs=0, detokenize=False) for n in lengths]
        engine.generate(prompts, given, use_tqdm=False)

    return write


def measure(config: SpeedConfig, part: str, folder: Path) -> Part:
    """Measure one way to write the replies."""
    model, transcripts, turns, new = (config.options[name] for name in ("model", "transcripts", "turns", "new_tokens"))
    what, ours = PARTS[part], part in ("kept", "adapter", "whole")
    try:
        check_version() if part == "vllm" else None
    except ImportError as error:
        return Part([], [f"vLLM: {error}"])
    policy = policy_of(model, new, part != "whole")
    if part.startswith("adapter"):
        policy = add_lora(policy, LoraSettings(RANK), seed=0)
    table, spent, counts = play(policy, transcripts, turns)
    replies = replies_of(table)
    if not ours:
        with tempfile.TemporaryDirectory() as work:
            write = vllm_writer(policy, Path(work)) if part == "vllm" else functools.partial(generate, policy)
            begin = seconds(policy.device)
            for turn in range(turns):
                if said := [reply for reply, t in zip(replies, table.t, strict=True) if t == turn]:
                    write(said)
            spent = seconds(policy.device) - begin
    written = sum(len(reply.token_ids) for reply in replies)
    found = [
        Measurement(f"{part}_seconds", COST, what, ours, spent, "s", column="seconds"),
        Measurement(f"{part}_rate", COST, what, ours, written / spent, "1/s", column="reply tokens a second"),
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
    model: Annotated[str, option("smollm2, tiny, or a model's folder.")] = "smollm2",
    transcripts: Annotated[int, option("Parallel episodes.", min=1)] = 8,
    turns: Annotated[int, option("Turns of an episode.", min=1)] = 12,
    new_tokens: Annotated[int, option("Maximum tokens of a reply.", min=2)] = 12,
    parts: Annotated[str, option("Parts, separated by commas.")] = ",".join(PARTS),
    quick: Annotated[bool, option("Two short episodes of the tiny model; for CI.", "--quick")] = False,
) -> SpeedConfig:
    """Compare rollouts that keep keys and values with rollouts that read whole prompts."""
    if quick:
        model, transcripts, turns, new_tokens = "tiny", 2, 3, 4
    options = {"model": model, "transcripts": transcripts, "turns": turns, "new_tokens": new_tokens}
    return SpeedConfig(checked_names("--parts", parts, PARTS), options)


STUDY = speed_study("rollouts", "Rollouts and the text they read", configure, measure)
