"""Chat templates in the forms that models have: thoughts, end tokens, stop texts, the end of the context."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from agentgym.outside.text import DataError
from benchmarks.run import app
from policies.huggingface import HuggingFacePolicy
from policies.pretrained import mixed_precision
from policies.prompts import PromptTooLongError
from policies.tiny import tiny_policy
from tests.cases import cases
from tests.refusals import refuses

#: As thinking models of the Qwen3 family write: past thoughts go, an empty block stands for "do not think".
THINKING = """{%- for m in messages %}
{%- set text = m.content.split('</think>')[-1].lstrip('\n') if m.role == 'assistant' else m.content %}
{{- '<|im_start|>' + m.role + '\n' + text + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
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
    roles = ["user", "assistant"] * len(texts)
    ids = policy.encode([{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)])
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


def test_the_attention_that_is_asked_for_reaches_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_cards_that_emulate_bfloat16_compute_in_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_stop_text_over_several_tokens_ends_a_reply_at_its_last() -> None:
    policy = _policy(HEADERS, prefix="", suffix="", stop=("</act>",), max_new_tokens=16)
    ids = policy.tokenizer("up</act>down", add_special_tokens=False)["input_ids"]
    pieces = [policy.tokenizer.decode([each]) for each in ids]
    last = next(i for i in range(len(ids)) if "</act>" in "".join(pieces[: i + 1]))
    assert last > 2  # the text is no token of its own
    assert [policy._is_end(ids[: i + 1]) for i in range(last + 1)] == [False] * last + [True]


def test_a_prompt_at_the_end_of_the_context_is_played_and_one_token_more_is_not() -> None:
    written = {"prefix": "", "suffix": "</action>", "stop": (), "max_new_tokens": 3}
    whole = "cell " * 10
    fits = len(_read(_policy(THINKING, **written), whole)[0])
    policy = _policy(THINKING, positions=fits + 3, **written)
    (reply,) = policy.act([whole], {}, np.random.default_rng(1))
    assert len(reply.prompt_ids) == fits
    # The reply may be as long as the context leaves; where that cuts it, it says so, and its text has the suffix.
    cut = [policy.act([whole], {}, np.random.default_rng(seed))[0] for seed in range(8)]
    assert {len(one.token_ids) for one in cut if one.finish == "length"} == {3}
    assert all(one.text.endswith("</action>") for one in cut)
    tight = _policy(THINKING, positions=fits + 2, **written)
    refuses(PromptTooLongError, f"a prompt of {fits} tokens with up to 3 new ones", tight.encode, whole)
    (none,) = tight.with_settings(truncate="end-episode").act([whole], {}, np.random.default_rng(0))
    assert (none.finish, none.token_ids) == ("prompt-too-long", ())
    (left,) = tight.with_settings(truncate="left").act([whole], {}, np.random.default_rng(0))
    assert len(left.prompt_ids) == fits - 1
