"""Chat templates in the forms that models have, and transcripts that go on in the tokens they were written in."""

import dataclasses
import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from agentgym.outside.text import DataError
from agentgym.registry import ROWS
from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from baselines.batch import make_batch
from baselines.engines.sequences import token_sequences
from benchmarks.run import app
from policies.decode.sampler import Completion, Decoding
from policies.huggingface import HuggingFacePolicy
from policies.pretrained import mixed_precision
from policies.prompts import PromptEncoder, PromptTooLongError
from policies.tiny import tiny_policy, tiny_tokenizer
from tests.cases import cases
from tests.policies.agreement import moved
from tests.policies.small_models import small_model
from tests.refusals import refuses
from wrappers import VectorReplyParser, VectorTranscript

# Speakers, ends of messages, and thoughts that vanish once they are past, as in templates of thinking models.
FORGETFUL = (
    "{% for m in messages %}<|{{ m.role }}|>"
    "{{ m.content.split('</think>')[-1] if m.role == 'assistant' else m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


TAGS = ("<action>", "</action>")


def _tokenizer(template: str | None = FORGETFUL):
    tokenizer = tiny_tokenizer(["cell one two"], ["up", "down"])
    tokenizer.chat_template = template
    return tokenizer


def _encoder(tokenizer, **options) -> PromptEncoder:
    options = {"prefix": "", "new_tokens": 8, "positions": None, "ends": {tokenizer.eos_token_id}} | options
    return PromptEncoder(tokenizer, **options)


def _chat(*texts: str) -> list[dict[str, str]]:
    roles = ["user", "assistant"] * len(texts)
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def _ids(tokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def test_replies_stand_in_their_own_tokens() -> None:
    tokenizer = _tokenizer()
    encoder = _encoder(tokenizer)
    first = encoder(_chat("cell one"))
    letters = _ids(tokenizer, "u") + _ids(tokenizer, "p")  # "up" cut anew would be one token
    encoder.remember(first, "up", _ids(tokenizer, "up"))
    encoder.remember(first, "up", letters)  # the last one counts
    second = encoder(_chat("cell one", "up", "cell two"))
    assert second == first + letters + _ids(tokenizer, "<|end|>\n<|user|>cell two<|end|>\n<|assistant|>")
    encoder.remember(second, "down", _ids(tokenizer, "down"))
    assert encoder(_chat("cell one", "up", "cell two", "down", "cell one"))[: len(second)] == second
    # Demonstrations are read in the tokens of the turns before.
    policy = tiny_policy(["cell one"], seed=0, extra_words=["up"], max_new_tokens=4, prefix="", suffix="")
    first = policy.demonstrate(_chat("cell"), "<action>up</action>")
    second = policy.demonstrate(_chat("cell", "<action>up</action>", "one"), "<action>up</action>")
    seen = first.prompt_ids + first.token_ids
    assert second.prompt_ids[: len(seen)] == seen


@cases("written, prefix, suffix", ("up<|end|>", "", ""), *((each, *TAGS) for each in ("up", "up</action>")))
def test_what_ends_a_reply_stands_there_once(written: str, prefix: str, suffix: str) -> None:
    tokenizer = _tokenizer()
    encoder = _encoder(tokenizer, prefix=prefix, suffix=suffix)
    said = f"{prefix}up{suffix}"
    encoder.remember(encoder(_chat("cell")), said, _ids(tokenizer, written))
    text = f"<|user|>cell<|end|>\n<|assistant|>{said}<|end|>\n<|user|>one<|end|>\n<|assistant|>{prefix}"
    assert encoder(_chat("cell", said, "one")) == _ids(tokenizer, text)


def test_cuts_limits_and_caches(monkeypatch) -> None:
    tokenizer = _tokenizer()
    whole, short = _encoder(tokenizer), _encoder(tokenizer, longest=20, cut=True)
    letters = _ids(tokenizer, "u") + _ids(tokenizer, "p")  # as the policy wrote them; cut anew they were one token
    texts: list[str] = ["cell one"]
    for turn in range(4):
        full, cut = whole(_chat(*texts)), short(_chat(*texts))
        assert cut == full[-20:]
        # <|user|>cell one<|end|>\n<|assistant|>, and u p<|end|>\n<|user|>cell two<|end|>\n<|assistant|> for each turn.
        assert len(full) == 7 + 11 * turn
        whole.remember(full, "up", letters)
        short.remember(cut, "up", letters)
        texts += ["up", "cell two"]
    # A render of the whole at once, from the first message on, ends in the same tokens.
    short._known.clear()
    assert short(_chat(*texts)) == whole(_chat(*texts))[-20:]
    text = "cell one" * 4
    length = len(_encoder(tokenizer)(text))
    for options in ({"longest": length}, {"positions": length + 8}, {"positions": length + 8, "longest": length + 1}):
        assert len(_encoder(tokenizer, **options)(text)) == length
    for options, words in (
        ({"longest": length - 1, "positions": 999}, f"of {length} tokens has more than max_prompt_tokens={length - 1}"),
        ({"positions": length + 7, "longest": 999}, f"not fit the model's {length + 7} positions"),
    ):
        refuses(PromptTooLongError, words, _encoder(tokenizer, **options), text)
        assert len(_encoder(tokenizer, cut=True, **options)(text)) == length - 1
    with pytest.raises(ValueError, match="at least one token is needed") as caught:
        _encoder(tokenizer, positions=8, cut=True)(text)  # eight new tokens leave no room at all
    assert not isinstance(caught.value, PromptTooLongError)
    # The cache may start anew.
    tokenizer = _tokenizer()
    monkeypatch.setattr("policies.prompts._MOST_IDS", 20)
    small, large = _encoder(tokenizer), []
    for turn in range(1, 8, 2):
        large.append(small(_chat(*["cell"] * turn)))
        small.remember(large[-1], "cell", tuple(_ids(tokenizer, "c") + _ids(tokenizer, "ell")))
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(large))


@pytest.mark.parametrize("id", [row.id for row in ROWS if row.id != "AgentRL/VisualSokoban-v0"])
def test_whole_episodes_are_one_sequence_in_every_environment(id: str) -> None:
    envs = gym.make_vec(id, num_envs=3, autoreset_mode="Disabled", max_episode_steps=5)
    envs = VectorTranscript(VectorReplyParser(envs))
    texts = [envs.reset(seed=1)[0][0][-1]["content"]]
    policy = tiny_policy(texts, seed=0, positions=20_000, max_new_tokens=5, prefix="", suffix="")
    table = collect(envs, policy, tasks=[{"index": index} for index in range(3)], seed=0)
    sequences = token_sequences(table, np.ones(len(table)))
    assert sorted(len(one.rows) for one in sequences) == sorted(np.bincount(table.trajectory).tolist())
    assert max(len(one.rows) for one in sequences) > 1


#: What Qwen3's own template writes, in other words: thoughts before the last question go, those of tool calls behind it
#: stay, tools answer as the user does, and an empty block in the generation prompt stands for "do not think".
THINKING = """{%- set at = namespace(question=messages | length - 1) %}
{%- for m in messages %}
{%- set wrapped = m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>') %}
{%- if m.role == 'user' and not wrapped %}{% set at.question = loop.index0 %}{% endif %}
{%- endfor %}
{%- for m in messages %}
{%- set thought, said = '', m.content %}
{%- if m.role == 'assistant' and '</think>' in said %}
{%- set thought = said.split('</think>')[0].split('<think>')[-1].strip('\n') %}
{%- set said = said.split('</think>')[-1].lstrip('\n') %}
{%- endif %}
{%- if m.role == 'tool' %}
{{- '<|im_start|>user' if loop.first or loop.previtem.role != 'tool' }}
{{- '\n<tool_response>\n' + said + '\n</tool_response>' }}
{{- '<|im_end|>\n' if loop.last or loop.nextitem.role != 'tool' }}
{%- elif m.role == 'assistant' and loop.index0 > at.question and (loop.last or thought) %}
{{- '<|im_start|>assistant\n<think>\n' + thought + '\n</think>\n\n' + said.lstrip('\n') + '<|im_end|>\n' }}
{%- else %}
{{- '<|im_start|>' + m.role + '\n' + said + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{{- '<think>\n\n</think>\n\n' if enable_thinking is defined and enable_thinking is false }}
{%- endif %}"""
#: As models with headers and a token at the end of a turn write (Llama 3).
HEADERS = (
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
#: As distilled reasoners write: the prompt opens the thought.
OPENING = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"
)


def _policy(template: str, *, positions: int = 512, **settings: object) -> HuggingFacePolicy:
    arguments = settings.pop("arguments", {})
    made = tiny_policy(["cell one two"], seed=0, layers=1, positions=positions, extra_words=["up", "down"])
    return made.with_settings(template={"chat_template": template, **arguments}, **settings)


def _read(policy: HuggingFacePolicy, *texts: str) -> tuple[tuple[int, ...], str]:
    ids = policy.encode(_chat(*texts))
    return ids, policy.tokenizer.decode(list(ids))


@cases(
    "template, arguments, end",
    (THINKING, {"enable_thinking": False}, "<|im_start|>assistant\n<think>\n\n</think>\n\n<action>"),
    (THINKING, {}, "<|im_start|>assistant\n<action>"),
    (HEADERS, {}, "<|start_header_id|>assistant<|end_header_id|>\n\n<action>"),
    (OPENING, {}, "<|assistant|><think>\n<action>"),
)
def test_a_prompt_ends_with_the_generation_prompt_and_the_prefix(
    template: str, arguments: dict[str, object], end: str
) -> None:
    policy = _policy(template, arguments=arguments, prefix="<action>", suffix="</action>", max_new_tokens=4)
    first, text = _read(policy, "cell one")
    assert text.endswith(end)
    # What was written goes on in its own tokens; the turn that follows ends alike, and empty thoughts are not doubled.
    (reply,) = policy.act(["cell one"], {}, np.random.default_rng(0))
    second, text = _read(policy, "cell one", reply.text, "cell two")
    assert second[: len(first) + len(reply.token_ids)] == first + reply.token_ids
    assert text.endswith(end)
    assert text.count("<think>") - reply.text.count("<think>") == 2 * end.count("<think>")


def test_the_attention_that_is_asked_for_reaches_the_model_and_16_bits_only_able_cards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_policy(["cell one"], seed=0, layers=1).save_pretrained(tmp_path / "model")
    for name in ("eager", "sdpa"):
        read = HuggingFacePolicy.from_pretrained(tmp_path / "model", attn_implementation=name)
        assert read.model.config._attn_implementation == name
    found: list[Any] = []

    def train_policy(config: Any, policy: Any, *_: Any, **__: Any) -> Any:
        found.append(policy.model.config._attn_implementation)
        raise DataError("enough")

    monkeypatch.setattr("baselines.runs.run.train_policy", train_policy)
    for name in ("eager", "sdpa"):
        given = ["train", "--env", "corridor", "--quick", "--model", str(tmp_path / "model"), "--attention", name]
        CliRunner().invoke(app, [*given, "--out", str(tmp_path / name)])
    assert found == ["eager", "sdpa"]
    # Cards that emulate bfloat16 compute in 32 bits.
    asked: list[bool] = []
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: asked.append(including_emulation))
    model: Any = SimpleNamespace(parameters=lambda: iter([SimpleNamespace(device=torch.device("cuda"))]))
    assert (mixed_precision(model), asked) == (None, [False])


def test_any_end_token_of_tokenizer_or_generation_config_ends_a_reply() -> None:
    made = tiny_policy(["cell one two"], seed=0, layers=1, extra_words=["up", "down", "eot"], max_new_tokens=8)
    turn, text_end = (made.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("eot", "down"))
    made.model.generation_config.eos_token_id = [turn, text_end]
    policy = HuggingFacePolicy(made.model, made.tokenizer, max_new_tokens=8, stop=())
    (up,) = made.tokenizer("up", add_special_tokens=False)["input_ids"]
    ends = {turn, text_end, made.tokenizer.eos_token_id}
    assert len(ends) == 3
    assert [policy._is_end([up, each]) for each in sorted(ends)] == [True] * 3
    assert not policy._is_end([up, up])
    replies = policy.with_settings(temperature=3.0).act(["one"] * 40, {}, np.random.default_rng(0))
    assert {reply.token_ids[-1] for reply in replies if reply.finish == "stop"} <= ends
    assert all(not ends & set(reply.token_ids[:-1]) for reply in replies)
    assert {reply.finish for reply in replies} == {"stop", "length"}


class Written:
    """A sampler that writes given tokens, with the model's own log-probabilities; after the last the first again."""

    def __init__(self, policy: HuggingFacePolicy, *replies: tuple[int, ...]) -> None:
        self._policy, self._replies = policy, itertools.cycle(replies)

    def follow(self, model: object, version: int) -> None:
        pass

    def write(self, prompts: Any, draws: Any, decoding: Decoding, restrictions: Any = None) -> list[Completion]:
        tokens = next(self._replies)
        found = self._policy.score(prompts, [tokens] * len(prompts)).logprobs.detach().tolist()
        finish = "stop" if decoding.is_end(tokens) else "length"
        return [Completion(list(tokens), logprobs, finish) for logprobs in found]


def _qwen3(*replies: str, **settings: Any) -> HuggingFacePolicy:
    """A model with Qwen3's end tokens (the tokenizer knows one of two) that writes replies letter by letter."""
    words = ["up", "down", "<tool_response>", "</tool_response>"]
    tokenizer = tiny_tokenizer(["cell one two go √"], words)
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = THINKING
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 4096}
    model = small_model("Qwen3", vocab_size=len(tokenizer), initializer_range=0.3, **sizes)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    policy = HuggingFacePolicy(model, tokenizer, **{"stop": (), "max_new_tokens": 60, **settings})
    return policy.with_sampler(Written(policy, *(_letters(policy, text) for text in replies))) if replies else policy


def _letters(policy: HuggingFacePolicy, text: str) -> tuple[int, ...]:
    """Tokens of a text that are not those its own tokenizer would make: words in letters."""
    pieces = re.findall(r"<[^<>]+>|[\s\S]", text)
    return tuple(policy.tokenizer.convert_tokens_to_ids(pieces))


def _rendered(policy: HuggingFacePolicy, messages: Any) -> str:
    given = {"tokenize": False, "add_generation_prompt": True, **policy.settings.template}
    text: str = policy.tokenizer.apply_chat_template(list(messages), **given)
    return text


NO_THOUGHT = "<think>\n\n</think>\n\n"


@cases("arguments, block", ({}, ""), ({"enable_thinking": True}, ""), ({"enable_thinking": False}, NO_THOUGHT))
def test_windows_and_conversations_of_others_are_what_the_template_renders(arguments: Any, block: str) -> None:
    policy = _qwen3(template=arguments)
    window = [{"role": "system", "content": "go"}, {"role": "user", "content": "cell one"}]
    text = f"<|im_start|>system\ngo<|im_end|>\n<|im_start|>user\ncell one<|im_end|>\n<|im_start|>assistant\n{block}"
    assert _rendered(policy, window) == text
    assert policy.encode(window) == _ids(policy.tokenizer, text)
    assert (
        policy.encode("cell one") == policy.encode(window[1:]) == _ids(policy.tokenizer, _rendered(policy, window[1:]))
    )
    # Without thoughts in the replies, a transcript differs by the blocks that stood in the earlier prompts.
    for reply in ("up", "down", "up"):
        window += [{"role": "assistant", "content": reply}, {"role": "user", "content": "cell two"}]
    read = policy.tokenizer.decode(list(policy.encode(window)))
    assert read.count("<think>") == 4 * bool(block)
    assert read.replace(block, "") == _rendered(policy, window).replace(block, "")
    if not block:
        assert policy.encode(window) == _ids(policy.tokenizer, _rendered(policy, window))


def test_thoughts_between_tool_calls_stay_and_what_tools_answer_is_rendered_as_the_template_does() -> None:
    policy = _qwen3()
    chat = [{"role": "user", "content": "cell one"}]
    first, thought = policy.encode(chat), "<think>\ngo\n</think>\n\nup"
    for answer in ("two", "one"):
        chat += [{"role": "assistant", "content": thought}, {"role": "tool", "content": answer}]
    assert policy.encode(chat) == _ids(policy.tokenizer, _rendered(policy, chat))
    assert policy.tokenizer.decode(list(policy.encode(chat)[len(first) :])) == "".join(
        f"{thought}<|im_end|>\n<|im_start|>user\n<tool_response>\n{answer}\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
        for answer in ("two", "one")
    )


def _episode(policy: HuggingFacePolicy, turns: int = 4) -> tuple[StepTable, list[Any]]:
    """Episodes of two tasks, and what the first of them showed at each turn."""
    shown = []

    class Listening:
        def act(self, observations: Any, infos: Any, rng: Any) -> Any:
            shown.append(observations[0])
            return policy.act(observations, infos, rng)

    envs = gym.make_vec("AgentRL/Sokoban-v0", 2, max_episode_steps=turns, autoreset_mode="Disabled")
    envs = VectorTranscript(VectorReplyParser(envs), instructions=False)
    return collect(envs, Listening(), tasks=[{"index": 3}, {"index": 4}], seed=0), shown


OPEN = "<think>\ngo go"
REPLIES = ("<think>\ngo\n</think>\n\n<action>up</action>", "<action>down</action>", OPEN)


@pytest.mark.filterwarnings("ignore:.*refused every action")
@pytest.mark.parametrize("thinks", [True, False])
def test_the_next_prompt_goes_on_behind_the_thoughts_that_the_template_would_drop(thinks: bool) -> None:
    """Thoughts, a reply ended by the other end token, and one that is cut in its thought."""
    arguments = {} if thinks else {"enable_thinking": False}
    ends = ("<|im_end|>", "<|endoftext|>", "")
    policy = _qwen3(*map("".join, zip(REPLIES, ends, strict=True)), template=arguments)
    table, shown = _episode(policy)
    (rows,) = [np.flatnonzero(table.trajectory == table.trajectory[table.order[0]])]
    replies = [table.replies[row] for row in rows]
    assert [reply.finish for reply in replies] == ["stop", "stop", "length", "stop"]
    assert [reply.text for reply in replies] == [*REPLIES, REPLIES[0]]  # end tokens are no text
    block, opened = "" if thinks else NO_THOUGHT, "<|im_start|>assistant\n"
    whole = ""
    for turn, (reply, messages) in enumerate(zip(replies, shown, strict=True)):
        whole += f"<|im_start|>user\n{messages[-1]['content']}<|im_end|>\n{opened}{block}"
        assert policy.tokenizer.decode(list(reply.prompt_ids)) == whole
        if turn:
            before = replies[turn - 1]
            assert reply.prompt_ids[: len(before.prompt_ids + before.token_ids)] == before.prompt_ids + before.token_ids
        # The template's own text lacks the blocks of earlier turns; `OPEN` is none, it is not closed.
        history = re.sub(r"<think>\n[a-z]*\n</think>\n\n", "", whole.removesuffix(block))
        assert _rendered(policy, messages) == history.replace("<|endoftext|>", "") + block
        whole += reply.text + ("<|endoftext|><|im_end|>\n" if turn == 1 else "<|im_end|>\n")


@pytest.mark.filterwarnings("ignore:.*refused every action")
@pytest.mark.parametrize("memory", [{}, {"microbatch_tokens": 400}, {"microbatch_tokens": 400, "share_prefixes": True}])
def test_an_update_reads_the_thoughts_in_the_tokens_that_were_sampled(memory: dict[str, Any]) -> None:
    policy = _qwen3(*(f"{text}<|im_end|>" for text in REPLIES), template={"enable_thinking": False})
    table, _ = _episode(policy)
    tokens = [_letters(policy, f"{text}<|im_end|>") for text in (*REPLIES, REPLIES[0])]
    assert all(len(each) > len(_ids(policy.tokenizer, policy.tokenizer.decode(list(each)))) for each in tokens)
    batch = make_batch(table, np.where(table.trajectory == 0, 1.0, -1.0), merge=False)
    assert sorted(batch.replies) == sorted(tokens * 2)
    assert batch.mask.sum(1).tolist() == [len(reply) for reply in batch.replies]
    # Each episode is one sequence: its replies are trained on, what the template put between them is not.
    for one in token_sequences(table, np.ones(len(table))):
        trained = [token for token, mine in zip(one.completion_ids, one.mask, strict=True) if mine]
        assert trained == [token for reply in tokens for token in reply]
        assert len(one.completion_ids) > len(trained)
    # Nothing has moved before the first step: the update reads the same tokens behind the same prompts.
    assert moved(policy, batch, **memory) == pytest.approx(0.0, abs=1e-6)
    plain = tuple(_ids(policy.tokenizer, policy.tokenizer.decode(list(prompt))) for prompt in batch.prompts)
    # Words in the tokenizer's own tokens.
    assert moved(policy, dataclasses.replace(batch, prompts=plain), **memory) > 1e-5
