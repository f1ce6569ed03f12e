"""Transcripts are continued in the tokens they were written in: a prompt begins with the one before and its reply."""

import itertools

import gymnasium as gym
import numpy as np
import pytest

from agentgym.registry import ROWS
from agentgym.rollout import collect
from baselines.engines.sequences import token_sequences
from policies.prompts import PromptEncoder, PromptTooLongError
from policies.tiny import tiny_policy, tiny_tokenizer
from tests.cases import cases
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


@cases("written, prefix, suffix", ("up<|end|>", "", ""), *((each, *TAGS) for each in ("up", "up</action>")))
def test_what_ends_a_reply_stands_there_once(written: str, prefix: str, suffix: str) -> None:
    tokenizer = _tokenizer()
    encoder = _encoder(tokenizer, prefix=prefix, suffix=suffix)
    said = f"{prefix}up{suffix}"
    encoder.remember(encoder(_chat("cell")), said, _ids(tokenizer, written))
    text = f"<|user|>cell<|end|>\n<|assistant|>{said}<|end|>\n<|user|>one<|end|>\n<|assistant|>{prefix}"
    assert encoder(_chat("cell", said, "one")) == _ids(tokenizer, text)


@pytest.mark.parametrize("template", [FORGETFUL, None])
def test_replies_of_others_read_as_if_rendered_at_once(template: str | None) -> None:
    tokenizer = _tokenizer(template)
    encoder = _encoder(tokenizer, prefix="<action>", suffix="</action>")
    chat = _chat("cell", "<action>up</action>", "one", "<action>down</action>", "two")
    if template:
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    else:
        text = "".join(f"{message['content']}\n" for message in chat)
    assert encoder(chat) == _ids(tokenizer, text + "<action>")


def test_the_cache_may_start_anew(monkeypatch) -> None:
    tokenizer = _tokenizer()
    monkeypatch.setattr("policies.prompts._MOST_IDS", 20)
    small, large = _encoder(tokenizer), []
    for turn in range(1, 8, 2):
        large.append(small(_chat(*["cell"] * turn)))
        small.remember(large[-1], "cell", tuple(_ids(tokenizer, "c") + _ids(tokenizer, "ell")))
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(large))


def test_cuts_and_limits() -> None:
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


def test_demonstrations_are_read_in_the_tokens_of_the_turns_before() -> None:
    policy = tiny_policy(["cell one"], seed=0, extra_words=["up"], max_new_tokens=4, prefix="", suffix="")
    first = policy.demonstrate(_chat("cell"), "<action>up</action>")
    second = policy.demonstrate(_chat("cell", "<action>up</action>", "one"), "<action>up</action>")
    seen = first.prompt_ids + first.token_ids
    assert second.prompt_ids[: len(seen)] == seen


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
