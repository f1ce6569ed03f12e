"""Encoding of observations as token ids of prompts: chat template, prefix, and a cache, because observations repeat.

A window is rendered and tokenized again at every step. A transcript (`wrappers.transcript`) is continued:

    previous prompt | tokens of the reply | suffix, template and new observation | prefix

Tokenizing its text again might give other tokens than the model wrote, and templates delete earlier thoughts.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentgym.outside.text import clean

Prompt = tuple[int, ...]

Messages = tuple[tuple[str, str], ...]

#: Numbers from this on are no tokens: runs of them stand for pictures, see `policies.vision.store`.
FIRST_PICTURE = 2**31

# Token ids kept before the cache is emptied: about 64 MiB.
_MOST_IDS = 2**21
# Replies whose tokens are known. Only those of the last step are needed.
_MOST_REPLIES = 2**16
# Placeholder of a reply, to find the template's text after it.
_REPLY = "<<reply>>"


def last_tokens(ids: Prompt, most: int) -> Prompt:
    """Return the last tokens of a prompt, at most `most`, without a part of a picture.

    >>> last_tokens((5, FIRST_PICTURE, FIRST_PICTURE + 1, 6, 7), 3)
    (6, 7)
    """
    if len(ids) <= most:
        return ids
    kept = ids[len(ids) - most :]
    return tuple(itertools.dropwhile(_is_of_picture, kept))


def first_tokens(ids: Prompt, most: int) -> Prompt:
    """Return the first tokens of a prompt, at most `most`, without a part of a picture.

    >>> first_tokens((5, FIRST_PICTURE, FIRST_PICTURE + 1, 6, 7), 2)
    (5,)
    """
    return last_tokens(ids[::-1], most)[::-1]


def _is_of_picture(token: int) -> bool:
    return token >= FIRST_PICTURE


class PromptTooLongError(ValueError):
    """A prompt leaves no room for the reply."""


class PromptEncoder:
    """Renders observations with a tokenizer's chat template and keeps the result.

    Args:
        tokenizer: a Hugging Face tokenizer; without a chat template the contents are joined by newlines.
        suffix: text at the end of every reply that is not among its tokens.
        new_tokens: room for the reply.
        positions: the model's longest context, None for no limit.
        vocabulary: vocabulary size of the model, None if unknown.
        longest: maximum length of a prompt, None: as the positions allow.
        cut: whether a longer prompt loses its beginning; else it raises.
    """

    def __init__(
        self, tokenizer: Any, *, prefix: str, suffix: str = "", ends: Collection[int] = (), new_tokens: int,
        positions: int | None, vocabulary: int | None = None, template: Mapping[str, Any] | None = None,
        longest: int | None = None, cut: bool = False,
    ) -> None:  # fmt: skip
        self._tokenizer = tokenizer
        self._prefix = prefix
        self._suffix = suffix
        self._ends = ends
        self._new_tokens = new_tokens
        self._positions = positions
        self._longest = longest
        self._cut = cut
        self._vocabulary = vocabulary
        self._template = {"chat_template": tokenizer.chat_template} | dict(template or {})
        self._known: dict[Any, Prompt] = {}
        self._replies: dict[tuple[Prompt, str], Prompt] = {}
        self._ids = 0

    def __call__(self, observation: Any) -> Prompt:
        """Return the token ids of one observation; errors as in `policies.huggingface.HuggingFacePolicy.encode`."""
        key = _key(observation)
        found = self._known.get(key)
        if found is None:
            messages = (("user", key),) if isinstance(key, str) else key
            found = self._continued(messages) if _is_transcript(messages) else self._rendered(messages)
            self._keep(key, found)
        return found

    def remember(self, prompt: Prompt, text: str, token_ids: Sequence[int]) -> None:
        """Record the tokens of a reply, for a transcript that continues after it.

        If two replies to one prompt are the same text in different tokens, the later one counts.
        """
        self._replies[prompt, text] = tuple(token_ids)
        if len(self._replies) > _MOST_REPLIES:
            del self._replies[next(iter(self._replies))]

    def _keep(self, key: Any, ids: Prompt) -> None:
        self._ids += len(ids)
        if self._ids > _MOST_IDS:
            self._known, self._ids = {}, len(ids)
        self._known[key] = ids

    def _rendered(self, messages: Messages) -> Prompt:
        # A chat template writes the special tokens itself.
        special = not self._template["chat_template"]
        return self._checked(self._tokens(self._text(messages) + self._prefix, special))

    def _continued(self, messages: Messages) -> Prompt:
        known = len(messages)
        while _is_transcript(messages[:known]) and messages[:known] not in self._known:
            known -= 2
        prompt = self._known.get(messages[:known]) or self._rendered(messages[:known])
        for turn in range(known, len(messages), 2):
            (_, reply), seen = messages[turn : turn + 2]
            prompt = self._checked(prompt + self._turn(prompt, reply, seen))
            self._keep(messages[: turn + 2], prompt)
        return prompt

    def _turn(self, prompt: Prompt, reply: str, seen: tuple[str, str]) -> Prompt:
        written = self._replies.get((prompt, reply))
        if written is None:  # the policy did not write this reply
            text = clean(reply, len(reply)).removeprefix(self._prefix).removesuffix(self._suffix)
            written = self._tokens(text)
        between = self._text((("user", "-"), ("assistant", _REPLY), seen)).partition(_REPLY)[2] + self._prefix
        if written and written[-1] in self._ends:
            between = between.removeprefix(self._tokenizer.decode([written[-1]]))
        if self._suffix and self._suffix not in self._tokenizer.decode(list(written)):
            between = self._suffix + between
        return written + self._tokens(between)

    def _tokens(self, text: str, special: bool = False) -> Prompt:
        return tuple(self._tokenizer(text, add_special_tokens=special)["input_ids"])

    def _text(self, messages: Messages) -> str:
        # Half a surrogate pair would raise in the tokenizer, in the middle of training.
        chat = [{"role": clean(role, len(role)), "content": clean(text, len(text))} for role, text in messages]
        if not self._template["chat_template"]:
            return "".join(f"{message['content']}\n" for message in chat)
        return self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **self._template)

    def _checked(self, ids: Prompt) -> Prompt:
        room = None if self._positions is None else self._positions - self._new_tokens
        limits = [limit for limit in (room, self._longest) if limit is not None]
        if not ids or min(limits, default=1) < 1:
            raise ValueError(
                f"a prompt of {len(ids)} tokens with up to {self._new_tokens} new ones does not fit the "
                f"model's {self._positions} positions (at least one token is needed): shorten the history or the reply"
            )
        if limits and len(ids) > min(limits):
            if not self._cut:
                raise PromptTooLongError(self._too_long(len(ids), room))
            # A continued transcript is truncated again, to the same suffix.
            ids = last_tokens(ids, min(limits))
        largest = max(ids) if max(ids) < FIRST_PICTURE else max(token for token in ids if token < FIRST_PICTURE)
        if self._vocabulary is not None and largest >= self._vocabulary:
            raise ValueError(
                f"the tokenizer made token {largest}, but the model knows {self._vocabulary} tokens: "
                "load the tokenizer that belongs to the model"
            )
        return ids

    def _too_long(self, tokens: int, room: int | None) -> str:
        if room is None or (self._longest is not None and self._longest < room):
            limit = f"has more than max_prompt_tokens={self._longest}"
        else:
            limit = (
                f"with up to {self._new_tokens} new ones does not fit the model's {self._positions} positions "
                "(at least one token is needed)"
            )
        return (
            f"a prompt of {tokens} tokens {limit}: shorten the history or the reply, or say what becomes of it, "
            "truncate='left' or 'end-episode'"
        )


def _is_transcript(messages: Messages) -> bool:
    return len(messages) > 2 and messages[-2][0] == "assistant" and messages[-1][0] != "assistant"


def _key(observation: Any) -> Any:
    if isinstance(observation, str):
        return observation
    try:
        messages = tuple((message["role"], message["content"]) for message in observation)
    except (TypeError, KeyError, IndexError):
        messages = ()
    if not messages or not all(isinstance(text, str) for message in messages for text in message):
        raise TypeError(
            "an observation must be a str or a non-empty sequence of {'role': str, 'content': str} messages, got "
            f"{observation!r:.200}: wrap the environments in wrappers.VectorPromptWindow (pictures are for policies of "
            "policies.vision.policy)"
        )
    return messages
